"""Which points a run measures, in which order.

A load ends after a number of requests, so that everyone does the same
work, or after a number of seconds, so that a server that answers one
client at a time does not take minutes: whichever comes first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.bench import wrk
from tools.bench.ab import MANY, Load
from tools.bench.preflight import PORTS_FREE_AT_ONCE
from tools.data.results import Point
from tools.peers import Peer
from tools.servers import NO, YES, Server

DELAY = 0.1  # seconds: what a request waits in all suites but the raw ones
WARM_UP = {DELAY: 2, 0.0: 20}  # requests before measuring, by delay
SMOKE = ("02", "03", "06")  # the servers of --smoke
PORTS_ELSEWHERE = 8000  # new connections a run where TIME_WAIT holds ports

SWEEP_CLIENTS = tuple(2**n for n in range(13))  # 1 to 4096
SWEEP_SECONDS = 2.0  # about how long a point of the sweep takes
SWEEP_LIMIT = 12  # seconds: a point never takes longer
PATIENCE_MS = 10_000.0  # a client that waits longer ends the line

PEER_CLIENTS = 100
TWICE = "07"  # among the peers with two workers, too
PEER_SECONDS = 3

SYSCALL_LOADS = {1: 500, 50: 2000}  # clients -> requests


@dataclass(frozen=True)
class Task:
    """One server under one load.

    delay: seconds; options: more for the server's command line; variant:
    what they make of it, in words.
    """

    server: Server | Peer
    suite: str
    delay: float
    load: Load | wrk.Load
    options: tuple[str, ...] = ()
    variant: str = ""

    def point(self) -> Point:
        """A new point for what this measures."""
        return Point(
            self.server.name, self.suite, self.load.clients, self.delay,
            keep_alive=self.load.keep_alive, variant=self.variant,
        )


MOST_NEW = MANY if PORTS_FREE_AT_ONCE else PORTS_ELSEWHERE
# Ten requests of each client, for servers that answer one at a time. A
# fixed number: each run is an average over the same rounds.
SERIAL = Load(10, 100, 15)
# Mode -> its suites. Default: four minutes; smoke: two suites, a second or
# two each; classic: exactly ``ab -n 1000 -c 10``.
LOADS = {
    "default": {
        "classic": Load(10, 500, 6),
        "many": Load(100, 3000, 11),
        "raw-new": Load(10, MANY, 1),
        "raw-keep": Load(10, MANY, 1, keep_alive=True),
    },
    "smoke": {
        "classic": Load(10, 100, 2),
        "raw-keep": Load(10, MANY, 1, keep_alive=True),
    },
    "classic": {"classic": Load(10, 1000, go_on=False)},
}
LOADS["full"] = LOADS["default"]


def suites(
    mode: str, servers: Sequence[Server], sketches: Sequence[Server] = ()
) -> list[Task]:
    """Every server under every load; the raw suites have no delay.

    The sketches, which cannot do much, under the classic load only.
    """
    return [
        Task(
            one, suite, 0.0 if "raw" in suite else DELAY,
            SERIAL if _serial(one, mode, suite) else _possible(load),
        )
        for suite, load in LOADS[mode].items()
        for one in (*servers, *(sketches if suite == "classic" else ()))
    ]


def _serial(one: Server, mode: str, suite: str) -> bool:
    """Would it take a minute for what the others do in seconds?"""
    serial = one.lessons["overlap"] == NO
    return serial and (mode, suite) == ("full", "classic")


def _possible(load: Load) -> Load:
    """No more new connections than there are ports for."""
    most = load.requests if load.keep_alive else MOST_NEW
    return replace(load, requests=min(load.requests, most))


def syscalls(servers: list[Server]) -> list[Task]:
    """Few requests under strace: counts hardly vary, one run is enough."""
    return [
        Task(one, "syscalls", 0.0, Load(n, requests, 15, keep_alive=True))
        for n, requests in SYSCALL_LOADS.items()
        for one in servers
    ]


def peers(peers: list[Peer], servers: list[Server]) -> list[Task]:
    """The peers and our servers side by side, one worker each.

    Connections are kept by wrk. ab asks for that in HTTP/1.0, and some
    peers then close the connection.
    """
    keep = wrk.Load(PEER_CLIENTS, PEER_SECONDS)
    loads: dict[str, Load | wrk.Load] = {
        "peer-keep": keep,
        "peer-differ": replace(keep, differ=True),
        "peer-new": _possible(Load(PEER_CLIENTS, MANY, PEER_SECONDS)),
    }
    tasks = []
    for suite, load in loads.items():
        tasks += [Task(one, suite, 0.0, load) for one in peers]
        for one in servers:
            # What --workers means to others is a number of threads.
            ways: dict[str, tuple[str, ...]] = {"": ()}
            if one.lessons["cores"] == YES:
                ways = {"1 worker": ("--workers", "1")}
                if one.name == TWICE:
                    ways["2 workers"] = ("--workers", "2")
            tasks += [
                Task(one, suite, 0.0, load, options, variant)
                for variant, options in ways.items()
            ]
    return tasks


def sweep_task(
    server: Server | Peer, clients: int, rates: list[float]
) -> Task:
    """The next point of a server's line.

    rates: requests/s of the points before it, with 1, 2, 4 ... clients.
    They tell how many requests take about SWEEP_SECONDS; every client
    makes at least one.
    """
    expected = possible = clients / DELAY
    if rates:
        before = rates[-2] if len(rates) > 1 else rates[-1] / 2
        growth = rates[-1] / before if before else 1.0
        expected = min(rates[-1] * min(max(growth, 1.0), 2.0), possible)
    rounds = max(math.ceil(SWEEP_SECONDS * expected / clients), 1)
    load = Load(clients, rounds * clients, SWEEP_LIMIT)
    return Task(server, "sweep", DELAY, load)
