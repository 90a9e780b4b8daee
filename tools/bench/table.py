"""The tables at the end of a run."""

import math
from collections.abc import Callable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench.numbers import formatted
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

Columns = dict[str, Callable[[Point], str]]


def typed(folder: Path) -> str:
    """A folder as the reader would type it from here."""
    try:
        return f"{folder.resolve().relative_to(ROOT)}/"
    except ValueError:
        return str(folder)


def show(results: Results, console: Console) -> None:
    """Print a table for each suite that was measured."""
    suites = SUITES | MORE_SUITES
    measured = {suite: results.suite(suite) for suite in suites}
    for suite, points in measured.items():
        if not points:
            continue
        if suite in ("sweep", "syscalls"):
            table = _sweep(points) if suite == "sweep" else _syscalls(points)
        elif suite in PEERS:
            table = _peers(points)
        else:
            table = _fill(LOADS, points)
        table.title = f"{suite}: {suites[suite]}"
        console.print()
        console.print(table)
        for point in points:
            if point.status != "ok" and suite != "sweep":
                console.print(
                    f"{_status(point)}[/]: {point.server}, "
                    f"{_clients(point.clients)}: {escape(point.reason)}",
                    highlight=False,
                )
        closing = [p.server for p in points if _closes(p)]
        if closing:
            console.print(
                "Closed the connection after each answer to this load: "
                f"{', '.join(closing)} (ab speaks HTTP/1.0; with wrk "
                "installed, it is asked in HTTP/1.1)"
            )
    found = {suite for suite, points in measured.items() if points}
    if found & {*PEERS}:
        console.print(f"\n[dim]{PEER_LEGEND}")
    elif found - {"sweep", "syscalls"}:
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


def _fill(columns: Columns, points: list[Point]) -> Table:
    """One row a point; only its status if there are no figures."""
    table = _new(*columns)
    for point in points:
        cells = [cell(point) for cell in columns.values()]
        good = point.status == "ok"
        table.add_row(point.server, *(cells if good else [_status(point)]))
    return table


def _sweep(points: list[Point]) -> Table:
    """One row a server: its best, how far it came, why it ended."""
    table = _new("best requests/s", "with clients", "survived")
    table.add_column("why it ends")
    for server in SERVERS:
        line = [p for p in points if p.server == server.name]
        if not line:
            continue
        why = escape(line[-1].reason)
        good = [p for p in line if p.status == "ok" and _survived(p)]
        if not good:
            table.add_row(server.name, "", "", "0", why)
            continue
        best = max(good, key=lambda p: p.median("requests_per_second") or 0)
        table.add_row(
            server.name, _rate(best), str(best.clients),
            str(good[-1].clients), why or "the sweep goes no further",
        )
    return table


def _survived(point: Point) -> bool:
    """True unless the server itself ended its line here."""
    runs = point.runs if point.end else []
    return not any(trouble(run, point.clients) for run in runs)


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
        figures = [
            row[n].median("calls_per_request") if n in row else None
            for n in clients
        ]
        table.add_row(
            server.name, *(formatted(f, "{:.1f}") for f in figures),
            ", ".join(sorted(calls, key=lambda name: -calls[name])[:3]),
        )
    return table


def _peers(points: list[Point]) -> Table:
    """One row a server, the one that needs least CPU first."""
    nginx = next((p for p in points if p.server == "nginx"), None)
    base = nginx.median("cpu_ms") if nginx else None

    def of_nginx(point: Point) -> str:
        cpu = point.median("cpu_ms")
        return formatted(cpu, "{:.2f}", base) if base else ""

    def cheapest_first(point: Point) -> float:
        cpu = point.median("cpu_ms")
        return math.inf if cpu is None else cpu

    columns: Columns = {
        "CPU us": lambda p: _with_spread(
            p, "cpu_ms", lambda ms: f"{1000 * ms:.1f}"
        ),
        "of nginx": of_nginx,
        "user": _user_share,
        "requests/s": _rate,
        "p50 ms": _median("p50", "{:.1f}"),
        "p99 ms": _median("p99", "{:.1f}"),
        "failed": _failures,
        "MB": _median("peak_memory", "{:.1f}", MEGABYTE),
    }
    return _fill(columns, sorted(points, key=cheapest_first))


# Cells --------------------------------------------------------------------


def _median(
    name: str, how: str, unit: float = 1.0
) -> Callable[[Point], str]:
    """A cell with the median of a figure."""
    return lambda point: formatted(point.median(name), how, unit)


def _milliseconds(name: str) -> Callable[[Point], str]:
    """ab prints whole milliseconds: its 0 means less than one."""

    def cell(point: Point) -> str:
        value = point.median(name)
        small = value is not None and value < 1
        return "<1" if small else formatted(value, "{:,.0f}")

    return cell


def _with_spread(
    point: Point, name: str, shown: Callable[[float], str]
) -> str:
    """The median, with lowest and highest if measured several times."""
    median, spread = point.median(name), point.spread(name)
    if median is None or spread is None:
        return ""
    text = shown(median)
    if len(point.values(name)) > 1:
        text += f"\n[dim]{shown(spread[0])}-{shown(spread[1])}"
    return text


def _rate(point: Point) -> str:
    return _with_spread(
        point, "requests_per_second",
        lambda rate: f"{rate:,.0f}" if rate >= 1000 else f"{rate:.1f}",
    )


def _user_share(point: Point) -> str:
    """The part of the CPU time that is the program's own."""
    user, system = point.median("cpu_user"), point.median("cpu_system")
    if user is None or system is None or not user + system:
        return ""
    return f"{100 * user / (user + system):.0f} %"


def _failures(point: Point) -> str:
    """Failed requests, error answers and failed runs, all together."""
    bad = sum(run.failed + run.non_2xx for run in point.runs)
    broken = sum(run.error is not None for run in point.runs)
    return f"{bad}" + (f" (+{broken} runs)" if broken else "")


def _closes(point: Point) -> bool:
    """True if a keep-alive load found its connections closed."""
    kept = [run.extra.get("kept_alive_share", 1.0) for run in point.runs]
    return bool(kept) and max(kept) < KEPT


def _status(point: Point) -> str:
    colour = "red" if point.status == "failed" else "yellow"
    return f"[{colour}]{point.status}"


def _clients(number: int) -> str:
    return f"{number} client{'s' * (number > 1)}"


LOADS: Columns = {
    "requests/s": _rate,
    "share": lambda p: formatted(p.share, "{:.1f} %", 0.01),
    "p50 ms": _milliseconds("p50"),
    "p99 ms": _milliseconds("p99"),
    "failed": _failures,
    "CPU ms": _median("cpu_ms", "{:.2f}"),
    "MB": _median("peak_memory", "{:.1f}", MEGABYTE),
    "threads": _median("threads", "{:.0f}"),
}
