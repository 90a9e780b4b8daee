"""The tables at the end of a run."""

import math
from collections.abc import Callable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench.run import trouble
from tools.data.results import MORE_SUITES, SUITES, Point, Results
from tools.servers import ROOT, SERVERS

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
PEERS = ("peer-keep", "peer-new")
KEPT = 0.5  # of the answers: a server that keeps fewer connections closes


def typed(folder: Path) -> str:
    """A folder as the reader would type it from here."""
    try:
        return f"{folder.resolve().relative_to(ROOT)}/"
    except ValueError:
        return str(folder)


def show(results: Results, console: Console) -> None:
    """Print a table for each suite that was measured."""
    suites = SUITES | MORE_SUITES
    for suite in suites:
        points = results.suite(suite)
        if not points:
            continue
        if suite == "sweep":
            table = _sweep(points)
        elif suite == "syscalls":
            table = _syscalls(points)
        elif suite in PEERS:
            table = _peers(points)
        else:
            table = _loads(points)
        table.title = f"{suite}: {suites[suite]}"
        console.print()
        console.print(table)
        for point in points:
            if point.status != "ok" and suite != "sweep":
                console.print(_why(point), highlight=False)
        closing = [p.server for p in points if _closes(p)]
        if closing:
            console.print(
                "Closed the connection after each answer to this load: "
                f"{', '.join(closing)} (ab speaks HTTP/1.0; with wrk "
                "installed, it is asked in HTTP/1.1)"
            )
    if any(p.suite in PEERS for p in results.points):
        console.print(f"\n[dim]{PEER_LEGEND}")
    elif any(p.suite not in ("sweep", "syscalls") for p in results.points):
        console.print(f"\n[dim]{LEGEND}")


