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
from typing import Any

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
needs_cc = pytest.mark.skipif(not HAS_CC, reason="there is no cc for Linux")
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
    {change}
    file.write(head + frame)
    file.flush()
print('{{"user": 0.5, "system": 0.25}}')
"""


def need_libraries() -> None:
    """Skip unless the peers' environment has them all."""
    words = [str(start.PYTHON), "-c", f"import {measure.LIBRARIES}"]
    if not start.PYTHON.exists() or subprocess.run(
        words, stderr=subprocess.DEVNULL, check=False
    ).returncode:
        pytest.skip(f"{start.VENV.name} has not been made")


def lab(
    *words: str, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, str(LAB), *words], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
    )


def rows_of(python: str, *words: str) -> list[dict[str, Any]]:
    """What the lab says of each variant."""
    small = "--frames", "3", "--rounds", "1", "--json"
    done = lab(*small, *words, python=python)
    assert done.returncode == 0, done.stdout + done.stderr
    return list(json.loads(done.stdout)["variants"])


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
    found = [p for p in interpreters.find() if not p.free
             and interpreters.numbers(p) >= measure.OLDEST]
    python = found[0 if which == "oldest" else -1].program
    if which == "libraries":
        python = str(start.PYTHON)
        need_libraries()
    rows = rows_of(python, "--shape", shape, "--size", str(size))
    assert [row["name"] for row in rows] == [*VARIANTS]
    assert sum(not row["skipped"] for row in rows) >= 10
    for row in rows:
        assert not row["error"], row["name"]
        for one in row["runs"]:
            assert one["mb_per_second"] == pytest.approx(
                3 * size / 1e6 / one["seconds"], rel=0.01
            )
            assert min(one["user"], one["system"], one["faults"]) >= 0


@pytest.mark.parametrize(("change", "said"), [
    ("pass", ""),
    ("frame[50_000] ^= 1", "the echo is not what was sent"),
    ("frame[-1] ^= 1", "the echo is not what was sent"),
    ("head = struct.pack('=Q', 9); del frame[9:]", "not what was sent"),
    ("head = struct.pack('=Q', 10**6)", "too long"),
    ("print('{\"error\": \"it is ill\"}'); sys.exit()", "it is ill"),
    ("break", "the server closed before it had responded"),
])
def test_the_echo_is_compared(
    tmp_path: Path, change: str, said: str
) -> None:
    file = tmp_path / "echo.py"
    file.write_text(ECHO.format(change=change))
    done = lab(
        "--shape", "two", "--server", shlex.join([sys.executable, str(file)]),
        "--size", "100k", "--frames", "2", "--rounds", "1", "--json",
    )
    (row,) = json.loads(done.stdout)["variants"]
    assert done.returncode == bool(said) == bool(row["error"])
    assert said in row["error"]
    assert [each["user"] for each in row["runs"]] == [0.5] * (not said)


@pytest.mark.parametrize(("command", "said"), [
    ("/nowhere/echo", "/nowhere/echo does not start: No such file"),
    ("echo", "the server does not say its port"),
    ("echo 1", "the connection broke: Connection refused"),
])
def test_a_server_that_is_none(command: str, said: str) -> None:
    small = ("--size", "1k", "--rounds", "1")
    done = lab("--shape", "two", "--server", command, *small)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and said in done.stdout


@pytest.mark.parametrize(("words", "said"), [
    (["--size", "0M"], "'0M' is not a number from 1 to 1,000,000,000"),
    (["--size", "many"], "such as 64k or 100M"),
    (["--size", "2G"], "'2G' is not a number"),
    (["--only", "stream"], "there is no variant 'stream'; there are"),
    (["--rounds", "1k"], "'1k' is not a number from 1 to 100, such as 5"),
    (["--server", "x"], "--server needs a program and --shape two"),
    (["--server", "", "--shape", "two"], "--server needs a program"),
])
def test_nonsense_is_one_sentence(words: list[str], said: str) -> None:
    done = lab(*words)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("lab.py: ") and said in done.stderr
    assert done.stderr.count("\n") == 1


@thorough
@pytest.mark.parametrize("shape", ["one", "two"])
def test_ctrl_c_leaves_no_process(shape: str) -> None:
    words = ["--only", "sock", "--size", "1M", "--rounds", "100"]
    with Launched([sys.executable, str(LAB), *words, "--shape", shape]) as it:
        lab = psutil.Process(it.pid)
        assert eventually(lambda: "\n" in it.complaints, SECONDS)
        assert eventually(lab.children, SECONDS)
        processes = lab.children(recursive=True)
        os.killpg(it.pid, signal.SIGINT)  # as a terminal does
        assert it.wait(SECONDS) == 130
        assert not any(alive(each) for each in processes)
        out, err = it.output, it.complaints
    assert err.startswith("round 1 of 100: sock") and "Interrupted." in err
    assert "Traceback" not in err
    assert "sock" in out and "(" in out  # what was measured


@thorough
def test_the_table_and_the_profile() -> None:
    small = ("--size", "1M", "--rounds", "2")
    done = lab("--only", "streams,sock", *small, "--profile")
    assert done.returncode == 0, done.stderr
    assert "MB/s median (min - max)" in done.stdout
    assert "% socket.recv" in done.stdout
    rounds = [line.split()[4] for line in done.stderr.splitlines()]
    assert rounds == ["streams", "sock"] * 2  # one after the other


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


