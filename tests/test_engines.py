"""Engines and workers of 07: which ones, and what if they cannot start."""

import functools
import os
import resource
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import psutil
import pytest

from tests.marks import rule
from tests.process import (
    Running,
    eventually,
    running,
    started,
    why_no_uring,
)
from tests.seccomp import IO_URING_ENTER, IO_URING_REGISTER, IO_URING_SETUP
from tests.test_running import assert_one_sentence, run
from tools.common.raw_client import GET, GET_CLOSE, Client, NoAnswer
from tools.servers import Server, by_name

STEP = range(7, 8)
LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="seccomp is a part of Linux"
)
NO_URING = pytest.mark.skipif(
    bool(why_no_uring()), reason=why_no_uring() or "there is io_uring"
)
# Where it does not matter; auto says a sentence if it has to choose.
BEST = ("--engine", "emulated" if why_no_uring() else "uring")
CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


@pytest.fixture
def bare() -> Server:
    """The server without the options of a variant."""
    return by_name("07")


def forbidding(error: str, call: int = IO_URING_SETUP) -> tuple[str, ...]:
    """The beginning of a command in which a system call fails."""
    helper = Path(__file__).with_name("seccomp.py")
    return (sys.executable, str(helper), error, str(call), "--")


def run_through(
    server: Server, through: tuple[str, ...], *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to end by itself."""
    return subprocess.run(
        [*through, sys.executable, str(server.path), "--port", "0", *options],
        capture_output=True, text=True, timeout=10, check=False,
    )


def gets_ready(process: Running) -> bool:
    """Does it get ready, or end?"""
    try:
        process.wait_until_ready()
    except RuntimeError:
        process.wait(5)
        return False
    return True


def children(process: Running) -> list[psutil.Process]:
    """The processes that are workers."""
    return process.tree.children()


# Engines.


@rule("engine", STEP)
@pytest.mark.parametrize(
    "name", ["auto", "emulated", pytest.param("uring", marks=NO_URING)]
)
def test_engine(bare: Server, name: str) -> None:
    with started(bare, "--engine", name) as process:
        for _ in range(5):
            process.assert_serves()
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        if name == "auto" and why_no_uring():
            assert_one_sentence(process.complaints)
        else:
            assert process.complaints == ""


@rule("engine", STEP)
@NO_URING
@pytest.mark.parametrize("name", ["auto", "emulated", "uring"])
def test_engine_is_the_one(bare: Server, name: str) -> None:
    # A ring is a descriptor with this name.
    with running(bare, "--engine", name) as process:
        process.assert_serves()
        for each in children(process):
            names = [
                os.readlink(link)
                for link in Path(f"/proc/{each.pid}/fd").iterdir()
            ]
            assert ("anon_inode:[io_uring]" in names) == (name != "emulated")


@rule("usage", STEP)
@pytest.mark.parametrize(
    "options",
    [
        ("--engine", "steam"), ("--engine", ""), ("--engine",),
        ("--worker-kind", "fibre"), ("--worker-kind", ""),
        ("--workers", "513"), ("--workers", "1.5"), ("--directory",),
        ("--directory", ""),
    ],
    ids=" ".join,
)  # fmt: skip
def test_nonsense_of_07(bare: Server, options: tuple[str, ...]) -> None:
    done = run(bare, "--port", "0", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert_one_sentence(done.stderr)


FORBIDDEN = ["EPERM", "ENOSYS"]


@rule("engine", STEP)
@LINUX
@pytest.mark.parametrize("error", FORBIDDEN)
def test_uring_is_forbidden(bare: Server, error: str) -> None:
    through = forbidding(error)
    done = run_through(bare, through, "--engine", "uring")
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_sentence(done.stderr)
    assert "io_uring" in done.stderr
    program = bare.path.with_name("uring.py")
    done = subprocess.run(
        [*through, sys.executable, str(program)],
        capture_output=True, text=True, timeout=20, check=False,
    )
    assert done.returncode != 0
    assert_one_sentence(done.stdout + done.stderr)
    assert "io_uring" in done.stdout + done.stderr


@rule("engine-auto", STEP)
@LINUX
@pytest.mark.parametrize("error", FORBIDDEN)
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_auto_where_uring_is_forbidden(
    bare: Server, error: str, kind: str
) -> None:
    options = ("--worker-kind", kind, "--workers", "3")
    through = forbidding(error)
    with started(bare, *options, through=through) as process:
        for _ in range(5):
            process.assert_serves()
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        said = process.complaints
        assert_one_sentence(said)
        assert "io_uring" in said and "emulated" in said
    own = ("--engine", "emulated", "--worker-kind", kind)
    with started(bare, *own, through=through) as process:
        process.assert_serves()
        process.signal(signal.SIGTERM)
        assert (process.wait(), process.complaints) == (0, "")


@rule("engine-error", STEP)
@LINUX
@pytest.mark.parametrize("name", ["auto", "uring"])
@pytest.mark.parametrize(
    ("error", "said"),
    [("ENOMEM", "annot allocate memory"), ("EMFILE", "oo many open files")],
)
def test_errors_are_not_hidden(
    bare: Server, name: str, error: str, said: str
) -> None:
    done = run_through(bare, forbidding(error), "--engine", name)
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_sentence(done.stderr)
    assert said in done.stderr


@rule("engine-error", STEP)
@LINUX
@NO_URING
@pytest.mark.parametrize("call", [IO_URING_ENTER, IO_URING_REGISTER])
@pytest.mark.parametrize("error", ["EPERM", "EINVAL"])
def test_half_of_uring_is_forbidden(
    bare: Server, call: int, error: str
) -> None:
    through = forbidding(error, call)
    done = run_through(bare, through, "--engine", "uring")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.count("\n") == 1, done.stderr
    # On auto it may be either, but not silent, and never a crash.
    process = Running(bare, (), through=through)
    try:
        if gets_ready(process):
            process.assert_serves()
            assert "emulated" in process.complaints
        else:
            assert process.process.returncode == 1
        assert "io_uring" in process.complaints
        assert_one_sentence(process.complaints)
    finally:
        process.kill()


# Workers.


def check_kind(process: Running, kind: str, number: int) -> None:
    """Has it so many workers of this kind? Do they serve?"""
    process.assert_serves()
    threads = process.tree.num_threads()
    workers = children(process)
    if kind == "process":
        assert (len(workers), threads) == (number, 1)
        assert [each.num_threads() for each in workers] == [1] * number
    else:
        assert (workers, threads) == ([], 1 + number)


@rule("worker-kind", STEP)
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize(
    "name", ["emulated", pytest.param("uring", marks=NO_URING)]
)
def test_worker_kind(
    bare: Server, kind: str, number: int, name: str
) -> None:
    options = ("--worker-kind", kind, "--workers", str(number))
    with running(bare, *options, "--engine", name) as process:
        check_kind(process, kind, number)
        clients = [process.client(GET) for _ in range(30)]
        for client in clients:
            assert client.answer().status == 200
            assert client.ask(GET).status == 200
            client.close()
    assert "Answered 61 requests on 31 connections" in process.output


@rule("worker-kind", STEP)
def test_worker_kind_auto(bare: Server) -> None:
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert has_gil or sysconfig.get_config_var("Py_GIL_DISABLED")
    kind = "process" if has_gil else "thread"
    for options in ((), ("--worker-kind", "auto")):
        with running(bare, *BEST, *options, "--workers", "3") as process:
            check_kind(process, kind, 3)


@rule("worker-kind", STEP)
def test_a_worker_for_each_core(bare: Server) -> None:
    command = [sys.executable, str(bare.path), "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False
    )
    assert f"({CORES})" in " ".join(done.stdout.split())


@rule("worker-kind", STEP)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_threads_stop(bare: Server, number: int) -> None:
    options = (*BEST, "--worker-kind", "thread", "--delay", "1")
    with started(bare, *options) as process:
        clients = [process.client(GET) for _ in range(6)]
        silent = process.client()
        time.sleep(0.4)
        process.signal(number)
        for client in clients:
            assert client.answer().status == 200
        assert (process.wait(4), process.complaints) == (0, "")
        silent.close()


# Workers that die.


def owners(process: Running, clients: list[Client]) -> list[int]:
    """The worker (its pid) that has accepted each of these clients."""
    found: dict[int, int] = {}

    def all_found() -> bool:
        for each in children(process):
            for connection in each.net_connections(kind="tcp"):
                if connection.raddr:
                    found[connection.raddr.port] = each.pid
        return ports <= found.keys()

    ports = {client.socket.getsockname()[1] for client in clients}
    assert eventually(all_found)
    return [found[each.socket.getsockname()[1]] for each in clients]


@rule("worker-replaced", STEP)
@pytest.mark.parametrize(
    "name", ["emulated", pytest.param("uring", marks=NO_URING)]
)
def test_no_client_is_turned_away(bare: Server, name: str) -> None:
    options = (
        "--engine", name, "--worker-kind", "process", "--workers", "3",
        "--delay", "1.5",
    )  # fmt: skip
    with running(bare, *options) as process:
        crowd = [process.client(GET) for _ in range(24)]
        pids = owners(process, crowd)
        victim = psutil.Process(pids[0])
        begin = time.monotonic()
        victim.kill()
        assert eventually(lambda: gone(victim))
        late = [process.client(GET_CLOSE) for _ in range(24)]
        steady = [
            client for client, pid in zip(crowd, pids, strict=True)
            if pid != victim.pid
        ]  # fmt: skip
        for _ in range(2):
            for client in steady:
                assert client.answer().status == 200, "it went on"
                client.send(GET)

        done = functools.partial(replaced, process, [victim], 3)
        assert eventually(done, 5)
        for client in late:
            assert client.answer().status == 200, "it waited in a queue"
        took = time.monotonic() - begin
        assert took < 10, f"{took:.1f} s: two rounds of 1.5 s and a worker"
        for client in crowd + late:
            client.close()


def gone(process: psutil.Process) -> bool:
    """Has it ended, even if nobody has taken notice yet?"""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@rule("worker-replaced", STEP)
def test_workers_die_again_and_again(bare: Server) -> None:
    options = (*BEST, "--worker-kind", "process", "--workers", "2")
    with running(bare, *options) as process:
        before = process.warm_up()
        for number in range(4):
            victims = children(process)[: 1 + number % 2]
            for victim in victims:
                victim.kill()
            done = functools.partial(replaced, process, victims)
            assert eventually(done, 6)
            for _ in range(5):
                process.assert_serves()
        process.assert_at_rest(before)


def replaced(
    process: Running, victims: list[psutil.Process], number: int = 2
) -> bool:
    """Are there so many workers, and none of these?"""
    pids = {each.pid for each in children(process)}
    return len(pids) == number and pids.isdisjoint(v.pid for v in victims)


@rule("worker-replaced", STEP)
def test_stop_while_a_worker_is_dead(bare: Server) -> None:
    options = (*BEST, "--worker-kind", "process", "--workers", "3")
    with started(bare, *options) as process:
        process.assert_serves()
        children(process)[1].kill()
        process.signal(signal.SIGTERM)
        assert (process.wait(8), process.complaints) == (0, "")
        assert process.output.count("\n") == 1


@rule("worker-unable", STEP)
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize(
    "name", ["emulated", pytest.param("uring", marks=NO_URING)]
)
def test_too_few_descriptors_to_start(
    bare: Server, kind: str, name: str
) -> None:
    # With each limit it serves, or ends and says why: with some the
    # parent cannot get what it needs, with some a worker.
    options = ("--worker-kind", kind, "--engine", name, "--workers", "3")
    ended = 0
    for limit in range(5, 30, 2 if kind == "process" else 3):
        process = Running(bare, options, descriptors=limit)
        try:
            ready, said = gets_ready(process), process.complaints
            if ready:
                assert said == "", limit
                continue
            ended += 1
            assert process.process.returncode == 1, (limit, said)
            assert_one_sentence(said)
            assert "open files" in said, (limit, said)
            assert eventually(functools.partial(none_left, process), 5)
        finally:
            process.kill()
    assert ended, "none of the limits was too low"


def none_left(process: Running) -> bool:
    return not children_left(process)


def children_left(process: Running) -> list[str]:
    """Processes that a server has left behind (of its session)."""
    left = []
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) == process.process.pid:
                left.append(" ".join(each.cmdline()))
        except (OSError, psutil.Error):
            continue
    return left


@rule("worker-unable", STEP)
@LINUX
@pytest.mark.parametrize(
    "name", ["emulated", pytest.param("uring", marks=NO_URING)]
)
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_worker_cannot_be_replaced(
    bare: Server, name: str, spare: int
) -> None:
    options = ("--worker-kind", "process", "--engine", name)
    with started(bare, *options, "--workers", "2") as process:
        process.assert_serves()
        limit = process.tree.num_fds() + spare
        resource.prlimit(
            process.process.pid, resource.RLIMIT_NOFILE, (limit, limit)
        )
        victim = children(process)[0]
        victim.kill()

        def decided() -> bool:
            ended = process.process.poll() is not None
            return ended or replaced(process, [victim])

        assert eventually(decided, 6)
        time.sleep(0.7)
        if process.process.poll() is None:
            assert process.complaints == ""
        else:
            assert process.process.returncode == 1
            assert_one_sentence(process.complaints)
            assert eventually(lambda: not children_left(process), 5)


@rule("worker-unable", STEP)
@LINUX
def test_no_process_can_be_made(bare: Server) -> None:
    # fork is the system call clone, which has its number per processor.
    number = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
    if number is None:
        pytest.skip("the number of clone is not known here")
    through = forbidding("EAGAIN", number)
    options = ("--worker-kind", "process", "--engine", "emulated")
    done = run_through(bare, through, *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert_one_sentence(done.stderr)


@rule("worker-unable", STEP)
def test_who_dies_at_once_is_not_started_for_ever(bare: Server) -> None:
    # Kill every new worker as soon as it is there, for a while: the
    # server must neither spin nor leave anything behind.
    options = (*BEST, "--worker-kind", "process", "--workers", "1")
    with started(bare, *options) as process:
        seen = set()
        until = time.monotonic() + 2
        while time.monotonic() < until and process.process.poll() is None:
            for each in children(process):
                seen.add(each.pid)
                each.kill()
            time.sleep(0.005)
        assert len(seen) < 12, f"{len(seen)} workers in 2 s"
        if process.process.poll() is None:
            assert eventually(lambda: serves(process), 5)
        else:
            assert process.process.returncode == 1
            assert_one_sentence(process.complaints)


def serves(process: Running) -> bool:
    """Is a client answered?"""
    try:
        process.assert_serves(3)
    except (NoAnswer, OSError):
        return False
    return True
