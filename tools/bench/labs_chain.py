"""``./bench.sh labs chain``: coroutine servers, measured as in 2010.

Each answers a page with a number by the least HTTP that does, on its
library's sockets, so that the loops are compared. Two loads, as in the
Syncless benchmark: 100,000 requests of 100 clients with ab, and 10,000
fetches one after the other, each of the number in the last answer. What
number the chain ends at is known: nothing can be skipped.
"""

import argparse
import contextlib
import re
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tools.bench.ab import AbError, Load, parse
from tools.bench.cost import Meter
from tools.bench.numbers import formatted, number
from tools.bench.outcome import (
    add,
    any_fault,
    keep_raw,
    take_cost,
    take_report,
)
from tools.bench.peers import start
from tools.bench.peers.number import FIRST, HEAD, after, following
from tools.bench.run import PROGRAMS, SHOWN, run_load
from tools.bench.server import ServerError
from tools.data.results import Point, Results, Run
from tools.peers import PYTHON, Peer

ABOUT = (
    "chain: coroutines.py, asyncio, gevent, eventlet, tornado and node "
    "with the load of 2010 (about 8 minutes)"
)
SUITE = "labs-chain"
FETCHES = 10_000
REQUESTS = 100_000
CLIENTS = 100
REPEATS = 3
WARM_UP = 200  # fetches
FETCH_SECONDS = 10.0  # for one answer of the chain
LEAST_RATE = 200  # requests a second; slower than that has stopped
LINK = re.compile(rb'<a href="/(\d+)">')
RECV_SIZE = 4096
ON = "tools.bench.peers.chain_"


@dataclass(frozen=True)
class Entry:
    """One server of the comparison: how to start it, and what it is on."""

    peer: Peer
    how: str


def _python(name: str, how: str, packages: tuple[str, ...] = ()) -> Entry:
    start_words = (PYTHON, "-m", ON + name, "{host}", "{port}")
    module = packages[0] if packages else "socket"
    return Entry(Peer(name, how, "", start_words, packages, module), how)


