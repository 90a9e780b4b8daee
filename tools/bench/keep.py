"""What the experiments and ``./bench.sh`` itself do alike.

A run is filled with what the load generator said and with what the load
cost the server, added to its point, and its raw output kept. And the
kinds of numbers on the command lines, and how a figure is printed.
"""

import argparse
import math
import shutil
from collections.abc import Callable
from pathlib import Path

from tools.bench import ab, wrk
from tools.bench.cost import Cost
from tools.bench.server import scrub
from tools.data import raw
from tools.data.kept import only_read
from tools.data.results import Point, Results, Run, load

# A run and its point -----------------------------------------------------


def take_report(
    run: Run, report: ab.Report | wrk.Report, timed: bool = True
) -> None:
    """A load generator's figures into a run, but not what was wrong.

    timed: False leaves out all that depends on how fast it was.
    """
    run.requests = report.requests
    run.failed = report.failed
    run.non_2xx = report.non_2xx
    run.body_bytes = report.body_bytes
    run.response_bytes = report.response_bytes
    if timed:
        run.seconds = report.seconds
        run.requests_per_second = report.per_second
        run.latency_ms = report.latency_ms


def any_fault(
    report: ab.Report | wrk.Report, late: bool, interrupted: str
) -> str | None:
    """Why a report is no good figure where no answer may be an error.

    late: the generator had to be interrupted; interrupted: how to say
    that. Returns None if the figure is good.
    """
    if not report.requests:
        return f"no request was answered ({report.failed} failed)"
    if report.non_2xx:
        return f"{report.non_2xx} answers were errors (not 2xx)"
    return interrupted if late or not report.finished else None


def take_cost(run: Run, cost: Cost) -> None:
    """What a load cost the server, into a run."""
    run.cpu_user = round(cost.cpu_user, 6)
    run.cpu_system = round(cost.cpu_system, 6)
    run.peak_memory = cost.peak_memory or None
    run.threads = cost.threads or None


def add(results: Results, point: Point, run: Run) -> None:
    """Add a run to a point, which failed if all of its runs have."""
    if not point.runs:  # an interrupt leaves no point without a run
        results.points.append(point)
    point.runs.append(run)
    errors = [one.error for one in point.runs if one.error is not None]
    failed = len(errors) == len(point.runs)
    point.status = "failed" if failed else "ok"
    point.reason = errors[-1] if failed else ""


def keep_raw(folder: Path, name: str, command: str, text: str) -> None:
    """Append an output, under its commands, to those of NAME."""
    lines = "".join(f"$ {line}\n" for line in command.splitlines())
    raw.append(folder, name, f"{lines}{scrub(text).rstrip()}\n\n")


def make_reference(folder: Path, place: Path) -> Path:
    """Put a complete run in the place of the committed one.

    Of its figures those that somebody reads.
    """
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder, fresh)
    only_read(load(fresh)).save(fresh)
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)
    shutil.rmtree(folder)
    return place


# Numbers -----------------------------------------------------------------


def number(
    low: float, high: float, kind: Callable[[str], float] = int
) -> Callable[[str], float]:
    """A check for argparse: a number from low to high."""

    def check(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from {low} to {high}"
            )
        return value

    return check


def whole(low: int, high: int) -> Callable[[str], float]:
    """A check for argparse: a number written in digits alone."""
    return number(low, high, _digits)


def _digits(text: str) -> int:
    """An int. Raises ValueError for a sign, a space, or 1_000 too."""
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def formatted(value: float | None, how: str, unit: float = 1.0) -> str:
    """A figure for a table, in this unit; "" if there is none.

    how: as for `str.format`, such as "{:.2f}".
    """
    return "" if value is None else how.format(value / unit)
