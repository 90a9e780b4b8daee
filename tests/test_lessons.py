"""The table of lessons: what a step can do that the one before could not.

Each "no" is expected to fail, strictly: a server that can do more than
its step says is a failure too. "Up to the pool" has two sides.
"""

import time

import pytest

from tests.beside import CROWD, beside
from tests.marks import lesson, slow
from tests.process import (
    HAS_GIL,
    PATIENCE,
    PYPY,
    Running,
    readable,
    running,
    started,
)
from tools.bench import preflight, strace
from tools.bench.strace import StraceError
from tools.common.raw_client import GET, GET_CLOSE, Client
from tools.servers import NO, YES, Server

WORKERS = 8  # threads where there is a pool


def pool_options(side: str) -> list[str]:
    """The size of the pool, where there is one."""
    return ["--workers", str(WORKERS)] if side else []


@slow
@lesson("silent")
@beside
def test_silent_client_holds_up_nobody(server: Server, side: str) -> None:
    # The earlier clients are silent, so an accept queue cannot pass for
    # concurrency: one that comes later is answered before they are
    # dropped, and they can still ask.
    crowd = {"": 20, "below": WORKERS - 1, "above": WORKERS}[side]
    with running(server, *pool_options(side)) as process:
        earlier = [
            process.client(GET[:9] if number % 2 else b"")
            for number in range(crowd)
        ]
        late = process.client(GET_CLOSE)
        first = readable([late, *earlier], PATIENCE)
        assert late in first, "a silent client came first"
        assert late.response().status == 200
        for number, client in enumerate(earlier):
            client.send(GET[9:] if number % 2 else GET)
            assert client.response().status == 200
            client.close()


@lesson("overlap")
@beside
def test_waiting_overlaps(server: Server, side: str) -> None:
    # How long it takes if nothing overlaps (or in three rounds, above the
    # pool) is certain on any machine. If all overlaps it takes one delay,
    # and other work would have to add a minute to that.
    workers, clients, rounds = {
        "": (0, 32, 32), "below": (32, 32, 32), "above": (8, 24, 3),
    }[side]
    fails = server.lessons["overlap"] == NO or side == "above"
    delay = 0.2 if fails else PATIENCE / rounds
    pool = ["--workers", f"{workers}"] if workers else []
    with running(server, "--delay", f"{delay}", *pool) as process:
        begin = time.monotonic()
        crowd = [process.client(GET_CLOSE) for _ in range(clients)]
        for client in crowd:
            assert client.response().status == 200
            client.close()
        assert time.monotonic() - begin < 0.9 * rounds * delay


@lesson("threads")
@beside
def test_threads_stay_the_same(server: Server, side: str) -> None:
    few, many = {
        "": (1, 200), "below": (1, WORKERS), "above": (WORKERS, 200),
    }[side]
    delay = ("--delay", "1.5")
    with CROWD, started(server, *delay, *pool_options(side)) as process:
        with_few = most_threads(process, few)
        with_many = most_threads(process, many)
    assert with_many == with_few, f"threads with {few} and {many} requests"


def most_threads(process: Running, number: int) -> int:
    """Threads seen while this many requests are under way."""
    clients: list[Client] = []
    seen = []
    for count in range(number):  # the first may have ended before the last
        clients.append(process.client(GET_CLOSE))
        if count % 50 == 0:
            seen.append(process.threads())
    seen.append(process.threads())
    while not readable(clients[:1], 0.05):
        seen.append(process.threads())
    for client in clients:
        client.reset()
    return max(seen)


@lesson("keep_alive")
def test_keeps_connections_open(server: Server, side: str) -> None:
    options = pool_options(side)
    with running(server, *options) as process, process.client() as client:
        for _ in range(3):
            assert not client.ask(GET).closes


COMPUTING = 40  # requests, which no listener's hash gives to one worker


@pytest.mark.skipif(preflight.core_count() < 2, reason="has only one core")
@lesson("cores")
def test_computing_uses_every_core(server: Server, side: str) -> None:
    # Who has computed, not when: that is up to other work.
    workers = ["--workers", "8"] if server.workers else []
    steps = 30_000_000 if PYPY else 600_000
    options = ("--delay", "0", "--compute", f"{steps}", *workers)
    with running(server, *options) as process:
        before = computed(process)
        # A thread of its own ends with its client; one of a pool is busy.
        ask = GET_CLOSE if server.workers else GET
        clients = [process.client(ask) for _ in range(COMPUTING)]
        for client in clients:
            assert client.response().status == 200
        spent = [
            seconds - before.get(each, 0)
            for each, seconds in computed(process).items()
        ]
        for client in clients:
            client.close()
    assert sum(each > max(spent) / 10 for each in spent) > 1, spent


def computed(process: Running) -> dict[int, float]:
    """The CPU seconds of each process, or without a GIL of each thread."""
    if HAS_GIL:
        return {p.pid: sum(p.cpu_times()[:2]) for p in process.processes()}
    return {
        each.id: each.user_time + each.system_time
        for one in process.processes() for each in one.threads()
    }


@lesson("batching")
def test_system_calls_per_request_fall(server: Server, side: str) -> None:
    if why := preflight.no_strace():
        pytest.skip(why)
    # A thread for each client, where there are only so many.
    threads = server.workers and server.step < 7
    options = ["--workers", "50"] if threads else []
    with running(server, "--delay", "0", *options) as process:
        try:
            alone = calls_per_request(process, clients=1, rounds=60)
            crowd = calls_per_request(process, clients=50, rounds=8)
        except StraceError as error:  # as in most containers
            pytest.skip(str(error))
    # Whoever makes a call for each receive and each send needs two.
    assert crowd < min(1, alone / 2), (
        f"{crowd:.2f} system calls per request with 50 clients, "
        f"{alone:.2f} with one"
    )


def calls_per_request(process: Running, clients: int, rounds: int) -> float:
    """System calls of the server, counted by strace -c."""
    def crowd() -> list[Client]:
        return [process.client() for _ in range(clients)]

    keeps = process.server.lessons["keep_alive"] == YES
    kept = crowd() if keeps else []
    one_round(process, kept)
    with strace.count([each.pid for each in process.processes()]) as counter:
        for _ in range(rounds):
            one_round(process, kept or crowd())
    for client in kept:
        client.close()
    total = sum(counter.calls.values())
    assert total, counter.table
    return total / (clients * rounds)


def one_round(process: Running, clients: list[Client]) -> None:
    """All ask at the same moment; all are answered.

    The server is asleep meanwhile: a quick one would answer the first
    before the last has asked.
    """
    for each in process.processes():
        each.suspend()
    for client in clients:
        client.send(GET)
    for each in process.processes():
        each.resume()
    for client in clients:
        if client.response().closes:
            client.close()
