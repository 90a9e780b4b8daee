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
import yaml  # type: ignore[import-untyped]

from tests.beside import beside
from tools.common.launch import Launched, eventually
from tools.servers import ROOT
from tools.site import schedule
from tools.site.errors import SiteError

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
    """And every session's minutes hold those that the page lists for it."""
    assert list(demos()) == list(SHOWS)
    text = (TEACH / "demonstrations.md").read_text("utf-8")
    for session in schedule.plan().sessions:
        (row,) = re.findall(rf"(?m)^\| {session.step} \| (.*) \|$", text)
        planned = re.findall(
            r"demonstrations\.md#([\w-]+)",
            " ".join(part.what for part in session.parts),
        )
        assert set(planned) == set(re.findall(r"\(#([\w-]+)\)", row))


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


# The schedule ---------------------------------------------------------------

PLAN = yaml.safe_load(schedule.PLAN.read_text("utf-8"))


def test_the_day_is_as_the_page_says() -> None:
    made = schedule.plan()
    text = (TEACH / "index.md").read_text("utf-8")
    assert "Five and a half hours of work and the breaks" in text
    assert made.worked == 330
    steps = [e.step for part in made.day for e in part.exercises]
    assert steps == [1, 2, 3, 4, 6, 7]  # "except step 05"


@pytest.mark.parametrize(("change", "sentence"), [
    ({"parts": [{"talk": "on and on", "minutes": 91}]},
     "session 2 takes 91 minutes of 90"),
    ({"parts": [{"exercise": ["02.9"]}]}, "no exercise '02.9'"),
    ({"parts": [{"exercise": ["02.1", "02.1"]}]}, "02.1 twice"),
    ({"homework": ["01.1"]}, "01.1, of another step"),
    ({"parts": [{"exercise": ["02.1"], "minutes": 5}]},
     "stand in its task.md"),
    ({"parts": [{"sing": "a song", "minutes": 5}]}, "'sing' is none"),
    ({"step": 3}, "the seven steps in order"),
    ({"parts": 5}, "is no plan"),
])  # fmt: skip
def test_what_does_not_fit_ends_the_build(
    change: dict[str, object], sentence: str
) -> None:
    sessions = [dict(entry) for entry in PLAN["sessions"]]
    sessions[1] |= change
    with pytest.raises(SiteError, match=re.escape(sentence)):
        schedule.read(yaml.safe_dump({**PLAN, "sessions": sessions}))


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
