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
from functools import partial
from pathlib import Path

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


def own_ports() -> dict[str, str]:
    """Free ports for those of the page."""
    with contextlib.ExitStack() as open_now:
        listeners = {
            port: open_now.enter_context(
                socket.create_server(("127.0.0.1", 0))
            ) for port in PORTS
        }
        return {p: str(s.getsockname()[1]) for p, s in listeners.items()}


def serving(server: Launched) -> bool:
    """Has it said so? Other lines may come before."""
    return "Serving on" in server.output


def interrupted(server: Launched) -> str:
    """Ctrl-C in terminal 1, and what the server has printed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGINT)
    server.wait(SECONDS)
    return server.output


def play(blocks: list[tuple[str, str]]) -> str:
    """Do what the page says in both terminals; what was seen there.

    What a command printed is added as it comes to its end.
    """
    server, seen = None, ""
    with contextlib.ExitStack() as stack:
        ports = own_ports()
        replaced = {
            "/tmp/": stack.enter_context(tempfile.TemporaryDirectory()) + "/",
            ".venv/bin/python": shlex.quote(sys.executable),
            "sleep 5)": f"sleep 5; echo {LEAVES})",
            "sleep(5)": f"sleep(5); print('{LEAVES}')",
        }

        def command(text: str) -> list[str]:
            for port, ours in ports.items():
                text = re.sub(rf"\b{port}\b", ours, text)
            for old, new in replaced.items():
                text = text.replace(old, new)
            return ["bash", "-c", f"exec 2>&1; {text}"]

        for terminal, text in [*blocks, ("Terminal 1", "")]:
            if terminal != "Terminal 1":
                seen += subprocess.run(
                    command(text), cwd=ROOT, stdout=subprocess.PIPE,
                    text=True, timeout=SECONDS, check=False,
                ).stdout
                continue
            if server:  # the next one takes its place
                seen += interrupted(server)
            if text:
                words = command(f"exec env {text.rstrip()} --port 8000")
                server = stack.enter_context(Launched(words, cwd=ROOT))
                assert eventually(partial(serving, server), SECONDS)
                # No server of anybody else is counted.
                replaced["pgrep "] = f"pgrep -s {server.pid} "
    return seen


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
_, *SESSIONS = (TEACH / "sessions.md").read_text("utf-8").split("\n## Session")
_, DAY, LAB = (TEACH / "index.md").read_text("utf-8").split("\n## One ")
# A part of a table: when it begins, how, what, and for how long.
PART = re.compile(r"(?m)^\| (\d+):(\d\d) \| (\w+) \|(.*)\| (\d* ?)\|$")
HOME = re.compile(r"(?s)\*\* \((\d+)\s+minutes\):\s(.*?)\.\n\n")


def named(text: str) -> list[str]:
    """The exercises that a text leads to."""
    return re.findall(r"\[(0\d\.\d)\]\(\S+\)\s", text)


def minutes(text: str) -> int:
    """How long these take, as their tasks say."""
    return sum(TASKS[each].minutes for each in named(text))


@pytest.mark.parametrize(
    "text", [*SESSIONS, DAY, LAB],
    ids=[*range(1, len(SESSIONS) + 1), "day", "lab"],
)
def test_the_minutes_add_up(text: str) -> None:
    """A part begins where the last one ends; exercises take their time."""
    parts = PART.findall(text)
    starts = [60 * int(hour) + int(minute) for hour, minute, *_ in parts]
    for begin, end, (_, _, how, what, took) in zip(
        starts, starts[1:], parts, strict=False
    ):
        assert end - begin == int(took), what
        assert how != "Exercise" or int(took) == minutes(what), what
    assert parts[-1][2] == "End"
    for said, chosen in HOME.findall(text):
        assert int(said) == minutes(chosen)


def test_every_exercise_is_in_one_session() -> None:
    found = [
        each for text in SESSIONS
        for part in [*PART.findall(text), *HOME.findall(text)]
        for each in named(" ".join(part))
    ]
    assert sorted(found) == sorted(TASKS)


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
    asked, answered = (
        QUESTION.findall((TEACH / name).read_text("utf-8"))
        for name in ("exam.md", "exam-answers.md")
    )
    assert asked == answered
    assert [int(n) for n, _, _ in asked] == list(range(1, len(asked) + 1))
    assert sum(int(points) for _, _, points in asked) == 60


def test_the_program_of_the_exam_prints_what_the_answers_say(
    tmp_path: Path,
) -> None:
    path = tmp_path / "exam.py"
    path.write_text(block("python", "exam.md", 12))
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == block("text", "exam-answers.md", 12)
    assert "coroutine 'work' was never awaited" in done.stderr
