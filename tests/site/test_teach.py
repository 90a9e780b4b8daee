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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.beside import beside
from tests.site.browsing import Opened, needs_browser, visit
from tests.site.conftest import pages
from tools.common.launch import Launched, eventually
from tools.learn import exercises
from tools.servers import ROOT

TEACH = ROOT / "docs" / "teach"
BLOCK = re.compile(
    r'(?ms)^ *``` bash(?: title="(Terminal [12])")?\n(.*?)^ *```$'
)
SECONDS = 120  # for the commands of one block, on a very busy machine
PORTS = ("8000", "8001", "8080")  # of the page
LEAVES = "the silent client leaves"


# The demonstrations ---------------------------------------------------------


def demos() -> dict[str, list[tuple[str, str]]]:
    """The commands of each as (terminal, text), in the page's order."""
    text = (TEACH / "demonstrations.md").read_text("utf-8")
    _, *parts = re.split(r"(?m)^## .*\{ #([\w-]+) \}$", text)
    return {
        name: BLOCK.findall(body)
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


@dataclass
class Seen:
    """What stood in the terminals, block by block."""

    servers: list[str] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)


class Stage:
    """Two terminals. The ports and /tmp are replaced by our own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Launched | None = None
        self.seen = Seen()
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
        text = text.replace("/tmp/", f"{self.folder}/")
        text = text.replace(
            ".venv/bin/python", shlex.quote(sys.executable)
        )
        text = text.replace("sleep 5)", f"sleep 5; echo {LEAVES})")
        text = text.replace("sleep(5)", f"sleep(5); print('{LEAVES}')")
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
            self.seen.servers.append(self.server.output)
        finally:
            self.server.kill()
            self.server = None

    def run(self, text: str) -> None:
        """Commands in terminal 2, which end by themselves."""
        done = subprocess.run(
            self.command(text), cwd=ROOT, stdout=subprocess.PIPE, text=True,
            timeout=SECONDS, check=False,
        )
        self.seen.clients.append(done.stdout)


def play(blocks: list[tuple[str, str]], folder: Path) -> Seen:
    """Do what the page says in both terminals."""
    stage = Stage(folder)
    try:
        for terminal, text in blocks:
            (stage.start if terminal == "Terminal 1" else stage.run)(text)
    finally:
        stage.stop()
    return stage.seen


def times(text: str) -> list[float]:
    """The times that curl has printed, in seconds, in order."""
    return sorted(map(float, re.findall(r"(?m)^(\d+\.\d+) s$", text)))


def in_a_line(text: str) -> bool:
    """Three waits of a second, one after the other."""
    first, second, third = times(text)
    return first >= 0.95 and second >= 1.95 and third >= 2.95


def answered_first(text: str) -> bool:
    """Was the client that asks answered before the silent one left?"""
    (waited,) = times(text)
    assert waited > 0.95
    return text.index(f"{waited:.6f} s") < text.index(LEAVES)


def asleep(seen: Seen) -> bool:
    taken, rate = map(float, re.findall(r": +([\d.]+)", seen.clients[0]))
    cpu = re.findall(r"CPU ([\d.]+) s user, ([\d.]+) s", seen.servers[0])
    return taken > 3 and rate < 10 and sum(map(float, cpu[0])) < taken / 2


def queue(seen: Seen) -> bool:
    (waiting,) = re.findall(r"LISTEN +(\d+) ", seen.clients[0])
    return 5 <= int(waiting) <= 8


def calls(seen: Seen) -> bool:
    names = re.findall(r"(?m)^(\w+)\(", seen.clients[0])
    assert names[:3] == ["accept4", "recvfrom", "sendto"]
    return names[3:] == ["shutdown", "recvfrom", "close"]


def timers(seen: Seen) -> bool:
    some, one = map(int, seen.clients)
    return 30 <= some <= 41 and one == 1  # some may come late


def nothing(seen: Seen) -> bool:
    first, second = seen.clients
    assert "coroutine 'hello' was never awaited" in first
    return "hello" not in first.splitlines() and times(second)[0] > 0.95


def culprit(seen: Seen) -> bool:
    found = "Executing <Task" in seen.servers[0]
    return found and in_a_line(seen.clients[1])


def pressure(seen: Seen) -> bool:
    first, second = (
        float(re.findall(r"peak memory ([\d.]+) MiB", said)[0])
        for said in seen.servers
    )
    late = ["timed out" in seen.clients[at] for at in (0, 2)]
    return late == [True, False] and second > 1.5 * first


def killed(seen: Seen) -> bool:
    *numbers, status = seen.clients[0].split()
    before, after = set(numbers[:3]), set(numbers[3:])
    assert len(before) == len(after) == 3
    return len(before & after) == 2 and status == "200"


def open_loop(seen: Seen) -> bool:
    """The longest wait grows only if nobody waits for answers."""
    closed, opened = map(times, seen.clients)
    assert len(closed) == len(opened) == 5
    return closed[0] > 0.95 and opened[-1] > max(2.0, closed[-1])


def behind(seen: Seen) -> bool:
    """With a lame duck all sixty are answered, without one not."""
    first, second = (
        dict(line.split()[::-1] for line in text.splitlines())
        for text in seen.clients[1:]
    )
    return int(first["503"]) > 0 and second == {"200": "60"}


# What each must show.
SHOWS: dict[str, Callable[[Seen], object]] = {
    "one-line": lambda seen: in_a_line(seen.clients[0]),
    "asleep": asleep,
    "silent": lambda seen: not answered_first(seen.clients[0]),
    "queue": queue,
    "pieces": lambda seen: seen.clients[0].strip() == "HTTP/1.1 200 OK",
    "calls": calls,
    "threads": lambda seen: (
        answered_first(seen.clients[0]) and int(seen.clients[1]) == 101
    ),
    "pool": lambda seen: not answered_first(seen.clients[0]),
    "lost": lambda seen: int(seen.clients[0]) < 100,
    "hundred": lambda seen: (
        answered_first(seen.clients[0]) and int(seen.clients[1]) == 1
    ),
    "blocked": lambda seen: in_a_line(seen.clients[0]),
    "timers": timers,
    "byte": lambda seen: "curl: (28)" in seen.clients[1],
    "nothing": nothing,
    "culprit": culprit,
    "pressure": pressure,
    "cores": lambda seen: [len(times(s)) for s in seen.clients] == [8, 8],
    "killed": killed,
    "rings": lambda seen: re.match(
        r"yes: io_uring with|no: |io_uring", seen.clients[0]
    ),
    "open-loop": open_loop,
    "lame-duck": lambda seen: seen.clients[0].splitlines() == [
        "/healthz 200", "/ 200", "/healthz 503", "/ 200", "/ 000",
    ],
    "behind": behind,
}


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
    for last in (False, False, True):
        with tempfile.TemporaryDirectory() as folder:
            seen = play(blocks, Path(folder))
        try:
            right = SHOWS[name](seen)
        except (AssertionError, ValueError, KeyError):
            right = False
        if right:
            break
        assert not last, seen


def test_bash_can_read_every_command() -> None:
    for page in TEACH.glob("*.md"):
        for _, text in BLOCK.findall(page.read_text("utf-8")):
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
        # One that never pauses for long.
        drops = [threading.Timer(0.2 * n, theirs.send, [b"x"])
                 for n in range(1, 100)]  # fmt: skip
        for drop in drops:
            drop.start()
        assert receive(ours, kept) is None
        late = sum(drop.is_alive() for drop in drops)
        for drop in drops:
            drop.cancel()
            drop.join()
        assert late
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


def test_only_the_overview_leads_to_the_answers(site: Path) -> None:
    leading = {
        page.relative_to(site).as_posix()
        for page in pages(site)
        if "exam-answers.html" in page.read_text("utf-8")
        and page.name != "exam-answers.html"
    }
    assert leading == {"teach/index.html"}
    for index in (site / "search").glob("search_index.*"):
        text = index.read_text("utf-8")
        assert "teach/exam.html" in text
        assert "exam-answers" not in text


# On paper -------------------------------------------------------------------


@needs_browser
@pytest.mark.thorough
@pytest.mark.parametrize("address", ["", "without-answers", "only-questions"])
def test_a_step_can_be_printed_without_its_answers(
    opened: Opened, site: Path, address: str
) -> None:
    page = opened("light", width=700, script=False)
    page.emulate_media(media="print")
    visit(page, site / "steps" / "03_threading.html")
    if address:
        page.goto(f"{page.url}#{address}")

    def shown(what: str) -> int:
        return page.locator(f"article {what}").filter(visible=True).count()

    questions = page.locator("article .seven-quiz").count()
    assert questions and shown(".seven-quiz") == questions
    assert bool(shown(".seven-quiz__why")) == (not address)
    assert bool(shown("details")) == (not address)
    text = address != "only-questions"
    assert bool(shown("> p")) == bool(shown("> h2")) == text
    assert shown("> h1") == 1


def test_the_addresses_for_printing_are_on_every_page_with_questions(
    site: Path,
) -> None:
    for page in pages(site):
        html = page.read_text("utf-8")
        asks = '<form class="seven-quiz"' in html
        for name in ("without-answers", "only-questions"):
            assert (f'id="{name}"' in html) == asks, page
