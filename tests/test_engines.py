"""Engines and workers of 07: which ones, and what if they cannot start."""

import contextlib
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.marks import rule
from tests.process import (
    HAS_GIL,
    PATIENCE,
    VERSION,
    Running,
    eventually,
    started,
    unread,
    why_no_uring,
)
from tests.seccomp import IO_URING_ENTER, IO_URING_REGISTER, IO_URING_SETUP
from tests.test_faults import replaced
from tests.test_running import assert_one_sentence, assert_refused, run
from tools.bench.preflight import core_count
from tools.common.launch import LaunchError
from tools.common.raw_client import GET
from tools.servers import by_name

STEP = range(7, 8)
BARE = by_name("07")  # without the options of a variant
URING = replace(BARE, file="07_parallel/uring.py")
LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="seccomp is a part of Linux"
)
NEEDS_URING = pytest.mark.skipif(
    bool(why_no_uring()), reason=why_no_uring() or "needs io_uring"
)
ENGINES = pytest.mark.parametrize("engine", [
    "emulated", pytest.param("uring", marks=NEEDS_URING),
])
HAS_INTERPRETERS = VERSION >= [3, 14]
NEEDS_INTERPRETERS = pytest.mark.skipif(
    not HAS_INTERPRETERS, reason="interpreters need Python 3.14"
)
KINDS = pytest.mark.parametrize("kind", [
    "process", "thread",
    pytest.param("interpreter", marks=NEEDS_INTERPRETERS),
])


def best() -> tuple[str, str]:
    """Where it does not matter; auto says a sentence if it has to choose."""
    return "--engine", "emulated" if why_no_uring() else "uring"


def forbidding(error: str, call: int = IO_URING_SETUP) -> tuple[str, ...]:
    """The beginning of a command in which a system call fails."""
    helper = Path(__file__).with_name("seccomp.py")
    return (sys.executable, str(helper), error, str(call), "--")


# Engines.


@rule("engine", STEP)
@pytest.mark.parametrize("engine", [
    "auto", "emulated", pytest.param("uring", marks=NEEDS_URING),
])
def test_engine(engine: str) -> None:
    with started(BARE, "--engine", engine) as process:
        for _ in range(5):
            process.assert_serves()
        # A ring is a descriptor with this name.
        rings = ["anon_inode:[io_uring]" in [
            os.readlink(link)
            for link in Path(f"/proc/{each.pid}/fd").iterdir()
        ] for each in process.workers()]
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        wanted = engine != "emulated" and not why_no_uring()
        assert rings == [wanted] * len(rings)
        if engine == "auto" and why_no_uring():
            assert_one_sentence(process.complaints)
        else:
            assert process.complaints == ""


@rule("usage", STEP)
@pytest.mark.parametrize("options", [
    ("--engine", "steam"), ("--worker-kind", "fibre"), ("--workers", "513"),
    ("--workers", "1.5"), ("--directory",), ("--directory", ""),
], ids=" ".join)
def test_nonsense_of_07(options: tuple[str, ...]) -> None:
    assert_refused(run(BARE, "--port", "0", *options), 2)


@rule("usage", STEP)
@pytest.mark.skipif(HAS_INTERPRETERS, reason="this Python has interpreters")
def test_interpreters_need_a_newer_python() -> None:
    done = run(BARE, "--port", "0", "--worker-kind", "interpreter")
    assert_refused(done, 2)
    assert "need Python 3.14" in done.stderr


@rule("engine-auto", STEP)
@LINUX
@pytest.mark.parametrize(("error", "kind", "engine", "said"), [
    ("EPERM", "process", "auto", "io_uring"),
    ("ENOSYS", "thread", "auto", "io_uring"),
    pytest.param(
        "ENOSYS", "interpreter", "auto", "io_uring",
        marks=NEEDS_INTERPRETERS,
    ),
    ("ENOSYS", "process", "emulated", ""),
])
def test_serves_without_uring(
    error: str, kind: str, engine: str, said: str
) -> None:
    options = ("--worker-kind", kind, "--engine", engine)
    with started(BARE, *options, through=forbidding(error)) as process:
        process.assert_serves()
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        if said:
            assert_one_sentence(process.complaints)
        assert said in process.complaints
        assert ("emulated" in process.complaints) == bool(said)


@rule("engine-error", STEP)
@LINUX
@pytest.mark.parametrize(("error", "engines", "said"), [
    # Where there is no io_uring, auto serves; other errors are not hidden.
    ("EPERM", "uring", "io_uring"), ("ENOSYS", "uring", "io_uring"),
    ("ENOMEM", "uring auto", "no memory for a ring (see ulimit -l)"),
    ("EMFILE", "uring auto", "oo many open files"),
])
def test_uring_that_fails(error: str, engines: str, said: str) -> None:
    for name in engines.split():
        options = ("--port", "0", "--engine", name)
        done = run(BARE, *options, through=forbidding(error))
        assert_refused(done)
        assert said in done.stderr
    done = run(URING, through=forbidding(error))
    assert done.returncode == 1
    assert_one_sentence(done.stdout + done.stderr)
    assert said in done.stdout + done.stderr


