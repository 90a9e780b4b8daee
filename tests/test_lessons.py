"""The table of lessons: what a step can do that the one before could not.

Each "no" is expected to fail, strictly: a server that can do more than
its step says is a failure too. "Up to the pool" has two sides.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tests.client import GET, GET_CLOSE, Client, NoAnswer
from tests.marks import lesson
from tests.process import Running, eventually, running, started
from tools.servers import YES, Server

WORKERS = 4  # threads where there is a pool


def pool_options(side: str) -> list[str]:
    """The size of the pool, where there is one."""
    return ["--workers", str(WORKERS)] if side else []


@lesson("silent")
def test_silent_client_holds_up_nobody(server: Server, side: str) -> None:
    # The earlier clients are silent, so an accept queue cannot pass for
    # concurrency: those that come later are answered first.
    crowd = {"": 20, "below": WORKERS - 1, "above": WORKERS}[side]
    with running(server, *pool_options(side)) as process:
        earlier = [
            process.client(GET[:9] if number % 2 else b"")
            for number in range(crowd)
        ]
        process.assert_serves(4)
        process.assert_serves(4)
        for number, client in enumerate(earlier):
            client.send(GET[9:] if number % 2 else GET)
            assert client.answer().status == 200
            client.close()


@lesson("overlap")
def test_waiting_overlaps(server: Server, side: str) -> None:
    clients = {"": 16, "below": WORKERS, "above": 3 * WORKERS}[side]
    delay = ("--delay", "1")
    with running(server, *delay, *pool_options(side)) as process:
        begin = time.monotonic()
        process.assert_serves()
        single = time.monotonic() - begin
        begin = time.monotonic()
        crowd = [process.client(GET_CLOSE) for _ in range(clients)]
        for client in crowd:
            left = begin + 2 * single - time.monotonic()
            answer = client.answer(timeout=max(left, 0.01))
            assert answer.status == 200
            client.close()


@lesson("threads")
def test_threads_stay_the_same(server: Server, side: str) -> None:
    few, many = {
        "": (1, 200), "below": (1, WORKERS), "above": (WORKERS, 200),
    }[side]
    delay = ("--delay", "1.5")
    with started(server, *delay, *pool_options(side)) as process:
        with_few = most_threads(process, few)
        with_many = most_threads(process, many)
    assert with_many == with_few, f"threads with {few} and {many} requests"


def most_threads(process: Running, number: int) -> int:
    """Threads seen while this many requests are under way."""
    clients = [process.client(GET_CLOSE) for _ in range(number)]
    most = 0
    while b"\r\n\r\n" not in clients[0].received:
        most = max(most, process.threads())
        try:
            clients[0].receive(0.05)
        except NoAnswer:
            continue
    for client in clients:
        client.reset()
    return most


@lesson("keep_alive")
def test_keeps_connections_open(server: Server, side: str) -> None:
    options = pool_options(side)
    with running(server, *options) as process, process.client() as client:
        for _ in range(3):
            assert not client.ask(GET).closes


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


AT_ONCE = 8  # requests


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
@lesson("cores")
def test_computing_uses_every_core(server: Server, side: str) -> None:
    # As many requests one after the other, and all at once, in turns, so
    # that other work on this machine slows down both. With more workers
    # than cores, a busy machine still gives them more than one core.
    workers = ["--workers", str(AT_ONCE)] if server.workers else []
    steps = steps_of_80_ms()
    options = ("--delay", "0", "--compute", str(steps), *workers)
    with running(server, *options) as process:
        process.assert_serves()
        ratios: list[float] = []
        while len(ratios) < 9:
            turns = seconds_in_turns(process)
            assert turns / AT_ONCE > 0.04, "computes too little"
            ratios.append(seconds_at_once(process) / turns)
            ratio = statistics.median(ratios)
            if len(ratios) > 2 and not 0.7 < ratio < 0.9:
                break
        promised = server.lessons["cores"] == YES
        if promised and ratio >= 0.8 and not second_core(steps):
            # Other work leaves nobody a second core: does it want one?
            ratio = 1 / cores_wanted(process)
    assert ratio < 0.8, (
        f"{AT_ONCE} requests at once took {ratio:.2f} times as long as one "
        f"after the other (the median of {ratios})"
    )


def seconds_in_turns(process: Running) -> float:
    """Time for requests one after the other.

    Pipelined on one connection, so that none has to wait for us; where
    connections are not kept, all at once is in turns, too.
    """
    if process.server.lessons["keep_alive"] != "yes":
        return seconds_at_once(process)
    begin = time.perf_counter()
    with process.client(GET * AT_ONCE) as client:
        for _ in range(AT_ONCE):
            client.answer()
    return time.perf_counter() - begin


def seconds_at_once(process: Running) -> float:
    """Time for as many clients with a request each."""
    begin = time.perf_counter()
    clients = [process.client(GET_CLOSE) for _ in range(AT_ONCE)]
    for client in clients:
        client.answer()
        client.close()
    return time.perf_counter() - begin


def cores_wanted(process: Running) -> int:
    """How many of the server's processes compute at the same moment.

    The upper quartile over the time of a burst of requests: at its
    beginning and end fewer have something to do.
    """
    clients = [process.client(GET_CLOSE) for _ in range(AT_ONCE)]
    seen: list[int] = []
    while not all(client.received for client in clients):
        states = [each.status() for each in process.processes()]
        seen.append(states.count(psutil.STATUS_RUNNING))
        for client in clients:
            with contextlib.suppress(NoAnswer):
                client.receive(0.001)
    for client in clients:
        client.close()
    return max(sorted(seen)[3 * len(seen) // 4], 1)


def second_core(steps: int) -> bool:
    """Do processes that only compute get more than one core now?

    All in one session, as the workers of a server are: Linux deals out a
    busy machine by session (man 7 sched, autogroup).
    """
    code = f"for _ in range({steps}): pass"
    one = shlex.join([sys.executable, "-c", code])
    turns = seconds_of("; ".join([one] * AT_ONCE))
    at_once = seconds_of(" & ".join([one] * AT_ONCE) + " & wait")
    return at_once / turns < 0.8


def seconds_of(script: str) -> float:
    """How long a shell script takes, in a session of its own."""
    begin = time.perf_counter()
    subprocess.run(["sh", "-c", script], check=True, start_new_session=True)
    return time.perf_counter() - begin


def steps_of_80_ms() -> int:
    """How many steps of --compute take about 80 ms of CPU time here."""
    best = 1.0
    for _ in range(5):
        begin = time.process_time()
        for _ in range(1_000_000):
            pass
        best = min(best, time.process_time() - begin)
    return int(1_000_000 * 0.08 / best)


def why_no_strace() -> str:
    """Why system calls cannot be counted here; "" if they can."""
    if not sys.platform.startswith("linux"):
        return "strace is a tool for Linux"
    if not shutil.which("strace"):
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-o", os.devnull, "true"],
        capture_output=True, text=True, check=False,
    )
    return done.stderr.strip()


WHY_NO_STRACE = why_no_strace()


@pytest.mark.skipif(bool(WHY_NO_STRACE), reason=WHY_NO_STRACE)
@lesson("batching")
def test_system_calls_per_request_fall(server: Server, side: str) -> None:
    # A thread for each client, where there are only so many.
    threads = server.workers and server.step < 7
    options = ["--workers", "50"] if threads else []
    with running(server, "--delay", "0", *options) as process:
        alone = calls_per_request(process, clients=1, rounds=200)
        crowd = calls_per_request(process, clients=50, rounds=20)
    # Whoever makes a call for each receive and each send needs two.
    assert crowd < min(1, alone / 2), (
        f"{crowd:.2f} system calls per request with 50 clients, "
        f"{alone:.2f} with one"
    )


def calls_per_request(process: Running, clients: int, rounds: int) -> float:
    """System calls of the server, counted by strace -c."""
    keeps = process.server.lessons["keep_alive"] == "yes"
    crowd = [process.client() for _ in range(clients)] if keeps else []
    if keeps:
        one_round(crowd)
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder, "summary")
        command = ["strace", "-c", "-f", "-o", str(summary)]
        for each in process.processes():
            command += ["-p", str(each.pid)]
        strace = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            assert eventually(lambda: all_traced(process)), "not attached"
            for _ in range(rounds):
                if keeps:
                    one_round(crowd)
                else:
                    one_round([process.client() for _ in range(clients)])
        finally:
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=20)
        # The last line: percent, seconds, usecs/call, calls, total.
        total = summary.read_text().splitlines()[-1]
    match = re.match(r"100\.00 +\S+ +\S+ +(\d+) ", total)
    assert match, total
    for client in crowd:
        client.close()
    return int(match[1]) / (clients * rounds)


def all_traced(process: Running) -> bool:
    """Does a tracer watch every thread of the server?"""
    tasks = [
        status.read_text()
        for each in process.processes()
        for status in Path(f"/proc/{each.pid}/task").glob("*/status")
    ]
    return not any("\nTracerPid:\t0\n" in text for text in tasks)


def one_round(clients: list[Client]) -> None:
    """All ask at the same moment; all are answered."""
    for client in clients:
        client.send(GET)
    for client in clients:
        if client.answer().closes:
            client.close()