ENTRIES = (
    _python("coroutines", "our own loop"),
    _python("asyncio", "streams"),
    _python("gevent", "StreamServer", ("gevent",)),
    _python("eventlet", "green threads", ("eventlet",)),
    _python("tornado", "IOStream", ("tornado",)),
    Entry(
        Peer(
            "node", "net", "",
            ("node", "tools/bench/peers/chain_node.js", "{host}", "{port}"),
            get="apt install nodejs, or brew install node",
        ),
        "net",
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this lab."""
    group = parser.add_argument_group("options of the lab chain")
    group.add_argument(
        "--servers", metavar="LIST", type=entries, default=ENTRIES,
        help="only these of " + ", ".join(e.peer.name for e in ENTRIES),
    )
    group.add_argument(
        "--fetches", type=number(1, 10**7), default=FETCHES, metavar="N",
        help=f"one after the other (default: {FETCHES})",
    )
    group.add_argument(
        "--requests", type=number(1, 10**8), default=REQUESTS, metavar="N",
        help=f"at the same time (default: {REQUESTS})",
    )
    group.add_argument(
        "--chain-clients", type=number(1, 10_000), default=CLIENTS,
        metavar="N", help=f"that make them (default: {CLIENTS})",
    )


def entries(words: str) -> tuple[Entry, ...]:
    """A check for argparse: some of the servers, in our order."""
    wanted = {word.strip() for word in words.split(",") if word.strip()}
    known = {entry.peer.name for entry in ENTRIES}
    for word in sorted(wanted - known):
        raise argparse.ArgumentTypeError(
            f"there is no server {word!r}; there are "
            + ", ".join(entry.peer.name for entry in ENTRIES)
        )
    if not wanted:
        raise argparse.ArgumentTypeError("names no server")
    return tuple(entry for entry in ENTRIES if entry.peer.name in wanted)


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure all, their repeats interleaved; 1 if one failed.

    A server whose library cannot be had is noted as skipped.
    """
    chosen: tuple[Entry, ...] = options.servers
    if options.chain_clients > options.requests:
        print(
            f"bench.sh: {options.chain_clients} clients cannot share "
            f"{options.requests} requests", file=sys.stderr,
        )
        return 2
    peers = [entry.peer for entry in chosen]
    missing = start.missing(peers, console.print)
    results.tools.update(
        start.versions([p for p in peers if p.name not in missing])
    )
    load = Load(options.chain_clients, options.requests)
    points = {
        entry.peer.name: Point(
            entry.peer.name, SUITE, load.clients, 0.0, variant=entry.how
        )
        for entry in chosen
    }
    there = [entry for entry in chosen if entry.peer.name not in missing]
    repeats = options.repeats or REPEATS
    with _progress(console) as progress:
        bar = progress.add_task("chain", total=repeats * len(there))
        for turn in range(1, repeats + 1):
            for entry in there:
                name = entry.peer.name
                progress.update(
                    bar, description=f"{name}, round {turn} of {repeats}"
                )
                one = measure(
                    entry.peer, options.fetches, load, results.load, folder
                )
                console.print(f"[bold]{name}[/]: {escape(summary(one))}",
                              soft_wrap=True)
                add(results, points[name], one)
                results.save(folder)
                progress.advance(bar)
    for name, why in missing.items():
        point = points[name]
        point.status, point.reason = "skipped", why
        results.points.append(point)
    show(results, console)
    return int(any(point.status == "failed" for point in results.points))


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(), console=console,
        transient=True,
    )


# One server ---------------------------------------------------------------


def measure(
    peer: Peer, fetches: int, load: Load, program: str, folder: Path
) -> Run:
    """The chain, then the parallel load, against one fresh server.

    program: "ab" or "python". The requests/s and the CPU of the run are
    those of the parallel load; Run.extra has those of the chain.
    """
    one = Run(start.planned_command(peer))
    try:
        with begin(peer) as process:
            one.command = process.command
            chain(process.port, WARM_UP)
            one.extra = measure_chain(process, fetches)
            shown = " ".join(load.command(process.url, SHOWN[program]))
            one.command += f"\n{shown}"
            words = load.command(process.url, PROGRAMS[program])
            patience = 30.0 + load.requests / LEAST_RATE
            meter = Meter(process)
            text, late = run_load(words, patience, meter.sample)
            take_cost(one, meter.read())
            keep_raw(folder, peer.name, one.command, text)
            fill(one, text, late, load)
            if process.status() is not None:
                one.error = f"the server died: {process.last_words()}"
    except ServerError as error:
        one.error = str(error)
    return one


@contextlib.contextmanager
def begin(peer: Peer) -> Iterator[start.PeerProcess]:
    """A fresh server, stopped at the end. Raises ServerError."""
    with tempfile.TemporaryDirectory() as folder:
        process = start.PeerProcess(peer, Path(folder))
        try:
            yield process
        finally:
            process.stop()


def measure_chain(
    process: start.PeerProcess, fetches: int
) -> dict[str, float]:
    """The chain's figures for Run.extra. Raises ServerError."""
    meter = Meter(process)
    begun = time.perf_counter()
    end = chain(process.port, fetches)
    took = time.perf_counter() - begun
    cost = meter.read()
    return {
        "chain_per_second": round(fetches / took, 3),
        "chain_cpu_ms": round(
            1000 * (cost.cpu_user + cost.cpu_system) / fetches, 6
        ),
        "chain_fetches": float(fetches),
        "chain_end": float(end),
    }


def chain(port: int, fetches: int) -> int:
    """Fetch one page after the other; the number that the last one names.

    Raises ServerError if a page names a wrong one, or is no page.
    """
    this = FIRST
    for done in range(fetches):
        try:
            page = fetch(port, this)
        except OSError as error:
            why = error.strerror or str(error)
            raise ServerError(f"fetch {done + 1} failed: {why}") from error
        link = LINK.search(page)
        if not page.startswith(HEAD) or link is None:
            raise ServerError(f"fetch {done + 1} has no page as an answer")
        if int(link[1]) != following(this):
            raise ServerError(
                f"fetch {done + 1}: page {this} names {int(link[1])} instead "
                f"of {following(this)}"
            )
        this = int(link[1])
    if this != after(fetches):
        raise ServerError(f"the chain ends at {this}, not {after(fetches)}")
    return this


def fetch(port: int, page: int) -> bytes:
    """Head and body of one page, on a connection of its own."""
    # The start page has no number, as the benchmark's.
    path = f"/{page}" if page != FIRST else "/"
    with socket.create_connection(("127.0.0.1", port), FETCH_SECONDS) as sock:
        sock.sendall(b"GET %b HTTP/1.0\r\n\r\n" % path.encode())
        parts = []
        while data := sock.recv(RECV_SIZE):
            parts.append(data)
    return b"".join(parts)


def fill(one: Run, text: str, late: bool, load: Load) -> None:
    """The load generator's figures into a run; all must be there."""
    try:
        report = parse(text)
    except AbError as error:
        one.requests, one.error = error.requests, str(error)
        return
    take_report(one, report)
    one.error = any_fault(
        report, late, "interrupted: the server had become too slow"
    )
    if one.error is None and report.requests < load.requests:
        one.error = (
            f"{load.requests - report.requests} of {load.requests} requests "
            "were not answered"
        )


def summary(one: Run) -> str:
    """One line on a run for the screen."""
    if one.error is not None:
        return f"failed: {one.error}"
    return (
        f"{one.requests_per_second or 0:,.0f} requests/s, one after the "
        f"other {one.extra['chain_per_second']:,.0f}; the chain ends at "
        f"{one.extra['chain_end']:.0f}"
    )


def show(results: Results, console: Console) -> None:
    """Requests/s and what they cost, of both loads."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("server")
    table.add_column("on")
    for title in ("requests/s", "lowest-highest", "CPU us", "chain/s",
                  "lowest-highest", "CPU us"):
        table.add_column(title, justify="right")
    for point in results.suite(SUITE):
        if point.status != "ok":
            table.add_row(point.server, point.variant, point.status)
            continue
        cells = []
        for rate, cpu in (("requests_per_second", "cpu_ms"),
                          ("chain_per_second", "chain_cpu_ms")):
            low, high = point.spread(rate) or (0.0, 0.0)
            cells += [
                formatted(point.median(rate), "{:,.0f}"),
                f"{low:,.0f}-{high:,.0f}",
                formatted(point.median(cpu), "{:.1f}", 0.001),
            ]
        table.add_row(point.server, point.variant, *cells)
    console.print(table)
    for point in results.suite(SUITE):
        if point.status != "ok":
            console.print(
                f"{point.server}: {escape(point.reason)}", soft_wrap=True
            )