@rule("engine-error", STEP)
@LINUX
@NEEDS_URING
@pytest.mark.parametrize(("call", "error", "engine"), [
    (IO_URING_ENTER, "EPERM", "uring"), (IO_URING_ENTER, "EINVAL", "auto"),
    (IO_URING_REGISTER, "EINVAL", "uring"),
    (IO_URING_REGISTER, "EPERM", "auto"),
])
def test_half_of_uring_is_forbidden(
    call: int, error: str, engine: str
) -> None:
    # On auto it may end or serve, but not silently, and never a crash.
    through = forbidding(error, call)
    with Running(BARE, ("--engine", engine), through=through) as process:
        if gets_ready(process):
            assert engine == "auto"
            process.assert_serves()
            assert "emulated" in process.complaints
        else:
            assert process.status() == 1
        assert_one_sentence(process.complaints)
        assert engine == "uring" or "io_uring" in process.complaints


# Workers.


AUTO = "process" if HAS_GIL else "thread"


@rule("worker-kind", STEP)
@pytest.mark.parametrize(("kind", "number"), [
    ("process", 1), ("process", 3), ("thread", 1), ("thread", 3), ("auto", 3),
    pytest.param("interpreter", 1, marks=NEEDS_INTERPRETERS),
    pytest.param("interpreter", 3, marks=NEEDS_INTERPRETERS),
])
@ENGINES
def test_worker_kind(kind: str, number: int, engine: str) -> None:
    options = ("--engine", engine, "--workers", str(number))
    with started(BARE, *options, "--worker-kind", kind) as process:
        process.assert_serves()
        threads = [each.num_threads() for each in process.processes()]
        assert threads == {
            "process": [1] * (1 + number), "thread": [1 + number],
            "interpreter": [1 + number],
        }[AUTO if kind == "auto" else kind]
        clients = [process.client(GET) for _ in range(30)]
        for client in clients:
            assert client.response().status == 200
        for client in clients:
            client.send(GET)
        # What has arrived is served, also by threads.
        assert eventually(lambda: not unread(clients), PATIENCE)
        process.signal(signal.SIGTERM)
        for client in clients:
            assert client.response().status == 200
            client.close()
        process.assert_ends()
    assert "Answered 61 requests on 31 connections" in process.closing


@rule("worker-kind", STEP)
def test_a_worker_for_each_core() -> None:
    cores = core_count() if sys.platform == "linux" else 1
    assert f"({cores})" in " ".join(run(BARE, "--help").stdout.split())


# What a worker needs and cannot have.


def gets_ready(process: Running) -> bool:
    """Does it get ready, or end?"""
    try:
        process.port = process.wait_until_ready(PATIENCE)
    except LaunchError:
        process.wait()
        return False
    return True


def children_left(process: Running) -> list[int]:
    """Processes that a server has left behind (of its session)."""
    left = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == process.pid:
                left.append(pid)
    return left


def assert_ended(process: Running) -> None:
    """It has ended with one sentence, and left no process behind."""
    assert process.wait() == 1
    assert_one_sentence(process.complaints)
    assert eventually(lambda: not children_left(process), PATIENCE)


@rule("worker-unable", STEP)
@pytest.mark.thorough
@KINDS
@ENGINES
def test_too_few_descriptors_to_start(kind: str, engine: str) -> None:
    # With each limit it serves, or ends and says why: with some the
    # parent cannot get what it needs, with some a worker.
    options = ("--worker-kind", kind, "--engine", engine, "--workers", "3")
    ended = 0
    for limit in range(5, 30, 2 if kind == "process" else 3):
        with Running(BARE, options, descriptors=limit) as process:
            if gets_ready(process):
                assert process.complaints == "", limit
            else:
                ended += 1
                assert "open files" in process.complaints, limit
                if kind == "interpreter":  # CPython may print more
                    assert process.wait() == 1
                    said = process.complaints.splitlines()[-1]
                    assert "cannot" in said
                else:
                    assert_ended(process)
    assert ended, "none of the limits was too low"


@rule("worker-unable", STEP)
@LINUX
@ENGINES
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_worker_cannot_be_replaced(engine: str, spare: int) -> None:
    options = ("--worker-kind", "process", "--engine", engine)
    with started(BARE, *options, "--workers", "2") as process:
        process.assert_serves()
        limit = process.processes()[0].num_fds() + spare
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        victim = process.workers()[0]
        victim.kill()
        assert eventually(
            lambda: process.status() is not None
            or replaced(process, [victim], 2), PATIENCE,
        )  # fmt: skip
        # Replaced is not yet ready: it may still find that it cannot serve.
        process.signal(signal.SIGTERM)
        if process.wait() or process.complaints:
            assert_ended(process)


@rule("worker-unable", STEP)
@LINUX
def test_no_process_can_be_made() -> None:
    # fork is the system call clone, which has its number per processor.
    number = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
    if number is None:
        pytest.skip("the number of clone is not known here")
    options = ("--worker-kind", "process", "--engine", "emulated")
    through = forbidding("EAGAIN", number)
    assert_refused(run(BARE, "--port", "0", *options, through=through))


@rule("worker-unable", STEP)
def test_one_that_dies_at_once_is_not_started_for_ever() -> None:
    # Kill every new worker as soon as it is there, for a while: the
    # server must neither spin nor leave anything behind.
    options = (*best(), "--worker-kind", "process", "--workers", "1")
    with started(BARE, *options) as process:
        seen: set[int] = set()
        begin = time.monotonic()
        while len(seen) < 5 and process.status() is None:
            for each in process.workers():
                seen.add(each.pid)
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()  # it may have died just now
            time.sleep(0.005)
        # It looks for dead ones every half second, so this takes a while.
        took = time.monotonic() - begin
        assert took > 1 or process.status() is not None, f"in {took:.2f} s"
        assert eventually(
            lambda: process.status() is not None or process.serves(3), PATIENCE
        )
        if process.status() is not None:
            assert_ended(process)
