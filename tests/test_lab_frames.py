"""06_asyncio/lab_frames.py, run as everybody runs it."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.bench import interpreters
from tools.bench.peers.start import PYTHON as PEERS
from tools.common.launch import Launched, check_seen, eventually
from tools.servers import ROOT

LAB = ROOT / "06_asyncio" / "lab_frames.py"
SECONDS = 600.0  # for anything, on a very busy machine
thorough = pytest.mark.thorough
NAMES = (
    "streams", "protocol", "buffered", "sock", "uv-streams", "uv-protocol",
    "uv-buffered", "tornado", "tornado-into", "trio", "join", "fresh",
    "reused", "waitall", "sendfile", "through", "splice",
)
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


def run(
    *words: str, python: str = sys.executable, flags: tuple[str, ...] = (),
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *flags, str(LAB), *words], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SECONDS, check=False, **options,
    )


def rows_of(python: str, names: str, *words: str) -> dict[str, Any]:
    """What the lab says of these variants, by name."""
    done = run(
        "--only", names, "--frames", "3", "--rounds", "1", "--json", *words,
        python=python,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["variants"]}


@thorough
@pytest.mark.parametrize(("shape", "size"), [
    ("one", 300_001), ("two", 300_001), ("two", 7),  # 7: than its head
])
@pytest.mark.parametrize("python", [sys.executable, str(PEERS)])
def test_each_variant_echoes_what_was_sent(
    python: str, shape: str, size: int
) -> None:
    # The lab itself compares every byte, see the tests of --server.
    if not Path(python).exists():
        pytest.skip("the environment of the peers has not been made")
    foreign = [n for n in NAMES if n.startswith(("uv-", "tornado", "trio"))]
    names = [n for n in NAMES if (n in foreign) == (python == str(PEERS))]
    rows = rows_of(
        python, ",".join(names), "--shape", shape, "--size", str(size),
        "--no-counts",
    )
    assert list(rows) == names
    for name, row in rows.items():
        assert not row["error"], name
        if row["skipped"]:
            continue
        (one,) = row["runs"]
        assert one["mb_per_second"] == pytest.approx(
            3 * size / 1e6 / one["seconds"], rel=0.01
        )
        assert one["user"] >= 0 and one["system"] >= 0 and one["faults"] >= 0


def test_the_list_is_complete() -> None:
    # -I and -S: no site-packages, nothing from the environment.
    done = run("--list", flags=("-I", "-S"))
    listed = [
        line.split()[0] for line in done.stdout.splitlines()
        if not line.startswith(" ")
    ]
    assert listed == list(NAMES)
    assert done.stdout.count(" removes ") == len(NAMES)


@thorough
def test_calls_and_memory_are_counted() -> None:
    # Two frames, each with its head; and at the end there is none.
    rows = rows_of(
        sys.executable, "waitall,reused,join,through", "--shape", "two",
        "--size", "3000001",
    )
    join, reused, through, waitall = (
        rows[name]["counts"]
        for name in ("join", "reused", "through", "waitall")
    )
    assert waitall["receives"] == 5 / 2
    assert waitall["sends"] == reused["sends"] == 2
    assert reused["receives"] > 2
    assert reused["peak_frames"] == pytest.approx(1, abs=0.2)
    # The pieces, the frame.
    assert join["peak_frames"] == pytest.approx(2, abs=0.3)
    assert through["sends"] > 3 and through["peak_frames"] < 0.6  # 1 MiB


# Another server ------------------------------------------------------


@pytest.mark.parametrize(("change", "said"), [
    ("pass", ""),
    ("frame[0] ^= 1", "the echo is not what was sent"),
    ("frame[-1] ^= 1", "the echo is not what was sent"),
    ("head = struct.pack('=Q', 9); del frame[9:]", "not what was sent"),
    ("head = struct.pack('=Q', 10**6)", "too long"),
    ("print('{\"error\": \"it is ill\"}'); sys.exit()", "it is ill"),
    ("break", "the server closed before it had answered"),
])
def test_the_echo_is_compared(
    tmp_path: Path, change: str, said: str
) -> None:
    file = tmp_path / "echo.py"
    file.write_text(ECHO.format(change=change))
    command = shlex.join([sys.executable, str(file)])
    done = run(
        "--shape", "two", "--server", command, "--size", "100k", "--frames",
        "2", "--rounds", "1", "--json",
    )
    assert LAB.name not in done.stderr
    (row,) = json.loads(done.stdout)["variants"]
    assert done.returncode == bool(said) == bool(row["error"])
    assert said in row["error"]
    assert [each["user"] for each in row["runs"]] == [0.5] * (not said)


@pytest.mark.parametrize(("command", "said"), [
    ("/nowhere/echo", "/nowhere/echo does not start: No such file"),
    ("echo", "the server does not say its port"),
    ("echo 1", "the connection broke: Connection refused"),
    ("true", "the server does not say its port"),
])
def test_a_server_that_is_none(command: str, said: str) -> None:
    small = ("--size", "1k", "--rounds", "1")
    done = run("--shape", "two", "--server", command, *small)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert said in done.stdout


# Errors --------------------------------------------------------------


@pytest.mark.parametrize(("words", "said"), [
    (["--size", "0"], "a frame of nothing cannot be measured"),
    (["--size", "0M"], "a frame of nothing cannot be measured"),
    (["--size", "-1"], "'-1' is not a size such as 100M"),
    (["--size", "many"], "'many' is not a size such as 100M"),
    (["--size", "999999G"], "MB of memory"),
    (["--size", "9" * 30], "no machine has memory for that"),
    (["--only", "stream"], "there is no variant 'stream'; there are"),
    (["--only", ","], "no variant is named"),
    (["--frames", "0"], "'0' is not a number from 1 to"),
    (["--rounds", "x"], "'x' is not a number from 1 to"),
    (["--shape", "three"], "invalid choice: 'three'"),
    (["--server", "x"], "--server needs --shape two"),
    (["--server", "", "--shape", "two"], "--server names no program"),
    (["--serve", "streams,sock"], "name one variant"),
])
def test_nonsense_is_one_sentence(words: list[str], said: str) -> None:
    if said == "MB of memory":
        check_seen()  # /proc says how much memory is free as well
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("lab_frames.py: ") and said in done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


@thorough
def test_too_little_memory_is_a_sentence() -> None:
    # Enough to start, not enough for frames of 300 MB.
    limit = 600 * 2**20

    def less() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = run(
        "--size", "300M", "--only", "streams,fresh", "--rounds", "1",
        preexec_fn=less,
    )
    if "are free: name a smaller" in done.stderr:
        pytest.skip("this machine has too little memory to try")
    assert done.returncode == 1
    assert done.stdout.count("not enough memory") == 2
    assert "Traceback" not in done.stderr


@thorough
@pytest.mark.parametrize("shape", ["one", "two"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process(shape: str, number: signal.Signals) -> None:
    words = ["--only", "sock", "--size", "1M", "--frames", "5"]
    words += ["--rounds", "100", "--no-counts", "--shape", shape]
    with Launched([sys.executable, str(LAB), *words]) as lab:
        assert eventually(lambda: "\n" in lab.complaints, SECONDS)
        assert lab.complaints.startswith("round 1 of 100: sock")
        lab.signal(number)
        assert lab.wait(SECONDS) == 130
        with pytest.raises(ProcessLookupError):
            os.killpg(lab.pid, 0)
        out, err = lab.output, lab.complaints
    assert "Interrupted." in err and "Traceback" not in err
    assert "sock" in out and "(" in out  # what was measured


# The rest ------------------------------------------------------------


@thorough
def test_the_table_and_the_profile() -> None:
    small = ("--size", "1M", "--rounds", "2")
    done = run("--only", "streams,sock", *small, "--profile")
    assert done.returncode == 0, done.stderr
    assert "MB/s median (min - max)" in done.stdout
    assert "% socket.recv" in done.stdout
    rounds = [line.split()[4] for line in done.stderr.splitlines()]
    assert rounds == ["streams", "sock"] * 2  # one after the other


def test_help() -> None:
    assert "--shape {one,two}" in run("--help").stdout


@thorough
@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_on_the_oldest_and_the_newest_python(which: str) -> None:
    found = [
        python for python in interpreters.find()
        if interpreters.numbers(python) >= [3, 8]
    ]
    done = run(
        "--size", "70k", "--frames", "2", "--rounds", "1", "--only",
        "streams,protocol,buffered,sock,reused",
        python=found[0 if which == "oldest" else -1].program,
    )
    assert done.returncode == 0, done.stdout + done.stderr
