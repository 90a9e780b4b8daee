"""The lab about the size for recv: what it counts, its program, its points."""

import json
import math
import socket
import subprocess
from pathlib import Path

import pytest

from labs.receive import lab, measure
from tests.tools.experiment import printed, run
from tools.bench.experiments import labs
from tools.site.figures import FIGURES

SMALL = len(lab.HEAD % 0)


def lab_printed(*words: object) -> subprocess.CompletedProcess[str]:
    return printed(measure.FILE, *words)


@pytest.mark.parametrize("body", [0, 1000])
@pytest.mark.parametrize("size", [1, 64, 4096])
def test_one_request_and_no_byte_more(size: int, body: int) -> None:
    request = lab.HEAD % body + bytes(body)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(request)
        assert lab.receive(ours, size) == math.ceil(len(request) / size)
        theirs.sendall(request[:-1])
        theirs.close()
        with pytest.raises(EOFError):
            lab.receive(ours, size)


@pytest.mark.parametrize(("size", "calls"), [(64, 2), (65_536, 1)])
def test_the_program_counts_its_calls(size: int, calls: int) -> None:
    done = lab_printed("--size", size, "--requests", 5)
    found = json.loads(done.stdout)
    assert 64 < SMALL <= 128  # two calls of the smallest size
    assert found["recv_calls"] == 5 * calls and found["requests"] == 5
    assert found["cpu_user"] + found["cpu_system"] > 0 < found["seconds"]


@pytest.mark.parametrize("words", [
    ("--size", "0"), ("--body", "-1"), ("--requests", "0"), ("--size", "x"),
])
def test_nonsense(words: tuple[str, ...]) -> None:
    done = lab_printed(*words)
    assert done.returncode == 2 and "lab.py: error: " in done.stderr


@pytest.mark.thorough
def test_smoke(tmp_path: Path) -> None:
    words = "--small", "20", "--uploads", "2", "--repeats", "1"
    status, kept = run(labs, tmp_path, "receive", *words)
    assert status == 0
    assert len(kept.points) == 2 * len(measure.SIZES)
    for suite, body in measure.BODIES.items():
        for size in measure.SIZES:
            (point,) = [p for p in kept.suite(suite)
                        if p.variant == f"recv({size})"]
            (one,) = point.runs
            calls = one.extra["recv_calls_per_request"]
            assert calls >= math.ceil((SMALL + body) / size)
            assert {*one.extra} <= {*FIGURES}
            assert (one.figure("cpu_ms") or 0) > 0 < one.seconds
            assert f"--size {size} --body {body} " in one.command
