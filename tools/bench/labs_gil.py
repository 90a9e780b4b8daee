"""``./bench.sh labs gil``: 03_threading/lab_gil.py on every interpreter.

Each interpreter of the machine runs the lab pinned to one CPU and on two,
a round at a time and in turns, so that what disturbs the machine disturbs
all alike. The lab does the measuring; here its figures become points.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
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

from tools.bench import interpreters, preflight
from tools.bench.numbers import number
from tools.bench.outcome import add, keep_raw
from tools.bench.server import scrub
from tools.bench.x_threads import Interpreter, InterpreterError
from tools.data.results import Point, Results, Run
from tools.servers import ROOT

ABOUT = (
    "gil: 03_threading/lab_gil.py on every interpreter, on one CPU and on "
    "two (about 2 minutes for each interpreter)"
)
SUITE = "labs-gil"
FILE = "03_threading/lab_gil.py"
REPEATS = 5
SECONDS = 0.5  # that one measurement of the lab lasts
CPUS = (1, 2)
PATIENCE = 300.0  # seconds for one round, and some for each of --seconds
ROUND_TIMES = 60  # more than a round takes, in units of --seconds
PARTS = ("compute", "hand-over", "answer", "pool")

# What the lab calls a figure -> what it is called in the results.
UNITS = {
    "efficiency": "efficiency_times",
    "lock": "lock_per_second",
    "lock_hog": "lock_hog_per_second",
    "condition": "condition_per_second",
    "condition_hog": "condition_hog_per_second",
    "answer": "answer_ms",
    "answer_hog_short": "answer_hog_short_ms",
    "answer_hog_usual": "answer_hog_usual_ms",
    "answer_hog_long": "answer_hog_long_ms",
    "pool_1": "pool_1_per_second",
    "pool_10": "pool_10_per_second",
    "pool_1_hog": "pool_1_hog_per_second",
    "pool_10_hog": "pool_10_hog_per_second",
}
# Columns of the table on the screen.
COLUMNS = {
    "efficiency_times": "two threads",
    "lock_per_second": "Lock/s",
    "lock_hog_per_second": "+ hog",
    "condition_per_second": "Condition/s",
    "condition_hog_per_second": "+ hog",
    "answer_ms": "answer ms",
    "answer_hog_usual_ms": "+ hog",
    "pool_10_per_second": "pool req/s",
    "pool_10_hog_per_second": "+ hog",
}


class LabError(Exception):
    """A round that gave no figures; the text says why."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this lab."""
    group = parser.add_argument_group("options of the lab gil")
    group.add_argument(
        "--pythons", metavar="LIST",
        help="commands of the interpreters, as in python2.7,python3.13t "
        "(default: all that are on the PATH or in pyenv)",
    )
    group.add_argument(
        "--parts", metavar="LIST", type=parts, default=PARTS,
        help=f"measure only these of {', '.join(PARTS)}",
    )
    group.add_argument(
        "--gil-seconds", type=number(0.05, 60, float), default=SECONDS,
        metavar="S", help=f"that a measurement lasts (default: {SECONDS:g})",
    )


