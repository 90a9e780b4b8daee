"""Experiments on the pages: committed runs of ``./bench.sh NAME``.

Each is a folder of docs/data with a results.json of its own. Its rows are
points: a server or a peer, perhaps with a variant ("2 workers").
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from tools.data.results import DATA, Point, Results
from tools.peers import PEERS
from tools.servers import SERVERS
from tools.site import data
from tools.site.errors import SiteError
from tools.site.figures import (
    DASH,
    figure,
    machine_fact,
    required,
    spread,
    times,
    value,
)
from tools.site.tables import table

TITLES = {
    **{server.name: server.title for server in SERVERS},
    **{peer.name: peer.title for peer in PEERS},
}


@dataclass(frozen=True)
class Shown:
    """What a table of an experiment shows.

    figures: names of its columns; against: the row whose first figure is
    the unit of the column of ratios, "" for no such column; mark: the
    row to set off; rows: which rows, in this order; None: all, the first
    figure rising.
    """

    figures: tuple[str, ...]
    against: str = ""
    mark: str = ""
    rows: tuple[str, ...] | None = None


def run(name: str) -> Results:
    """The committed run of an experiment. Raises SiteError."""
    return data.load(DATA / name)


def label(point: Point) -> str:
    """How a row is called: "07", or "07[2 workers]"."""
    if not point.variant:
        return point.server
    return f"{point.server}[{point.variant}]"


def find(name: str, row: str, suite: str, clients: int | None) -> Point:
    """One point of an experiment. Raises SiteError if it is not there."""
    found = [
        point
        for point in run(name).points
        if point.suite == suite
        and label(point) == row
        and clients in (None, point.clients)
    ]
    if len(found) != 1:
        rows = ", ".join(
            f"{label(p)} in {p.suite} with {p.clients} clients"
            for p in run(name).points
        )
        raise SiteError(
            f"{len(found)} points are {row} in {suite}; {name} has {rows}"
        )
    return found[0]


def show(name: str, suite: str, clients: int | None, shown: Shown) -> str:
    """A table of an experiment, as HTML."""
    points = [
        point
        for point in run(name).points
        if point.suite == suite and clients in (None, point.clients)
    ]
    if shown.rows is not None:
        points = [find(name, row, suite, clients) for row in shown.rows]
    else:
        points.sort(key=_order(shown.figures[0]))
    if not points:
        raise SiteError(f"{name} has no points in {suite}")
    unit = other = None
    if shown.against:
        other = find(name, shown.against, suite, clients)
        unit = required(other, shown.figures[0])
    body = [_row(point, shown, unit) for point in points]
    head = ["Server", *(figure(f).label for f in shown.figures)]
    if other is not None:
        head.insert(2, f"Against {other.variant or other.server}")
    servers = [point.server for point in points]
    return table(head, body, f"Measured: {name}", servers)


def _order(first: str) -> Callable[[Point], tuple[bool, float]]:
    def key(point: Point) -> tuple[bool, float]:
        found = value(point, first)
        return found is None, found or 0.0

    return key


def _row(point: Point, shown: Shown, unit: float | None) -> list[str]:
    name = f"<strong>{escape(label(point))}</strong>"
    if point.variant:
        name = f"<strong>{escape(point.server)}</strong> "
        name += escape(point.variant)
    if label(point) == shown.mark:
        name += " this step"
    title = TITLES.get(point.server, "")
    if title and (not point.variant or point.suite.startswith("peer")):
        name += f"<br><small>{escape(title)}</small>"
    if point.status != "ok":
        name += f"<br><small>{escape(point.reason)}</small>"
    cells = [_cell(point, each) for each in shown.figures]
    if unit is not None:
        found = value(point, shown.figures[0])
        ratio = DASH if found is None else f"{times(found / unit)} times"
        cells.insert(1, ratio)
    return [name, *cells]


def _cell(point: Point, name: str) -> str:
    found = value(point, name)
    if found is None:
        return DASH
    write = figure(name).write
    cell = write(found)
    if low_high := spread(point, name):
        low, high = map(write, low_high)
        if low != high:
            # The unit once: "5.1 to 5.4 µs".
            _, space, unit = high.rpartition(" ")
            low = low.removesuffix(space + unit)
            cell += f"<br><small>{low} to {high}</small>"
    return cell


def caption(name: str, own: str, points: int) -> str:
    """What was run, how often, where and when. HTML."""
    results = run(name)
    words = [escape(own)] if own else []
    if points > 1:
        words.append(f"Medians of {points} runs, lowest and highest below.")
    words.append(
        f"<code>{escape(results.command)}</code>, "
        f"{escape(results.machine.cpu)}, {results.machine.cores} cores, "
        f"{escape(machine_fact(results, 'kernel'))}, "
        f"{escape(results.machine.python)}, {results.started[:10]}."
    )
    return " ".join(words)
