"""``./bench.sh crowd``: thousands of clients against one worker.

With a delay of 0.1 s every client can get ten answers a second. Whether
all do is decided by the server and by the load generator, so how busy
that is stands beside every figure, as ``load_cores`` (its CPU seconds a
second). It has one thread: near 1 it can do no more, and how much that
would be is ``load_limit_per_second``.

Below that, clients come in waves: those that begin together come back
together after the delay. A wave takes both sides some time, and between
two waves both may have nothing to do.
"""

import argparse
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench import ab, plan, wrk
from tools.bench.cost import Meter
from tools.bench.holder import ROOM, raise_open_files
from tools.bench.numbers import number
from tools.bench.outcome import (
    add,
    any_fault,
    keep_raw,
    take_cost,
    take_report,
)
from tools.bench.report import Report
from tools.bench.run import GRACE_SECONDS, PROGRAMS, SHOWN, run_load, summary
from tools.bench.server import Process, ServerError, start
from tools.bench.x_hold import words
from tools.data.results import Point, Results, Run
from tools.servers import by_name

ABOUT = "1,000 and 4,000 clients against one worker of 07 (about 4 minutes)"
CLIENTS = (1000, 4000)
DELAY = 0.1  # seconds each request waits
SECONDS = 10  # a load
REPEATS = 3
OPTIONS = ("--workers", "1")
VARIANT = "1 worker"
BUSY = 0.9  # cores: the generator, with its one thread, is the limit


@dataclass(frozen=True)
class Generator:
    """A load generator for one load.

    name: "ab", "wrk" or "python"; shown: the command line as it is
    printed; command: as it is run. Both want an address.
    """

    name: str
    shown: Callable[[str], list[str]]
    command: Callable[[str], list[str]]

    def parse(self, text: str) -> Report:
        """Its figures. Raises AbError or WrkError."""
        return wrk.parse(text) if self.name == "wrk" else ab.parse(text)


def ab_like(name: str, load: ab.Load) -> Generator:
    """``ab``, or the built-in client as ``python``."""
    return Generator(
        name,
        lambda url: load.command(url, SHOWN[name]),
        lambda url: load.command(url, PROGRAMS[name]),
    )


def with_wrk(load: wrk.Load) -> Generator:
    """``wrk``, which always keeps its connections."""
    return Generator("wrk", load.command, load.command)


def measure(
    process: Process, load: Generator, seconds: float, folder: Path
) -> Run:
    """Run a load of so many seconds against a server; its figures.

    Run.extra has ``load_cores``: how many cores the generator used;
    ``load_limit_per_second``: requests/s if it had used one whole core;
    ``other_cores``: what everything else used that ran on this machine.
    """
    command = load.command(process.url)
    shown = " ".join(load.shown(process.url))
    run = Run(f"{process.command}\n{shown}")
    meter = Meter(process)
    begun, before, all_before = time.monotonic(), _children(), _everybody()
    text, late = run_load(command, seconds + GRACE_SECONDS, meter.sample)
    cpu, wall = _children() - before, time.monotonic() - begun
    cost = meter.read()
    others = _everybody() - all_before - cpu - cost.cpu_user - cost.cpu_system
    take_cost(run, cost)
    run.extra["load_cores"] = round(cpu / wall, 3)
    run.extra["other_cores"] = round(max(others, 0.0) / wall, 3)
    keep_raw(folder, process.server.name, run.command, text)
    try:
        report = load.parse(text)
    except (ab.AbError, wrk.WrkError) as error:
        run.error = str(error)
    else:
        take_report(run, report)
        run.error = any_fault(
            report, late, "interrupted: the server had stopped answering"
        )
    if run.requests_per_second and cpu:
        limit = run.requests_per_second * wall / cpu
        run.extra["load_limit_per_second"] = round(limit)
    if process.wait(0.1 if run.error else 0.0) is not None:
        run.error = f"the server died: {process.last_words()}"
    return run