def parts(words: str) -> tuple[str, ...]:
    """A check for argparse: some parts of the lab."""
    found = tuple(word.strip() for word in words.split(",") if word.strip())
    for word in found:
        if word not in PARTS:
            raise argparse.ArgumentTypeError(
                f"the lab has no part {word!r}; there are {', '.join(PARTS)}"
            )
    if not found:
        raise argparse.ArgumentTypeError("names no part of the lab")
    return found


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Run the lab in rounds, save after each run, print a table.

    Returns 0; 1 if it failed on an interpreter; 2 with a sentence if an
    interpreter cannot be used.
    """
    try:
        pythons = interpreters.choose(options.pythons)
    except InterpreterError as error:
        print(f"bench.sh: {error}", file=sys.stderr)
        return 2
    for python in pythons:
        results.tools[f"python{python.label}"] = python.described
        console.print(f"[dim]- python{python.label}: {python.described}")
    cores = preflight.core_count()
    cpus = [number for number in CPUS if number <= cores]
    if len(cpus) < len(CPUS):
        console.print("This machine has one CPU: nothing is run on two.")
    points = [
        (python, number, Point(python.label, SUITE, 0, 0.0, variant=how))
        for python in pythons
        for number, how in ((n, variant(n)) for n in cpus)
    ]
    repeats = options.repeats or REPEATS
    with _progress(console) as progress:
        bar = progress.add_task("gil", total=repeats * len(points))
        for turn in range(1, repeats + 1):
            for python, number, point in points:
                progress.update(
                    bar, description=f"python{python.label}, "
                    f"{point.variant}, round {turn} of {repeats}",
                )
                one = measure(
                    python, number, options.gil_seconds, options.parts,
                    folder,
                )
                if one.error:
                    console.print(
                        f"python{python.label}, {point.variant}: "
                        f"{escape(one.error)}", soft_wrap=True,
                    )
                add(results, point, one)
                results.save(folder)
                progress.advance(bar)
    show(results, console)
    return int(any(point.status != "ok" for point in results.points))


def variant(cpus: int) -> str:
    """What a point on so many CPUs is called."""
    return f"{cpus} CPU{'s' * (cpus > 1)}"


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(), console=console,
        transient=True,
    )


# One round ----------------------------------------------------------------


def measure(
    python: Interpreter,
    cpus: int,
    seconds: float,
    chosen: tuple[str, ...],
    folder: Path,
) -> Run:
    """One round of the lab under an interpreter.

    seconds: that one measurement lasts; chosen: the parts of the lab.
    """
    words = ["--rounds", "1", "--json", "--seconds", f"{seconds:g}"]
    if hasattr(os, "sched_setaffinity"):
        words += ["--cpus", str(cpus)]
    if chosen != PARTS:
        for part in chosen:
            words += ["--only", part]
    name = f"python{python.label}"
    one = Run(" ".join([name, FILE, *words]))
    begun = time.monotonic()
    try:
        text = _output([python.program, str(ROOT / FILE), *words],
                       PATIENCE + ROUND_TIMES * seconds)
        keep_raw(folder, name, one.command, text)
        one.extra = read(text)
    except LabError as error:
        one.error = str(error)
    one.seconds = round(time.monotonic() - begun, 3)
    return one


def read(text: str) -> dict[str, float]:
    """The figures in a round's JSON, and ``gil``: 1 with one, 0 without.

    Raises LabError if it holds none.
    """
    try:
        said = json.loads(text)
        figures: dict[str, list[float]] = said["figures"]
        found = {
            UNITS[name]: round(float(values[0]), 6)
            for name, values in figures.items()
        }
        gil = float(bool(said["gil"]))
    except (ValueError, KeyError, IndexError, TypeError,
            AttributeError) as error:
        raise LabError("the lab did not print its figures") from error
    if not found:
        raise LabError("the lab measured nothing")
    return {**found, "gil": gil}


def _output(words: list[str], seconds: float) -> str:
    """What a round prints. Raises LabError with a sentence.

    However it ends, its web server and its ab end with it.
    """
    try:
        child = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", cwd=ROOT,
            start_new_session=True,
        )
    except OSError as error:
        why = f"the interpreter does not run: {error.strerror}"
        raise LabError(why) from error
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"a round took more than {seconds:.0f} s") from error
    finally:
        with contextlib.suppress(OSError):  # there may be none left
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode:
        lines = err.strip().splitlines() or [
            f"the lab ended with status {child.returncode}"
        ]
        raise LabError(scrub(lines[-1]))
    return out


# The table ----------------------------------------------------------------


def show(results: Results, console: Console) -> None:
    """A row for each interpreter on one CPU and on two."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Python")
    table.add_column("on")
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    for point in results.suite(SUITE):
        name = point.server
        if point.status != "ok":
            table.add_row(name, point.variant, f"[red]{point.status}")
            continue
        if not _median(point, "gil"):
            name += " no GIL"
        cells = [_median(point, each) for each in COLUMNS]
        table.add_row(
            name, point.variant,
            *("" if cell is None else _short(cell) for cell in cells),
        )
    console.print(table)
    console.print(
        "[dim]two threads: their work, times that of one; hog: a thread "
        "that computes beside them"
    )


def _median(point: Point, name: str) -> float | None:
    try:
        return point.median(name)
    except KeyError:  # this part was not measured
        return None


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