def _new(*columns: str) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, title_justify="left", title_style="bold",
        pad_edge=False, padding=(0, 1), collapse_padding=True,
    )
    table.add_column("server", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _loads(points: list[Point]) -> Table:
    """One row a server: speed, waiting, what it cost."""
    table = _new(
        "requests/s", "share", "p50 ms", "p99 ms", "failed", "CPU ms", "MB",
        "threads",
    )
    for point in points:
        if point.status != "ok":
            table.add_row(point.server, _status(point))
            continue
        share = point.share
        table.add_row(
            point.server,
            _rate(point),
            "" if share is None else f"{100 * share:.1f} %",
            _milliseconds(point.median("p50")),
            _milliseconds(point.median("p99")),
            _failures(point),
            _format(point.median("cpu_ms"), lambda v: f"{v:.2f}"),
            _format(
                point.median("peak_memory"), lambda v: f"{v / MEGABYTE:.1f}"
            ),
            _format(point.median("threads"), lambda v: f"{v:.0f}"),
        )
    return table


def _sweep(points: list[Point]) -> Table:
    """One row a server: its best, how far it came, why it ended."""
    table = _new("best requests/s", "with clients", "survived")
    table.add_column("why it ends")
    for server in SERVERS:
        line = [p for p in points if p.server == server.name]
        if not line:
            continue
        good = [p for p in line if p.status == "ok" and _survived(p)]
        if not good:
            table.add_row(server.name, "", "", "0", escape(line[-1].reason))
            continue
        best = max(good, key=lambda p: p.median("requests_per_second") or 0)
        table.add_row(
            server.name,
            _rate(best),
            str(best.clients),
            str(good[-1].clients),
            escape(line[-1].reason) or "the sweep goes no further",
        )
    return table


def _survived(point: Point) -> bool:
    """True unless the server itself ended its line here."""
    return not (point.end and any(map(trouble, point.runs)))


def _syscalls(points: list[Point]) -> Table:
    """One row a server: system calls for each request."""
    clients = sorted({p.clients for p in points})
    table = _new(*(f"calls, {_clients(n)}" for n in clients))
    table.add_column(f"most often, {_clients(clients[-1])}")
    for server in SERVERS:
        row = {p.clients: p for p in points if p.server == server.name}
        if not row:
            continue
        last = row[max(row)]
        if last.status != "ok":
            table.add_row(server.name, _status(last))
            continue
        calls = last.runs[-1].system_calls
        often = sorted(calls, key=lambda name: -calls[name])[:3]
        figures = (
            row[n].median("calls_per_request") if n in row else None
            for n in clients
        )
        table.add_row(
            server.name,
            *(_format(f, lambda v: f"{v:.1f}") for f in figures),
            ", ".join(often),
        )
    return table


def _peers(points: list[Point]) -> Table:
    """One row a server, the one that needs least CPU first."""
    table = _new(
        "CPU us", "of nginx", "user", "requests/s", "p50 ms", "p99 ms",
        "failed", "MB",
    )
    nginx = next((p for p in points if p.server == "nginx"), None)
    base = nginx.median("cpu_ms") if nginx else None

    def cheapest_first(point: Point) -> float:
        cpu = point.median("cpu_ms")
        return math.inf if cpu is None else cpu

    for point in sorted(points, key=cheapest_first):
        if point.status != "ok":
            table.add_row(point.server, _status(point))
            continue
        cpu = point.median("cpu_ms")
        table.add_row(
            point.server,
            _cpu_us(point),
            f"{cpu / base:.2f}" if cpu is not None and base else "",
            _format(_user_share(point), lambda v: f"{100 * v:.0f} %"),
            _rate(point),
            _format(point.median("p50"), lambda v: f"{v:.1f}"),
            _format(point.median("p99"), lambda v: f"{v:.1f}"),
            _failures(point),
            _format(
                point.median("peak_memory"), lambda v: f"{v / MEGABYTE:.1f}"
            ),
        )
    return table


def _cpu_us(point: Point) -> str:
    """CPU microseconds a request: the median, with lowest and highest."""
    median, spread = point.median("cpu_ms"), point.spread("cpu_ms")
    if median is None or spread is None:
        return ""
    text = f"{1000 * median:.1f}"
    if len(point.values("cpu_ms")) > 1:
        text += f"\n[dim]{1000 * spread[0]:.1f}-{1000 * spread[1]:.1f}"
    return text


def _user_share(point: Point) -> float | None:
    """The part of the CPU time that is the program's own, 0 to 1."""
    user, system = point.median("cpu_user"), point.median("cpu_system")
    if user is None or system is None or not user + system:
        return None
    return user / (user + system)


def _closes(point: Point) -> bool:
    """True if a keep-alive load found its connections closed."""
    kept = [run.extra.get("kept_alive_share", 1.0) for run in point.runs]
    return bool(kept) and max(kept) < KEPT


def _status(point: Point) -> str:
    colour = "red" if point.status == "failed" else "yellow"
    return f"[{colour}]{point.status}"


def _why(point: Point) -> str:
    """A line below the table on a row without figures."""
    return (
        f"{_status(point)}[/]: {point.server}, {_clients(point.clients)}: "
        f"{escape(point.reason)}"
    )


def _clients(number: int) -> str:
    return f"{number} client{'s' * (number > 1)}"


def _rate(point: Point) -> str:
    """The median, with lowest and highest if measured several times."""
    median = point.median("requests_per_second")
    spread = point.spread("requests_per_second")
    if median is None or spread is None:
        return ""
    text = _number(median)
    if len(point.values("requests_per_second")) > 1:
        text += f"\n[dim]{_number(spread[0])}-{_number(spread[1])}"
    return text


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


def _milliseconds(value: float | None) -> str:
    """ab prints whole milliseconds: its 0 means less than one."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1 else "<1"


def _failures(point: Point) -> str:
    """Failed requests, error answers and failed runs, all together."""
    bad = sum(run.failed + run.non_2xx for run in point.runs)
    broken = sum(run.error is not None for run in point.runs)
    return f"{bad}" + (f" (+{broken} runs)" if broken else "")


def _format(value: float | None, how: Callable[[float], str]) -> str:
    return "" if value is None else how(value)
