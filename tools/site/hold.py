"""How many clients each server held at once, and what stopped it.

A row each server, a place each number of clients: as a picture on a
logarithmic axis, and as a table. The data are docs/data/hold, of
``./bench.sh hold``, which ends a server's row where it was stopped.
"""

import math
from html import escape
from typing import Any

from tools.data.results import Point
from tools.servers import SERVERS, Server
from tools.site import elements, experiments, svg
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, figure
from tools.site.sweep_chart import CROSS, SHAPES, clients_axis

RUN = SUITE = "hold"
DELAY = 10.0  # seconds; another one is said
SURE = 1000  # clients from which on memory for each is sure enough
ROW = 46  # pixels: the name, the line below
LINE = 34  # from the top of the first row to its line
AXIS = 40  # for the numbers below
FIRST = 0.04  # where the fewest clients stand, part of the width
MEMORY = "user_bytes_per_connection"

Row = tuple[Server, list[Point]]  # its points, the fewest clients first


def _render(chosen: dict[str, str], md: Any) -> str:
    """How many clients each server held; see the top of this file."""
    title = chosen["title"]
    points = experiments.points(RUN, SUITE)
    points.sort(key=lambda point: point.clients)
    rows = [
        (server, found) for server in SERVERS
        if (found := [p for p in points if p.server == server.name])
    ]
    levels = sorted({point.clients for point in points})
    ident = uid(md, "hold", title)
    legend = (
        '<p class="seven-legend"><span>filled: every client got a response'
        '</span><span><span class="seven-key seven-key--end"></span>'
        "stopped, and by what</span></p>"
    )
    notes = "".join(
        f"<li><strong>{escape(point.server)}</strong> at {point.clients:,}, "
        f"{escape(point.reason)}.</li>"
        for _, found in rows for point in found if point.reason
    )
    return elements.figure(
        ident, "chart",
        legend + _picture(ident, title, rows, levels) + _table(rows, levels)
        + f'<ul class="seven-notes">{notes}</ul>',
        experiments.caption(RUN, chosen.get("caption", "")), title,
    )


hold = fence(_render, "title", "caption")


def _stop(point: Point) -> str:
    """The word for what stopped the server here, "" if nothing did."""
    return point.reason.partition(":")[0]


def _figure(point: Point, name: str) -> float:
    """A figure of the last run; 0: it has none."""
    return point.runs[-1].extra.get(name, 0)


def _tried(point: Point) -> int:
    """How many clients there were where so many were asked for."""
    return int(_figure(point, "connections")) or point.clients


def _held(point: Point) -> int:
    """How many clients were answered; 0: not all that came."""
    return _tried(point) if point.status == "ok" else 0


def _picture(
    ident: str, title: str, rows: list[Row], levels: list[int]
) -> str:
    """A line each server; a shape where it held, a cross where not."""
    top = math.log(levels[-1] / levels[0]) or 1.0

    def x(clients: float) -> str:
        part = max(math.log(clients / levels[0]) / top, 0.0)
        return svg.percent(FIRST + (1 - FIRST) * part)

    height = LINE - ROW + 16 + ROW * len(rows)
    parts = [svg.column(x(n), height, f"{n:,}") for n in levels]
    parts.append(clients_axis(height))
    for number, (server, points) in enumerate(rows):
        y = LINE + number * ROW
        parts.append(
            svg.label(f"{server.name}  {server.title}", 0, y - 15, "label")
        )
        reached = max(map(_held, points))
        line = svg.line(("0", x(reached)), (y, y)) if reached else ""
        shape = svg.element("path", d=SHAPES[server.step])
        line += "".join(
            svg.at(x(p.clients), y, shape) for p in points if not p.reason
        )
        style = f"seven-line seven-step{server.step}"
        parts.append(svg.element("g", line, class_=style))
        if stop := _stop(points[-1]):
            cross = svg.element("path", class_="seven-end", d=CROSS)
            cross += svg.label(stop, 13, 4, "value")
            parts.append(svg.at(x(_tried(points[-1])), y, cross))
    return svg.chart(
        ident, title, " ".join(map(_sentence, rows)), height + AXIS,
        "".join(parts), "bars",
    )


def _sentence(row: Row) -> str:
    """What a screen reader says of a row."""
    server, points = row
    good = [point.clients for point in points if not point.reason]
    words = [f"held {good[-1]:,} clients"] if good else []
    last, held = points[-1], _held(points[-1])
    if last.reason:
        part = f"{held:,} of " if held else ""
        words.append(f"was stopped at {part}{last.clients:,}: {_stop(last)}")
    return f"{server.name} {', and '.join(words)}."


def _table(rows: list[Row], levels: list[int]) -> str:
    body = []
    for server, points in rows:
        cells = {point.clients: _cell(point) for point in points}
        memory = [
            each for point in points if (each := _figure(point, MEMORY)) > 0
            and _figure(point, "descriptors") >= SURE
        ]
        threads = max(run.threads or 0 for p in points for run in p.runs)
        body.append([
            f"<strong>{escape(server.name)}</strong><br>"
            f"<small>{escape(server.waits)}</small>",
            *(cells.get(clients, DASH) for clients in levels),
            figure(MEMORY).write(memory[-1]) if memory else DASH,
            f"{threads:,}",
        ])
    head = ["Server", *(f"{n:,} clients" for n in levels), "Memory per client",
            "Threads"]  # fmt: skip
    return elements.table(head, body, "How many clients at the same time")


def _cell(point: Point) -> str:
    """Until the last response, or what stopped the server."""
    stop, last = _stop(point), point.runs[-1]
    cell, small = f"{figure('seconds').write(last.seconds)} s", ""
    if stop:
        cell = f'<strong class="seven-no">{stop}</strong>'
        small = f"{last.requests:,} of {_tried(point):,} answered"
        # A run until 2026-11-22 did not wait for what would come too late.
        if watched := _figure(point, "watched_seconds"):
            small = f"{last.requests:,} in {watched:g} s"
        if held := _held(point):
            small = f"{held:,} held"
    elif point.delay != DELAY:
        small = f"--delay {point.delay:g}"
    return cell + f"<br><small>{small}</small>" * bool(small)
