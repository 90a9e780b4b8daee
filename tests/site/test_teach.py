"""The teacher's pack: its commands show what it says, its sums are right."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.beside import beside
from tools.common.launch import Launched, eventually
from tools.learn import exercises
from tools.servers import ROOT

TEACH = ROOT / "docs" / "teach"
BLOCK = re.compile(
    r'(?ms)^ *``` bash(?: title="(Terminal [12])")?\n(.*?)^ *```$'
)
SECONDS = 120  # for the commands of one block, on a very busy machine
PORTS = ("8000", "8001", "8080")  # of the page

# The demonstrations ---------------------------------------------------------

LEAVES = "the silent client leaves"
TIME = r"^[1-9]\S* s$"
QUEUED = r"^[1-9]\S* s\n[2-9]\S* s\n[3-9]\S* s$"  # one after the other
BEFORE, AFTER = f"{TIME}.*{LEAVES}", f"{LEAVES}.*{TIME}"
# What each must show, in the order in which it comes to an end.
SHOWS = {
    "one-line": QUEUED,
    "asleep": r"tests: +[3-9].*second: +\d\..*CPU [01]\.",
    "silent": AFTER,
    "queue": r"^LISTEN +[5-8] ",
    "pieces": r"^HTTP/1\.1 200 OK$",
    "calls": r"^accept4\(.*^recvfrom\(.*^sendto\(.*^shutdown\("
    r".*^recvfrom\(.*^close\(",
    "threads": rf"{BEFORE}.*^ *101$",
    "pool": AFTER,
    "lost": r"\A\d\d?$",
    "hundred": rf"{BEFORE}.*^ *1$",
    "blocked": QUEUED,
    "timers": r"^ *(3\d|4[01])$.*^ *1$",  # some may come late
    "byte": r"curl: \(28\)",
    "nothing": rf"\A(?!.*^hello$).*'hello' was never awaited.*{TIME}",
    "culprit": rf"{QUEUED}.*Executing <Task",
    "pressure": r"timed out.*peak memory (?!.*timed out).*peak memory",
    "cores": r"(^\S+ s\n){8}.*(^\S+ s\n){8}",
    "killed": r"^(\d+)\n(\d+)\n(\d+)\n\1\n\2\n(?!\3)\d+\n200$",
    "rings": r"^(yes: io_uring with|no: |io_uring)",
    "open-loop": rf"({TIME}\n){{5}}.*^[2-9]\S* s$",
    "lame-duck": r"^/healthz 200\n/ 200\n/healthz 503\n/ 200\n/ 000$",
    "behind": r"^ *\d+ 503\n(?!.* 503).*^ *60 200$",
}


def demos() -> dict[str, list[tuple[str, str]]]:
    """The commands of each as (terminal, text), in the page's order."""
    text = (TEACH / "demonstrations.md").read_text("utf-8")
    _, *parts = re.split(r"(?m)^## .*\{ #([\w-]+) \}$", text)
    return {
        name: BLOCK.findall(body)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


class Stage:
    """Two terminals. The ports and /tmp are replaced by our own.

    seen: what was printed, as each command came to its end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Launched | None = None
        self.seen = ""
        with contextlib.ExitStack() as open_now:
            self.ports = {
                port: open_now.enter_context(
                    socket.create_server(("127.0.0.1", 0))
                ).getsockname()[1]
                for port in PORTS
            }

    def command(self, text: str) -> list[str]:
        """How bash is to run a block; a silent client says when it leaves."""
        for port, ours in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(ours), text)
        for old, new in {
            "/tmp/": f"{self.folder}/",
            ".venv/bin/python": shlex.quote(sys.executable),
            "sleep 5)": f"sleep 5; echo {LEAVES})",
            "sleep(5)": f"sleep(5); print('{LEAVES}')",
        }.items():
            text = text.replace(old, new)
        if self.server:  # and no server of anybody else
            text = text.replace("pgrep ", f"pgrep -s {self.server.pid} ")
        return ["bash", "-c", f"exec 2>&1; {text}"]

    def start(self, text: str) -> None:
        """A server in terminal 1, in place of the last one."""
        self.stop()
        command = self.command(f"exec env {text.rstrip()} --port 8000")
        self.server = server = Launched(command, cwd=ROOT)
        assert eventually(lambda: "Serving on" in server.output, SECONDS)

    def stop(self) -> None:
        """Ctrl-C in terminal 1; whatever happens, nothing is left behind."""
        if self.server is None:
            return
        try:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.server.pid, signal.SIGINT)
            self.server.wait(SECONDS)
            self.seen += self.server.output
        finally:
            self.server.kill()
            self.server = None

    def run(self, text: str) -> None:
        """Commands in terminal 2, which end by themselves."""
        self.seen += subprocess.run(
            self.command(text), cwd=ROOT, stdout=subprocess.PIPE, text=True,
            timeout=SECONDS, check=False,
        ).stdout


def play(blocks: list[tuple[str, str]]) -> str:
    """Do what the page says in both terminals; what was seen there."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            for terminal, text in blocks:
                (stage.start if terminal == "Terminal 1" else stage.run)(text)
        finally:
            stage.stop()
        return stage.seen


def test_every_demonstration_is_tried() -> None:
    assert list(demos()) == list(SHOWS)


@pytest.mark.thorough
@pytest.mark.skipif(
    sys.platform != "linux", reason="some of the commands need Linux"
)
@pytest.mark.parametrize("name", demos())
@beside
def test_it_shows_what_the_page_says(name: str) -> None:
    """What comes too late on a busy machine is shown again, as in class."""
    blocks = demos()[name]
    text = " ".join(text for _, text in blocks)
    for program in ("bash", "curl", "ss", "strace", "pgrep", "haproxy"):
        if f"{program} " in text and not shutil.which(program):
            pytest.skip(f"there is no {program} here")
    seen = ""
    for _ in range(3):
        seen = play(blocks)
        if re.search(SHOWS[name], seen, re.MULTILINE | re.DOTALL):
            return
    pytest.fail(seen)


def test_bash_can_read_every_command() -> None:
    for page in TEACH.glob("*.md"):
        blocks = BLOCK.findall(page.read_text("utf-8"))
        text = "\n".join(text for _, text in blocks)
        done = subprocess.run(
            ["bash", "-n"], input=text, capture_output=True, text=True
        )
        assert not done.returncode, done.stderr
        for name in re.findall(r"\b0[1-7]_\w+/\w+\.py\b", text):
            assert (ROOT / name).is_file()


# The minutes ----------------------------------------------------------------

TASKS = {e.id: e for e in exercises.everything()}
# A table of parts: when each begins, how, what, and for how long.
PARTS = re.compile(
    r"((?:\| \d+:\d\d \|.*\n)+)\n(\d+) of (\d+) minutes"
    r"(?:, (\d+) to spare)?(?:, and (\d+) minutes of breaks)?\."
)
NAMED = re.compile(r"\[(0\d\.\d)\]\(\S+\)\s")


def sessions() -> list[str]:
    """The text of each session, by its number from 1."""
    text = (TEACH / "sessions.md").read_text("utf-8")
    return re.split(r"(?m)^## Session \d", text)[1:]


def named(text: str) -> list[str]:
    """The exercises that a text leads to, each with its own title."""
    found = NAMED.findall(text)
    words = " ".join(text.split())
    for each in found:
        assert f") {TASKS[each].title}" in words, each
    return found


def minutes(ids: list[str]) -> int:
    return sum(TASKS[each].minutes for each in ids)


@pytest.mark.parametrize("text", [
    *sessions(), (TEACH / "index.md").read_text("utf-8"),
], ids=[*range(1, 9), "day"])  # fmt: skip
def test_a_table_of_minutes_adds_up(text: str) -> None:
    """Exercises take the minutes of their tasks, and nothing too long."""
    ((table, worked, limit, spare, pause),) = PARTS.findall(text)
    rows = [line.split(" | ") for line in table.splitlines()]
    clock = rows[0][0].strip("| ")
    now = start = int(clock[:-3]) * 60 + int(clock[-2:])
    breaks = 0
    for at, how, what, took in (row[:4] for row in rows[:-1]):
        assert at == f"| {now // 60}:{now % 60:02}"
        length = int(took.rstrip(" |"))
        breaks += length * (how == "Break")
        if how == "Exercise":
            assert length == minutes(named(what))
        now += length
    assert rows[-1][:2] == [f"| {now // 60}:{now % 60:02}", "End"]
    assert int(worked) == now - start - breaks
    assert int(limit) - int(worked) == int(spare or 0)
    assert int(pause or 0) == breaks


def test_every_exercise_is_in_one_session_and_in_the_weeks() -> None:
    found = []
    weeks = (TEACH / "index.md").read_text("utf-8")
    _, weeks, _ = re.split(r"\| Session \|.*\n|\n\| Sum \|", weeks)
    sums = [0, 0]
    for text, week in zip(sessions(), weeks.splitlines()[1:], strict=True):
        ((table, worked, *_),) = PARTS.findall(text)
        lists = {
            name: (int(said), named(body))
            for name, said, body in re.findall(
                r"(?s)\*\*(Homework|For those who want more)\*\*\s"
                r"\((\d+)\s+minutes\):\s(.*?)\.\n\n", text
            )
        }
        for said, chosen in lists.values():
            assert said == minutes(chosen)
            found += chosen
        _, at_home = lists["Homework"]
        found += named(table)
        assert named(week) == named(table) + at_home
        assert week.endswith(f" | {minutes(at_home)} |")
        assert f" | {worked} | " in week
        assert minutes(at_home) <= 75
        sums = [sums[0] + int(worked), sums[1] + minutes(at_home)]
    assert sorted(found) == sorted(TASKS)
    index = (TEACH / "index.md").read_text("utf-8")
    assert f"| Sum | | {sums[0]} | | {sums[1]} |" in index


def test_every_session_shows_its_own_demonstrations() -> None:
    """What the page lists for a session is in the session's minutes."""
    text = (TEACH / "demonstrations.md").read_text("utf-8")
    for number, session in enumerate(sessions(), 1):
        ((table, *_),) = PARTS.findall(session)
        (row,) = re.findall(rf"(?m)^\| {number} \| (.*) \|$", text)
        planned = re.findall(r"demonstrations\.md#([\w-]+)", table)
        assert set(planned) == set(re.findall(r"\(#([\w-]+)\)", row))


# The exam -------------------------------------------------------------------

# The answers' headings are HTML, so that they make no table of contents: the
# theme's would point to a menu, and that page is in none.
QUESTION = re.compile(
    r"(?m)^(?:## |<h2>)(\d+)\. (.+) \((\d+) points\)(?:</h2>)?$"
)


def block(language: str, name: str, number: int) -> str:
    """The one block of code of a question, or of its answer."""
    text = (TEACH / name).read_text("utf-8")
    parts = re.split(r"(?m)^(?:## |<h2>)\d+\. ", text)
    (found,) = re.findall(rf"(?s)``` {language}\n(.*?)```", parts[number])
    return str(found)


def test_each_question_has_its_answer_and_the_points_add_up() -> None:
    asked = QUESTION.findall((TEACH / "exam.md").read_text("utf-8"))
    answered = QUESTION.findall(
        (TEACH / "exam-answers.md").read_text("utf-8")
    )
    assert asked == answered
    assert 12 <= len(asked) <= 15
    assert [int(n) for n, _, _ in asked] == list(range(1, len(asked) + 1))
    assert sum(int(points) for _, _, points in asked) == 60


def test_the_answer_about_recv_meets_its_own_criteria() -> None:
    program = block("python", "exam-answers.md", 3)
    names = {"time": time, "SECONDS": 0.5, "LIMIT": 5000, "parse": bytes}
    exec(program, names)
    receive: Any = names["receive"]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        kept = bytearray()
        theirs.sendall(b"first\r\n\r\nsec")
        assert receive(ours, kept) == b"first\r\n\r\n"
        theirs.sendall(b"ond\r\n\r\n")
        assert receive(ours, kept) == b"second\r\n\r\n"
        assert receive(ours, kept) is None  # silent
        stopped = threading.Event()  # one that never pauses for long

        def drip() -> None:
            while not stopped.wait(0.1):
                theirs.send(b"x")

        slow = threading.Thread(target=drip)
        slow.start()
        assert receive(ours, kept) is None
        stopped.set()
        slow.join()
        theirs.sendall(b"x" * 6000)
        assert receive(ours, kept) is None  # too long
        theirs.shutdown(socket.SHUT_WR)
        assert receive(ours, bytearray()) is None  # gone


def test_the_sales_of_the_exam_are_lost() -> None:
    program = block("python", "exam.md", 8)
    both = threading.Barrier(2)

    def price() -> int:
        both.wait(30)
        return 5

    names: dict[str, Any] = {"price": price}
    exec(program, names)
    selling = [threading.Thread(target=names["sell"]) for _ in range(2)]
    for thread in selling:
        thread.start()
    for thread in selling:
        thread.join()
    assert names["total"] == 5


def test_the_program_of_the_exam_prints_what_the_answers_say(
    tmp_path: Path,
) -> None:
    program = block("python", "exam.md", 12)
    answer = block("text", "exam-answers.md", 12)
    path = tmp_path / "exam.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == answer
    assert "coroutine 'work' was never awaited" in done.stderr