def _children() -> float:
    """CPU seconds of all our children that have ended.

    While a load runs, only its generator ends.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _everybody() -> float:
    """CPU seconds that all processors were not idle, since the start."""
    times = psutil.cpu_times()
    waiting = getattr(times, "iowait", 0.0)
    return float(sum(times) - times.idle - waiting)


def middle(point: Point, name: str) -> float:
    """The median of a figure in Run.extra; 0 if no good run has it."""
    values = [
        run.extra[name]
        for run in point.runs
        if run.error is None and name in run.extra
    ]
    return statistics.median(values) if values else 0.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    parser.add_argument(
        "--clients", type=number(1, 100_000), nargs="+", default=CLIENTS,
        metavar="N", help="how many at once (default: 1000 4000)",
    )
    parser.add_argument(
        "--seconds", type=number(1, 3600), default=SECONDS, metavar="S",
        help=f"of each load (default: {SECONDS})",
    )
    parser.add_argument(
        "--options", type=words, default=(), metavar="WORDS",
        help="more for the server's command line, as in "
        "--options='--engine emulated'",
    )


def loads(
    kind: str, clients: int, seconds: int
) -> list[tuple[str, bool, Generator]]:
    """Suite, keep-alive, and the generator, of each load."""
    new = ab.Load(clients, ab.MANY, seconds)
    keep = ab.Load(clients, ab.MANY, seconds, keep_alive=True)
    found = [
        ("crowd-new", False, ab_like(kind, new)),
        ("crowd-keep", True, ab_like(kind, keep)),
    ]
    if shutil.which("wrk"):
        found.append(("crowd-wrk", True, with_wrk(wrk.Load(clients, seconds))))
    return found


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure all loads, their repeats interleaved; 1 if one failed."""
    server = by_name("07")
    most = max(options.clients)
    limit = raise_open_files(most + ROOM)
    results.machine.open_files = limit
    if limit < most + ROOM:
        console.print(
            f"This machine allows a process no more than {limit:,} open "
            f"files: {most:,} clients are not possible."
        )
        return 1
    if shutil.which("wrk"):
        results.tools["wrk"] = wrk.version() or "?"
    for clients in options.clients:
        found = loads(results.load, clients, options.seconds)
        points = [
            Point(
                "07", suite, clients, DELAY, keep_alive=keep, variant=VARIANT
            )
            for suite, keep, _ in found
        ]
        for _ in range(options.repeats or REPEATS):
            for point, (suite, _, load) in zip(points, found, strict=True):
                console.print(f"[bold]{suite}[/], {clients} clients")
                try:
                    with start(
                        server, DELAY, (*OPTIONS, *options.options)
                    ) as process:
                        process.warm_up(plan.WARM_UP[DELAY])
                        one = measure(process, load, options.seconds, folder)
                except ServerError as error:
                    one = Run("", error=str(error))
                add(results, point, one)
                console.print(f"  {escape(summary(one))}")
                results.save(folder)
    show(results.points, console)
    return int(any(point.status != "ok" for point in results.points))


def show(points: list[Point], console: Console) -> None:
    """Print what was reached, and who could do no more."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("load", "clients", "requests/s", "possible", "failed",
                   "server cores", "load cores", "load's limit", "others"):
        left = column == "load"
        table.add_column(column, justify="left" if left else "right")
    for point in points:
        name = point.suite.removeprefix("crowd-")
        if point.status != "ok":
            table.add_row(name, str(point.clients), "[red]failed")
            continue
        low, high = point.spread("requests_per_second") or (0.0, 0.0)
        busy = middle(point, "load_cores")
        table.add_row(
            name,
            f"{point.clients:,}",
            f"{point.median('requests_per_second') or 0:,.0f}\n"
            f"[dim]{low:,.0f}-{high:,.0f}",
            f"{point.possible or 0:,.0f}",
            str(sum(run.failed for run in point.runs)),
            f"{point.median('cores') or 0:.2f}",
            f"[yellow]{busy:.2f}[/]" if busy > BUSY else f"{busy:.2f}",
            f"{middle(point, 'load_limit_per_second'):,.0f}",
            f"{middle(point, 'other_cores'):.2f}",
        )
    console.print(table)
    console.print(
        "[dim]load cores: of the load generator; near 1 it can do no more. "
        "load's limit: requests/s it could make on a core of its own; "
        "others: cores that other programs used meanwhile"
    )
    for point in points:
        if point.status != "ok":
            console.print(f"{point.suite}: {escape(point.reason)}")
