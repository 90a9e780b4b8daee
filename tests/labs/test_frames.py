"""The lab about large frames: the program, what counts beside it, a run."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from labs.frames import measure
from labs.frames.links import VARIANTS
from labs.frames.measure import Case, Rig
from tests.marks import Patch
from tests.process import alive
from tests.tools.experiment import options, run, session
from tools.bench import interpreters
from tools.bench.experiments import labs
from tools.bench.experiments.lab import LabError, said_by
from tools.bench.interpreters import Interpreter, InterpreterError, identify
from tools.bench.peers import start
from tools.common.launch import Launched, eventually
from tools.data import raw
from tools.servers import ROOT

LAB = ROOT / measure.LAB
SECONDS = 600.0  # for anything, on a very busy machine
THIS = identify(sys.executable)
HAS_CC = sys.platform == "linux" and shutil.which("cc") is not None
thorough = pytest.mark.thorough
# An echo for --server; what is done to a frame is to be filled in.
ECHO = """
import socket, struct, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sock = listener.accept()[0]
file = sock.makefile("rwb")
while head := file.read(8):
    frame = bytearray(file.read(*struct.unpack("=Q", head)))
    {}
    file.write(head + frame)
    file.flush()
print('{{"user": 0.5, "system": 0.25}}')
"""


def lab(
    *words: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, str(LAB), *words], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
    )


def python(which: str) -> Interpreter:
    """The oldest, the newest, or the one that has the libraries."""
    if which == "libraries":
        words = [str(start.PYTHON), "-c", f"import {measure.LIBRARIES}"]
        if not start.PYTHON.exists() or subprocess.run(
            words, stderr=subprocess.DEVNULL, check=False
        ).returncode:
            pytest.skip(f"{start.VENV.name} has not been made")
        return identify(str(start.PYTHON))
    found = [p for p in interpreters.find() if not p.free
             and interpreters.numbers(p) >= measure.OLDEST]
    return found[0 if which == "oldest" else -1]


# The program ---------------------------------------------------------------


@thorough
@pytest.mark.parametrize(("shape", "size"), [
    ("one", 300_001), ("two", 300_001), ("two", 7),  # 7: than its head
])
@pytest.mark.parametrize("which", ["oldest", "newest", "libraries"])
def test_each_variant_echoes_what_was_sent(
    which: str, shape: str, size: int
) -> None:
    # The lab itself compares every byte, see the tests of --server.
    done = lab("--frames", "3", "--json", "--shape", shape, "--size",
               str(size), python=python(which).program)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = measure.read(done.stdout)
    assert [row["name"] for row in rows] == [*VARIANTS]
    good = [row for row in rows if "skipped" not in row]
    assert len(good) >= 10
    for row in good:
        moved = 3 * size / 1e6
        assert row["mb_per_second"] == pytest.approx(moved / row["seconds"])
        assert min(row["user"], row["system"], row["faults"]) >= 0


@pytest.mark.parametrize(("program", "said"), [
    (ECHO.format("pass"), ""),
    (ECHO.format("frame[50_000] ^= 1"), "the echo is not what was sent"),
    (ECHO.format("frame[-1] ^= 1"), "the echo is not what was sent"),
    (ECHO.format("head = struct.pack('=Q', 9); del frame[9:]"),
     "not what was sent"),
    (ECHO.format("head = struct.pack('=Q', 10**6)"), "too long"),
    (ECHO.format("break"), "the server closed before it had responded"),
    ("print('echo')", "the server does not say its port"),
    ("print(1)", "the connection broke: Connection refused"),
    ("", "the server does not say its port"),
    (None, "/nowhere/echo does not start: No such file"),
])
def test_the_echo_is_compared(
    tmp_path: Path, program: str | None, said: str
) -> None:
    file = tmp_path / "echo.py"
    file.write_text(program or "")
    command = shlex.join([sys.executable, str(file)])
    done = lab(
        "--shape", "two", "--size", "100k", "--frames", "2", "--json",
        "--server", "/nowhere/echo" if program is None else command,
    )
    (row,) = measure.read(done.stdout)
    assert done.returncode == bool(said) and said in row.get("error", "")
    assert row.get("user") == (None if said else 0.5)


@pytest.mark.parametrize(("words", "said"), [
    (["--size", "0M"], "'0M' is not a number from 1 to 1,000,000,000"),
    (["--size", "2G"], "'2G' is not a number"),
    (["--only", "stream"], "there is no variant 'stream'; there are"),
    (["--server", "", "--shape", "two"], "--server needs a program"),
])
def test_nonsense_is_one_sentence(words: list[str], said: str) -> None:
    done = lab(*words)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("lab.py: ") and said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_row_of_the_table() -> None:
    done = lab("--only", "streams,sock", "--size", "1k")
    rows = [line.split() for line in done.stdout.splitlines()[-2:]]
    # MB/s, copies, CPU of the program + of the system, page faults
    assert [row[0] for row in rows] == ["streams", "sock"]
    assert [len(row) for row in rows] == [7, 7] and done.returncode == 0


@thorough
@pytest.mark.parametrize("shape", ["one", "two"])
def test_ctrl_c_leaves_no_process(shape: str) -> None:
    words = ["--only", "sock,fresh", "--frames", "1000", "--shape", shape]
    with Launched([sys.executable, str(LAB), *words]) as it:
        own = psutil.Process(it.pid)
        assert eventually(own.children, SECONDS)
        processes = own.children(recursive=True)
        os.killpg(it.pid, signal.SIGINT)  # as a terminal does
        assert it.wait(SECONDS) == 130
        assert not any(alive(each) for each in processes)
        assert "copies: of a frame" in it.output
        assert not it.complaints


# What calls it -------------------------------------------------------------


@pytest.mark.parametrize(("words", "says"), [
    ([sys.executable, measure.LAB, "--size", "0"], "'0' is not a number"),
    (["/nowhere/python3"], "/nowhere/python3: No such file"),
    (["false"], "the lab ended with status 1"),
    (["sleep", "1000"], "it took more than 0 s"),
])
def test_a_lab_that_fails_is_a_sentence(words: list[str], says: str) -> None:
    seconds = 0.1 if words[0] == "sleep" else 60.0
    with pytest.raises(LabError, match=says) as caught:
        said_by(words, seconds)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("labels", "chosen"), [
    ("2.7 3.8 3.11 3.13", "oldest 3.8 newest 3.13"), ("3.11", "newest 3.11"),
    ("2.7 3.8 3.13t", "newest 3.8"), ("2.7 3.13t", ""),
])
def test_the_oldest_and_the_newest_with_a_gil_are_chosen(
    labels: str, chosen: str
) -> None:
    pythons = [
        Interpreter("/a/python", label, label.strip("t"), "t" in label)
        for label in labels.split()
    ]
    if not chosen:
        with pytest.raises(InterpreterError, match=r"from Python 3\.8 on"):
            measure.oldest_and_newest(pythons)
        return
    found = measure.oldest_and_newest(pythons).items()
    assert " ".join(f"{part} {p.label}" for part, p in found) == chosen


@thorough
def test_smoke(tmp_path: Path) -> None:
    status, saved = run(
        labs, tmp_path, "frames", "--pythons", sys.executable,
        "--no-libraries", "--frame-variants", "reused,splice",
        "--frame-size", "300001", "--frame-count", "2", "--repeats", "2",
    )
    assert status == 0
    points = {(p.server, p.variant): p for p in saved.points}
    usual = "newest, two processes"
    names = {(name, usual) for name in ("reused", "splice")}
    if measure.has_huge_pages():
        names |= {(name, f"{usual}, huge pages") for name, _ in names}
    if HAS_CC:
        names |= {(name, "C, two processes") for name in measure.IN_C}
    assert {*points} == names
    point = points["reused", usual]
    assert len(point.runs) == 2 and point.status == "ok"
    one = point.runs[0]
    assert one.requests == 2 and one.extra["mb_per_second"] > 0
    assert one.command.startswith(f"python{THIS.label} {measure.LAB}")
    if HAS_CC:
        assert one.extra["copied_frames"] == 0
        point = points["C-splice", "C, two processes"]
        assert "--server 'frames splice'" in point.runs[0].command
    profile = json.loads((tmp_path / "profile.json").read_text())
    ((name, share), *_) = profile["newest, one process"]["reused"]
    assert name.startswith("socket.") and 0 < share <= 1
    text = (tmp_path / "results.json").read_text() + "".join(
        raw.read(tmp_path, name) for name in raw.names(tmp_path)
    )
    assert sys.prefix not in text and tempfile.gettempdir() not in text


def rig(folder: Path, *words: str) -> Rig:
    out = folder / "out"
    chosen = options(labs, *words, "--output", str(out))
    return Rig(session(out, **vars(chosen)), folder)


def test_what_is_skipped_or_failed_keeps_its_reason(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    one, case = rig(tmp_path), Case("newest", THIS, "one")
    ill, no = "it is ill", "os.splice is not in this Python"
    rows = [{"name": "join", "error": ill}, {"name": "splice", "skipped": no}]
    for text in (*map(json.dumps, rows), "", "oh", "1"):
        monkeypatch.setattr(measure, "said_by", Mock(return_value=text))
        if "splice" in text:
            assert one.work(case) == []
            assert one.session.points[0].reason == no
        elif "join" in text:
            assert [point.server for point, _ in one.work(case)] == ["join"]
            assert one.once(case, "--only", "join").error == ill
        else:
            with pytest.raises(LabError, match="did not print its figures"):
                one.work(case)


# What a variant says that it copies, and how much more or less that may
# be. What a transport sends at once is not copied before Python 3.12, and
# that depends on how soon the client takes it: "up to", so never more.
EXACT, UP_TO = (-0.1, 0.1), (-9.0, 0.3)


@pytest.mark.skipif(not HAS_CC, reason="there is no cc for Linux")
@thorough
@pytest.mark.parametrize("which", ["newest", "libraries"])
def test_each_variant_copies_what_it_says(
    which: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """In frames that are much more than a socket holds.

    With the first read of a frame (256 KiB at most) a head may have come
    or not, and then asyncio.Protocol copies what came with it: in two
    frames less than a tenth of this size.
    """
    monkeypatch.setattr(measure, "COUNTED", (1, 2))
    case = Case(which, python(which), "two")
    one = rig(tmp_path, "--frame-size", "8000000")
    old = interpreters.numbers(case.python) < [3, 12]
    foreign = measure.LIBRARIES.split(",")
    for name, each in VARIANTS.items():
        if (each.needs in foreign) != (which == "libraries"):
            continue
        says = each.old if old else each.new
        low, high = UP_TO if old and each.old != each.new else EXACT
        for _ in range(3):  # how a frame arrives is the kernel's affair:
            counted = one.copies(case, name)  # a buffer may grow once more
            if low <= counted["copied_frames"] - says <= high:
                break
        else:
            pytest.fail(f"{name} says {says}: {counted}")
        if name in ("sock", "reused", "waitall", "splice"):
            assert counted["allocated_frames"] < 0.1
        if name == "fresh":
            assert counted["allocated_frames"] == pytest.approx(1, abs=0.1)
