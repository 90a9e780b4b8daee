"""``./bench.sh labs connections``: requests/s over 1, 2, 4 ... 65,536.

The graph that the Syncless benchmark of 2010 asked for and never drew. The
servers are those of `labs.chain` and step 07, the load is ab with so many
connections at a time, new for each request. A line ends where its server
does, or where the machine has no more descriptors.
"""

import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from labs.chain.measure import PEERS
from labs.hold.measure import levels
from tools.bench import outcome, run
from tools.bench.ab import Load
from tools.bench.cost import Meter
from tools.bench.load import SHOWN, patience, read, run_load
from tools.bench.machine import ROOM, raise_open_files
from tools.bench.peers import start
from tools.bench.server import Running
from tools.bench.server import start as start_ours
from tools.bench.session import Session, Work
from tools.bench.table import figure
from tools.data.results import Point, Run
from tools.peers import Peer
from tools.servers import Server, by_name

HELP = (
    "requests/s of coroutine servers and 07 over 1, 2, 4 ... 65,536 "
    "connections (about 20 minutes)"
)
SUITE = "labs-connections"
NAMES = ("coroutines", "asyncio", "gevent", "tornado", "node")
LEVELS = tuple(2**n for n in range(17))  # connections
REPEATS = 3
PER_LOAD = 16_384  # connections of one ab, which makes no more than 20,000
SECONDS, MOST_SECONDS = 2, 30  # of a load: about; at most
FIRST_RATE = 1000  # requests/s of a server of which nothing is known
WARM_UP = 20  # requests

OPTIONS = (
    ("--connections", {
        "type": levels, "default": LEVELS, "metavar": "LIST",
        "help": "how many at a time (default: 1,2,4 ... 65536)",
    }),
)  # fmt: skip


def measure(session: Session) -> int:
    """All servers, from level to level; see `tools.bench.run.sweep`."""
    asked = session.options.connections
    files = raise_open_files(asked[-1] + ROOM)
    session.results.machine.open_files = files
    peers = [PEERS[name] for name in NAMES]
    missing = start.missing(peers, session.say)
    there = [peer for peer in peers if peer.name not in missing]
    session.results.tools.update(start.versions(there))
    most = (files - ROOM, "this machine allows a process no more than "
            f"{files:,} open files")
    # Each connection has a port of its own on our side, and one address
    # has some 28,000. All of 127.0.0.0/8 is this machine on Linux.
    if session.results.load != "ab" or sys.platform != "linux":
        most = min(most, (PER_LOAD, "more are made by several ab on Linux"))
    run.sweep(
        session, [*there, by_name("07")], session.repeats(REPEATS), most,
        asked, partial(a_step, session),
    )
    for name, why in missing.items():
        session.skip(Point(name, SUITE, asked[0], 0.0), why)
    session.show(
        {
            "server": lambda p: p.server,
            "connections": lambda p: f"{p.clients:,}",
            "requests/s": figure("requests_per_second"),
            "p99 ms": figure("p99"),
            "CPU us": figure("cpu_ms", "{:.1f}", 0.001),
        }
    )
    # That a line ends is a result. That it does not begin is none.
    return int(any(
        p.status == "failed" and p.clients == asked[0] for p in session.points
    ))


def a_step(
    session: Session, server: Server | Peer, clients: int, rates: list[float]
) -> Work:
    """The next point of a line; rates: of those before it."""
    rate = rates[-1] if rates else FIRST_RATE
    load = Load(clients, max(clients, round(SECONDS * rate)), MOST_SECONDS)
    point = Point(server.name, SUITE, clients, 0.0)
    return point, partial(run_once, session, server, load)


def run_once(session: Session, server: Server | Peer, load: Load) -> Run:
    """One load on a fresh server. Raises ServerError."""
    with (
        start.start(server, page=b"") if isinstance(server, Peer)
        else start_ours(server, 0.0, ("--workers", "1"))
    ) as process:
        process.warm_up(WARM_UP)
        if load.clients <= PER_LOAD:
            return session.load(process, load, name=server.name)
        return by_several(session, process, load, server.name)


def by_several(
    session: Session, process: Running, load: Load, name: str
) -> Run:
    """A load that several ab make together, each from its own address."""
    parts = math.ceil(load.clients / PER_LOAD)
    part = replace(
        load, clients=load.clients // parts, requests=load.requests // parts
    )
    sources = [f"127.0.0.{2 + number}" for number in range(parts)]
    commands = [
        part.command(process.url, (*SHOWN["ab"], "-B", source))
        for source in sources
    ]
    meter = Meter(process)
    with ThreadPoolExecutor(parts) as pool:
        texts = [*pool.map(
            lambda words: run_load(words, patience(part, 0.0), lambda: None),
            commands,
        )]
    one = together([read("ab", text, late) for text, late in texts])
    outcome.take_cost(one, meter.read())
    shown = [" ".join(words) for words in commands]
    one.command = "\n".join([process.command, *shown])
    outcome.keep_raw(
        session.folder, name, one.command, "\n".join(t for t, _ in texts)
    )
    return one


def together(runs: Sequence[Run]) -> Run:
    """What loads at the same time have seen, as one.

    Of a percentile it is the worst.
    """
    one = Run("", seconds=max(each.seconds for each in runs))
    for name in ("requests", "failed", "non_2xx"):
        setattr(one, name, sum(getattr(each, name) for each in runs))
    if one.seconds:
        one.requests_per_second = round(one.requests / one.seconds, 2)
    for each in runs:
        one.error = one.error or each.error
        for name, value in each.latency_ms.items():
            worst = min if name == "min" else max
            known = one.latency_ms.get(name, value)
            one.latency_ms[name] = worst(value, known)
    return one
