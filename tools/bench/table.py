"""The tables of the terminal: their cells, and those of ./bench.sh itself."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tools.common.terminal import a_table
from tools.data.results import MORE_SUITES, SUITES, Point, Results
from tools.servers import ROOT

MEGABYTE = 1_000_000
LEGEND = (
    "share: of the possible (clients / delay); CPU ms: for each request; "
    "MB: peak memory"
)
PEER_LEGEND = (
    "CPU us: of the server, for each request, median and from-to; of "
    "nginx: that against nginx's in this run; user: part of it spent in "
    "the program itself, the rest in the system"
)

Cell = Callable[[Point], str]
Columns = dict[str, Cell]  # title -> what stands there


def typed(folder: Path) -> str:
    """A folder as the reader would type it from here."""
    try:
        return f"{folder.resolve().relative_to(ROOT)}/"
    except ValueError:
        return str(folder)


def title_of(point: Point) -> str:
    """What a point is called: its server and what sets it apart."""
    return f"{point.server}, {point.variant}".rstrip(", ")


# Cells --------------------------------------------------------------------


def median(point: Point, name: str) -> float | None:
    """The median of a figure; None: not measured."""
    try:
        return point.median(name)
    except KeyError:  # not in Run.extra
        return None


def number(value: float, how: str) -> str:
    """A number for a cell; decimals only where they say something."""
    return (how if value < 1000 else "{:,.0f}").format(value)


def figure(name: str, how: str = "{:,.0f}", unit: float = 1.0) -> Cell:
    """A cell with the median of a figure, in this unit."""

    def cell(point: Point) -> str:
        value = median(point, name)
        return "" if value is None else number(value / unit, how)

    return cell


def spread(name: str, how: str = "{:,.0f}", unit: float = 1.0) -> Cell:
    """The same, and the lowest and the highest run below it."""
    middle = figure(name, how, unit)

    def cell(point: Point) -> str:
        text = middle(point)
        low, high = (point.spread(name) if text else None) or (0.0, 0.0)
        ends = f"{number(low / unit, how)}-{number(high / unit, how)}"
        return f"{text}\n[dim]{ends}" if low < high else text

    return cell


def milliseconds(name: str) -> Cell:
    """ab prints whole milliseconds: its 0 means less than one."""
    whole = figure(name)
    return lambda point: "<1" if whole(point) == "0" else whole(point)


def failures(point: Point) -> str:
    """How many requests failed or were errors, and how many runs."""
    bad = sum(run.failed + run.non_2xx for run in point.runs)
    broken = sum(run.error is not None for run in point.runs)
    return f"{bad}" + (f" (+{broken} runs)" if broken else "")


def share(point: Point) -> str:
    """How much of what was possible was reached."""
    return "" if point.share is None else f"{100 * point.share:.1f} %"


def user_share(point: Point) -> str:
    """The part of the CPU time that is the program's own."""
    user, system = median(point, "cpu_user"), median(point, "cpu_system")
    both = (user or 0.0) + (system or 0.0)
    return f"{100 * (user or 0.0) / both:.0f} %" if both else ""


# Tables -------------------------------------------------------------------


def show_points(
    console: Console, columns: Columns, points: Sequence[Point],
    title: str | None = None,
) -> None:
    """Print a row for each point, and why some have no figures.

    The first of the columns names the point.
    """
    name, *rest = columns.values()
    rows = [
        [
            name(point),
            *([cell(point) for cell in rest] if point.status == "ok"
              else [f"[red]{point.status}"]),
        ]
        for point in points
    ]  # fmt: skip
    first, *others = columns
    titles = [first, *(f"{other}>" for other in others)]
    console.print(a_table(titles, rows, title))
    for why in dict.fromkeys(p.reason for p in points if p.reason):
        names = [title_of(point) for point in points if point.reason == why]
        console.print(f"{', '.join(names)}: {escape(why)}", soft_wrap=True)


def show(results: Results, console: Console) -> None:
    """Print a table for each suite that was measured."""
    legends = set()
    for suite, meaning in (SUITES | MORE_SUITES).items():
        points, title = results.suite(suite), f"{suite}: {meaning}"
        if not points:
            continue
        console.print()
        if suite == "sweep":  # how far each server came, and why it ended
            last = {point.server: point for point in points}
            show_points(console, SWEEP, [*last.values()], title)
        elif suite == "syscalls":
            show_points(console, SYSCALLS, points, title)
        elif suite.startswith("peer-"):
            legends.add(PEER_LEGEND)
            show_points(console, *_peers(points), title)
        else:
            legends.add(LEGEND)
            show_points(console, LOADS, points, title)
    for legend in sorted(legends):
        console.print(f"\n[dim]{legend}")


def most_often(point: Point) -> str:
    """The system calls that were made most often."""
    made = point.runs[-1].system_calls
    return ", ".join(sorted(made, key=lambda name: -made[name])[:3])


def _peers(points: Sequence[Point]) -> tuple[Columns, list[Point]]:
    """What to show of the peers, the one that needs least CPU first."""
    nginx = next((p for p in points if p.server == "nginx"), None)
    base = nginx and nginx.median("cpu_ms")
    columns: Columns = {
        "server": lambda p: p.server,
        "CPU us": spread("cpu_ms", "{:.1f}", 0.001),
        "of nginx": figure("cpu_ms", "{:.2f}", base or math.inf),
        "user": user_share,
        "requests/s": PER_SECOND,
        "p50 ms": figure("p50", "{:.1f}"),
        "p99 ms": figure("p99", "{:.1f}"),
        "failed": failures,
        "MB": figure("peak_memory", "{:.1f}", MEGABYTE),
    }
    if not base:
        del columns["of nginx"]
    return columns, sorted(
        points, key=lambda p: p.median("cpu_ms") or math.inf
    )


PER_SECOND = spread("requests_per_second", "{:,.1f}")
LOADS: Columns = {
    "server": lambda p: p.server,
    "requests/s": PER_SECOND,
    "share": share,
    "p50 ms": milliseconds("p50"),
    "p99 ms": milliseconds("p99"),
    "failed": failures,
    "CPU ms": figure("cpu_ms", "{:.2f}"),
    "MB": figure("peak_memory", "{:.1f}", MEGABYTE),
    "threads": figure("threads"),
}
SWEEP: Columns = {
    "server": lambda p: p.server, "ends at clients": lambda p: f"{p.clients}",
    **LOADS,
}
SYSCALLS: Columns = {
    "server": lambda p: p.server, "clients": lambda p: f"{p.clients}",
    "calls/request": figure("calls_per_request", "{:.1f}"),
    "most often": most_often,
}