@pytest.mark.parametrize(("labels", "missing", "parts"), [
    (["2.7", "3.8", "3.11", "3.13"], {}, "oldest 3.8 newest 3.13 "
     "libraries 3.11"),
    (["3.11"], {"uvloop": "no"}, "newest 3.11 libraries 3.11"),
    (["3.11"], dict.fromkeys("abc", "no"), "newest 3.11"),
    (["2.7", "3.13t"], {}, ""),
])
def test_the_oldest_and_the_newest_with_a_gil_are_chosen(
    labels: list[str], missing: dict[str, str], parts: str, tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    def python(label: str) -> Interpreter:
        version = f"{label}.1".replace("t", "")
        return Interpreter("/a/python", label, version, label.endswith("t"))

    found = [python(label) for label in labels]
    monkeypatch.setattr(interpreters, "choose", lambda words: found)
    monkeypatch.setattr(start, "missing", lambda peers, say: missing)
    monkeypatch.setattr(measure, "identify", lambda program: python("3.11"))
    asked = session(tmp_path, pythons=None, no_libraries=False)
    if not parts:
        with pytest.raises(InterpreterError, match=r"from Python 3\.8 on"):
            measure.choose(asked)
        return
    people = measure.choose(asked).items()
    assert " ".join(f"{part} {p.label}" for part, p in people) == parts


@thorough
def test_smoke(tmp_path: Path) -> None:
    status, saved = run(
        labs, tmp_path, "frames", "--pythons", sys.executable,
        "--no-libraries", "--frame-variants", "reused,uv-streams,splice",
        "--frame-size", "100000", "--frame-count", "2", "--repeats", "2",
    )
    assert status == 0
    points = {(p.server, p.variant): p for p in saved.points}
    # What needs a library is left to the interpreter that has it, and so
    # is one process.
    pages = {"", ", huge pages"} if not measure.why_no_huge_pages() else {""}
    names = {(name, f"newest, two processes{page}")
             for name in ("reused", "splice") for page in pages}
    in_c = {(name, "C, two processes") for name in measure.IN_C}
    assert {*points} == names | (in_c if HAS_CC else set())
    point = points["reused", "newest, two processes"]
    assert len(point.runs) == 2 and point.status == "ok"
    one = point.runs[0]
    assert one.requests == 2 and one.extra["mb_per_second"] > 0
    assert one.command.startswith(f"python{THIS.label} {measure.LAB}")
    if HAS_CC:
        assert one.extra["copied_frames"] == 0
        point = points["C-splice", "C, two processes"]
        assert "--server 'frames splice'" in point.runs[0].command
    profile = json.loads((tmp_path / "profile.json").read_text())
    functions = profile["newest, one process"]["reused"]
    assert 0 < sum(share for _, share in functions) <= 1.001
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
    one = rig(tmp_path, "--frame-variants", "join,splice")
    case = Case("newest", THIS, "one")
    row = {"skipped": "", "error": "it is ill", "runs": []}

    def says(*rows: object) -> None:
        text = json.dumps({"variants": rows})
        monkeypatch.setattr(measure, "said_by", lambda *_, **more: text)

    says(row, row | {"skipped": "os.splice is not in this Python"})
    assert [point.server for point, _ in one.work(case)] == ["join"]
    (point,) = one.session.points
    assert point.reason == "os.splice is not in this Python"
    says(row)
    assert one.once(case, "--only", "join").error == "it is ill"
    monkeypatch.setattr(measure, "said_by", lambda *_, **more: "oh")
    with pytest.raises(LabError, match="the lab did not print its figures"):
        one.once(case, "--only", "join")


@needs_cc
def test_the_echo_in_c(tmp_path: Path) -> None:
    one = rig(tmp_path, "--frame-size", "300001")
    for how in measure.IN_C.values():
        words = "--server", f"{one.echo} {how}"
        _, (row,) = one.call(Case("newest", THIS, "two"), 3, *words)
        assert not row["error"] and row["runs"][0]["seconds"] > 0
    with pytest.raises(LabError, match="say recv, through or splice"):
        said_by([one.echo, "hat"], 60)


# What a variant says that it copies, and how much more or less that may
# be. What a transport sends at once is not copied before Python 3.12, and
# that depends on how soon the client takes it: "up to", so never more.
EXACT, UP_TO = (-0.1, 0.1), (-9.0, 0.3)


@needs_cc
@thorough
@pytest.mark.parametrize("part", ["here", "libraries"])
def test_each_variant_copies_what_it_says(
    part: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """In frames that are much more than a socket holds.

    With the first read of a frame (256 KiB at most) a head may have come
    or not, and then asyncio.Protocol copies what came with it: in two
    frames less than a tenth of this size.
    """
    monkeypatch.setattr(measure, "COUNTED", (1, 2))
    python, libraries = THIS, part == "libraries"
    if libraries:
        need_libraries()
        python = identify(str(start.PYTHON))
    one = rig(tmp_path, "--frame-size", "8000000")
    case = Case(part, python, "two")
    old = interpreters.numbers(python) < [3, 12]
    foreign = measure.LIBRARIES.split(",")
    for name, each in VARIANTS.items():
        if (each.needs in foreign) != libraries:
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
