"""Experiments on the pages: committed runs of ``./bench.sh NAME``.

Each is a folder of docs/data with a results.json of its own. Its rows are
points: a server or a peer, perhaps with a variant ("2 workers").
"""

from collections.abc import Sequence
from html import escape

from tools.data.results import Point
from tools.peers import PEERS
from tools.servers import SERVERS
from tools.site import data, elements
from tools.site.errors import SiteError
from tools.site.figures import DASH, cell, figure, required, times, value
from tools.site.result_tables import machine_fact

TITLES = {each.name: each.title for each in (*SERVERS, *PEERS)}


def label(point: Point) -> str:
    """How a row is called: "07", or "07[2 workers]"."""
    if not point.variant:
        return point.server
    return f"{point.server}[{point.variant}]"


def points(name: str, suite: str, clients: int | None = None) -> list[Point]:
    """The points of a suite of an experiment. Raises SiteError for none."""
    found = [
        point
        for point in data.experiment(name).suite(suite)
        if clients in (None, point.clients)
    ]
    if not found:
        raise SiteError(f"{name} has no points in {suite}")
    return found


def find(name: str, row: str, suite: str, clients: int | None) -> Point:
    """One point of an experiment. Raises SiteError if it is not there."""
    every = points(name, suite, clients)
    found = [point for point in every if label(point) == row]
    if len(found) != 1:
        rows = ", ".join(
            f"{label(p)} with {p.clients} clients" for p in every
        )
        raise SiteError(
            f"{len(found)} points are {row} in {suite}; {name} has {rows}"
        )
    return found[0]


def show(
    name: str, suite: str, clients: int | None, figures: list[str],
    against: str = "", mark: str = "", rows: Sequence[str] = (),
) -> str:
    """A table of an experiment, as HTML.

    figures: names of its columns; against: the row whose first figure is
    the unit of the column of ratios, "" for no such column; mark: the
    row to set off; rows: which rows, in this order; none: all, the first
    figure rising.
    """
    first = figures[0]
    if rows:
        every = [find(name, row, suite, clients) for row in rows]
    else:
        every = points(name, suite, clients)
        every.sort(key=lambda point: _order(value(point, first)))
    head = ["Server", *(figure(f).label for f in figures)]
    body = [
        [_heading(point, mark), *(cell(point, f) for f in figures)]
        for point in every
    ]
    if against:
        other = find(name, against, suite, clients)
        unit = required(other, first)
        head.insert(2, f"Against {other.variant or other.server}")
        for point, row in zip(every, body, strict=True):
            found = value(point, first)
            ratio = DASH if found is None else f"{times(found / unit)} times"
            row.insert(2, ratio)
    servers = [point.server for point in every]
    return elements.table(head, body, f"Measured: {name}", servers)


def _order(found: float | None) -> tuple[bool, float]:
    """What was not measured comes last."""
    return found is None, found or 0.0


def _heading(point: Point, mark: str) -> str:
    """What a row is called, in full."""
    name = f"<strong>{escape(point.server)}</strong>"
    if point.variant:
        name += f" {escape(point.variant)}"
    if label(point) == mark:
        name += " this step"
    title = TITLES.get(point.server, "")
    if title and (not point.variant or point.suite.startswith("peer")):
        name += f"<br><small>{escape(title)}</small>"
    if point.status != "ok":
        name += f"<br><small>{escape(point.reason)}</small>"
    return name


def caption(name: str, own: str, repeats: int = 1) -> str:
    """What was run, how often, where and when. HTML."""
    results = data.experiment(name)
    words = [escape(own)] if own else []
    if repeats > 1:
        words.append(
            f"Medians of {repeats} runs, lowest and highest below."
        )
    words.append(
        f"<code>{escape(results.command)}</code>, "
        f"{escape(results.machine.cpu)}, {results.machine.cores} cores, "
        f"{escape(machine_fact(results, 'kernel'))}, "
        f"run by {escape(results.machine.python)}, {results.started[:10]}."
    )
    return " ".join(words)
