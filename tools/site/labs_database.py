"""The lab about a database: lines and a table over clients, and bars.

The data are docs/data/labs-database, of ``./bench.sh labs database``: its
points are handlers of 06_asyncio/lab_database.py with a pool of some size
("10 connections") or beside a client that vanishes ("killed").
"""

from dataclasses import replace
from html import escape
from typing import Any

from tools.data.results import Point
from tools.servers import by_name
from tools.site import charts, elements, experiments, options, sweep_chart
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import cell, required

RUN = "labs-database"
SHOWN = ("lines", "table", "bars")


def _render(chosen: dict[str, str], md: Any) -> str:
    """One figure of one suite.

    show: lines over the clients (requests/s only), a table over them, or
    bars; clients: how many, for bars.
    """
    show, suite = chosen["show"], chosen["suite"]
    name = chosen.get("figure", charts.RATE)
    if show not in SHOWN:
        raise SiteError(f"show is one of {', '.join(SHOWN)}, not {show!r}")
    points = experiments.points(RUN, suite, options.whole(chosen, "clients"))
    ident = uid(md, "database", suite, show, name)
    repeats = max(len(point.runs) for point in points)
    caption = experiments.caption(RUN, chosen.get("caption", ""), repeats)
    if show == "bars":
        for point in points:
            required(point, name)
        rows = [charts.Row(_label(p), [charts.Bar(p)]) for p in points]
        return charts.row_chart(
            ident, chosen["title"], name, rows, [], caption, "Handler"
        )
    lines: dict[str, list[Point]] = {}
    for point in points:
        lines.setdefault(_label(point), []).append(point)
    if show == "lines":
        return sweep_chart.sweep(
            ident, chosen["title"],
            [_line(each, points) for each in lines.values()], caption,
        )
    clients = sorted({point.clients for point in points})
    body = []
    for label, each in lines.items():
        by_clients = {point.clients: point for point in each}
        body.append([
            f"<strong>{escape(label)}</strong>",
            *(cell(by_clients.get(number), name) for number in clients),
        ])
    head = ["Handler", *(f"{n:,} client{'s' * (n > 1)}" for n in clients)]
    return elements.figure(
        ident, "measured", elements.table(head, body, chosen["title"]),
        caption, chosen["title"],
    )


def _label(point: Point) -> str:
    """What a row is called: "06-async, 10 connections"."""
    return f"{point.server}, {point.variant}"


def _line(line: list[Point], every: list[Point]) -> sweep_chart.Line:
    """The line of a handler looks as that of its server's step.

    Its name is short, as it stands beside the line: its pool is a part of
    it ("06-async, 10") if there are several of this handler.
    """
    name = line[0].server
    if len({p.variant for p in every if p.server == name}) > 1:
        name += f", {line[0].variant.partition(' ')[0]}"
    return sweep_chart.Line(
        replace(by_name(line[0].server[:2]), name=name),
        sorted(line, key=lambda point: point.clients),
    )


database = fence(_render, "suite show title", "figure clients caption")
