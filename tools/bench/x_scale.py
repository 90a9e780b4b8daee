"""``./bench.sh scale``: does a second worker do a second core's work?

A request costs about a millisecond of computing and does not wait. So a
core answers a little less than a thousand a second, whoever serves, and
more than that needs another core: 07 with 1 worker, 2 workers and so on,
and 03, whose threads share one GIL, kept on one core and on all of them.

Each request has a connection of its own. The kernel deals connections
out to the workers by a hash, without looking at who is busy, and what it
has dealt stays: few connections that are kept open may go 6 to 2, and
the figure then says how the hash fell. New ones are dealt again and
again. Even so a worker can run out of work while the other has a queue;
with many clients for each worker that is rare.
"""

import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench import preflight
from tools.bench.ab import MANY, Load
from tools.bench.numbers import number
from tools.bench.outcome import add
from tools.bench.run import summary
from tools.bench.server import ServerError, start
from tools.bench.x_crowd import ab_like, measure, middle
from tools.data.results import Point, Results, Run
from tools.servers import Server, by_name

ABOUT = "1 ms of computing a request: 07 on 1, 2 ... cores, and 03 (3 minutes)"
SUITE = "scale"
CLIENTS = 64
SECONDS = 5  # a load
REPEATS = 5
WARM_UP = 50  # requests
COMPUTE_SECONDS = 0.001  # a request
STEPS = 20_000  # loop steps of one go of the calibration
GOES = 1000


@dataclass(frozen=True)
class Case:
    """A server in one arrangement.

    baseline: the variant its speed-up is counted from; one_core: keep
    all of the server on one core.
    """

    server: Server
    variant: str
    options: tuple[str, ...]
    baseline: str
    one_core: bool = False


def calibrate() -> int:
    """Loop steps that take this Python COMPUTE_SECONDS.

    From the best of many goes: others can only make it slower.
    """

    def compute(steps: int) -> None:  # as in every server
        for _ in range(steps):
            pass

    best = float("inf")
    for _ in range(GOES):
        begun = time.perf_counter()
        compute(STEPS)
        best = min(best, time.perf_counter() - begun)
    return max(round(COMPUTE_SECONDS * STEPS / best), 1)


def cases(cores: int) -> list[Case]:
    """What is compared on so many cores."""
    found = [
        Case(
            by_name("07"), _count(number, "worker"),
            ("--workers", str(number)), "1 worker",
        )
        for number in range(1, cores + 1)
    ]
    threads = by_name("03")
    if hasattr(psutil.Process, "cpu_affinity"):  # not on macOS
        found.append(Case(threads, "1 core", (), "1 core", one_core=True))
    if cores > 1:
        found.append(Case(threads, _count(cores, "core"), (), "1 core"))
    return found


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    parser.add_argument(
        "--clients", type=number(1, 1000), default=CLIENTS, metavar="N",
        help=f"how many at once (default: {CLIENTS})",
    )
    parser.add_argument(
        "--seconds", type=number(1, 3600), default=SECONDS, metavar="S",
        help=f"of each load (default: {SECONDS})",
    )
    parser.add_argument(
        "--compute", type=number(1, 10**9), metavar="STEPS",
        help="loop steps a request (default: as many as take 1 ms here)",
    )


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure all cases, their repeats interleaved; 1 if one failed."""
    cores = preflight.core_count()
    steps = options.compute or calibrate()
    console.print(f"--compute {steps} takes about a millisecond here.")
    if cores == 1:
        console.print("There is one core: there is nothing to compare.")
    found = cases(cores)
    points = [
        Point(
            case.server.name, SUITE, options.clients, 0.0, steps,
            variant=case.variant,
        )
        for case in found
    ]
    repeats = options.repeats or REPEATS
    for turn in range(1, repeats + 1):
        for case, point in zip(found, points, strict=True):
            console.print(
                f"[bold]{case.server.name}[/], {case.variant}, "
                f"run {turn} of {repeats}"
            )
            load = Load(options.clients, MANY, options.seconds)
            one = _measure(case, load, steps, results.load, folder)
            speed_up(one, points, case, turn)
            add(results, point, one)
            console.print(f"  {escape(summary(one))}")
            results.save(folder)
    show(points, console)
    return int(any(point.status != "ok" for point in points))


def _measure(
    case: Case, load: Load, steps: int, kind: str, folder: Path
) -> Run:
    words = (*case.options, "--compute", str(steps))
    try:
        with start(case.server, 0.0, words) as process:
            if case.one_core:  # its threads will inherit that
                server = psutil.Process(process.pid)
                server.cpu_affinity(server.cpu_affinity()[-1:])
            process.warm_up(WARM_UP)
            assert load.seconds is not None
            one = measure(process, ab_like(kind, load), load.seconds, folder)
    except (ServerError, psutil.Error) as error:
        return Run("", error=str(error))
    return one


def speed_up(one: Run, points: list[Point], case: Case, turn: int) -> None:
    """Note how many times faster it is than the baseline.

    Than its run of the same turn: both had the same disturbances.
    """
    if case.variant == case.baseline or one.requests_per_second is None:
        return
    for point in points:
        same = (point.server, point.variant) == (
            case.server.name, case.baseline,
        )
        if same and len(point.runs) >= turn:
            rate = point.runs[turn - 1].requests_per_second
            if rate:
                one.extra["speed_up_times"] = round(
                    one.requests_per_second / rate, 4
                )


def show(points: list[Point], console: Console) -> None:
    """Print throughput and speed-up, medians and spread."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("server", no_wrap=True)
    for column in ("requests/s", "times one", "server cores", "load cores",
                   "others"):
        table.add_column(column, justify="right")
    for point in points:
        name = f"{point.server}, {point.variant}"
        if point.status != "ok":
            table.add_row(name, "[red]failed")
            continue
        rates = point.values("requests_per_second")
        ratios = [
            run.extra["speed_up_times"]
            for run in point.runs
            if run.error is None and "speed_up_times" in run.extra
        ]
        table.add_row(
            name,
            f"{statistics.median(rates):,.0f}\n"
            f"[dim]{min(rates):,.0f}-{max(rates):,.0f}",
            f"{statistics.median(ratios):.2f}\n"
            f"[dim]{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "",
            f"{point.median('cores') or 0:.2f}",
            f"{middle(point, 'load_cores'):.2f}",
            f"{middle(point, 'other_cores'):.2f}",
        )
    console.print(table)
    for point in points:
        if point.status != "ok":
            console.print(f"{point.variant}: {escape(point.reason)}")
