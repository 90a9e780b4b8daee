"""How many clients each server held at once, and what stopped it.

::

    title: How many at once
    run: hold
    servers: 01, 03, 07
    caption: What else to say.

All may be left out but the title. A row each server, a place each number
of clients: as a picture on a logarithmic axis, and as a table. A server
or a number that the committed run does not have is "not measured".
"""

import math
from dataclasses import dataclass
from html import escape
from typing import Any

from tools.data.results import Point, Run
from tools.servers import Server
from tools.site import experiments, options, svg
from tools.site.charts import SHAPES
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, figure, value
from tools.site.tables import table

SUITE = "hold"
LEVELS = (100, 1_000, 10_000, 65_536)  # clients at once
DELAY = 10.0  # seconds; another one is said
SURE = 1000  # clients from which on memory for each is sure enough
HELD = 0.9  # part of the connections that the server must have accepted
NOT_MEASURED = "not measured"
STOPS = {  # the word before the colon of a reason -> what it means
    "threads": "the system gave no more threads",
    "descriptors": "a process may not open more files",
    "memory": "no memory was left",
    "time": "the answers would come too late",
    "closed": "it closed connections without an answer",
    "wrong": "answers were wrong",
    "died": "it ended",
    "start": "it could not be measured",
}
ROW = 46  # pixels: the name, the line below
LINE = 30  # from the top of a row to its line
TOP = 4
AXIS = 40  # for the numbers below
FIRST = 0.04  # where the fewest clients stand, part of the width


@dataclass(frozen=True)
class Row:
    """One server: its points by the number of clients."""

    server: Server
    points: dict[int, Point]

    @property
    def end(self) -> int | None:
        """The clients that were too many, None if none were."""
        ends = [n for n, point in self.points.items() if _stop(point)]
        return min(ends, default=None)

    def tried(self, clients: int) -> int:
        """How many there were really where so many were asked for."""
        runs = self.points[clients].runs
        found = runs[-1].extra.get("connections") if runs else None
        hopeless = bool(runs) and "needed_seconds" in runs[-1].extra
        return clients if not found or hopeless else int(found)

    def held(self, clients: int) -> int | None:
        """How many it held of so many: all, a part of them, or None."""
        point = self.points.get(clients)
        if point is None or point.status != "ok":
            return None
        found = value(point, "connections")
        return None if found is None else int(found)


def _stop(point: Point) -> str:
    """The word for what stopped the server here, "" if nothing did."""
    if not point.reason:
        return ""
    word = point.reason.partition(":")[0]
    if word not in STOPS:
        known = ", ".join(STOPS)
        raise SiteError(
            f"{point.server} was stopped by {point.reason!r}, which does "
            f"not begin with one of {known}"
        )
    return word


def rows(name: str, servers: list[Server]) -> list[Row]:
    """What a run has of these servers. Raises SiteError."""
    found = experiments.run(name).suite(SUITE)
    if not found:
        raise SiteError(f"{name} has no points in {SUITE}")
    return [
        Row(server, {p.clients: p for p in found if p.server == server.name})
        for server in servers
    ]


def _render(text: str, md: Any) -> str:
    """How many clients each server held; see the top of this file."""
    chosen = options.parse(text, ["title"], ["run", "servers", "caption"])
    name = chosen.get("run", SUITE)
    found = rows(name, options.servers(chosen.get("servers", "all")))
    levels = sorted({*LEVELS, *(n for row in found for n in row.points)})
    title = chosen["title"]
    here = uid(md, "hold", title)
    caption = experiments.caption(name, chosen.get("caption", ""), 1)
    return (
        f'<figure class="seven-chart" id="{here}" data-search-exclude>'
        f'<p class="seven-title">{escape(title)}</p>{_legend(found)}'
        f"{_picture(here, title, found, levels)}{_table(found, levels)}"
        f"{_notes(found)}{_everything(found)}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


hold = fence(_render)

# The picture -------------------------------------------------------------


def _legend(found: list[Row]) -> str:
    items = ["<span>filled: every client was answered</span>"]
    if any(row.end for row in found):
        items.append(
            '<span><span class="seven-key seven-key--end"></span>'
            "stopped, and by what</span>"
        )
    return f'<p class="seven-legend">{"".join(items)}</p>'


def _picture(
    here: str, title: str, found: list[Row], levels: list[int]
) -> str:
    """A line each server; a shape where it held, a cross where not."""
    height = TOP + ROW * len(found)

    def x(clients: float) -> str:
        part = math.log(clients / levels[0])
        part /= math.log(max(levels[-1], levels[0] * 2) / levels[0])
        return svg.percent(FIRST + (1 - FIRST) * max(part, 0.0))

    parts = [_axis(x, levels, height)]
    for number, row in enumerate(found):
        parts.append(_line(row, x, TOP + number * ROW))
    words = " ".join(_sentence(row) for row in found)
    return svg.chart(
        here, title, words, height + AXIS, "".join(parts), "bars"
    )


def _axis(x: Any, levels: list[int], height: float) -> str:
    parts = []
    for clients in levels:
        parts.append(
            svg.element(
                "line", class_="seven-grid", x1=x(clients), x2=x(clients),
                y1=0, y2=height,
            )
            + svg.text(
                f"{clients:,}", x=x(clients), y=height + 16,
                text_anchor="middle", class_="seven-tick",
            )
        )
    parts.append(
        svg.text(
            "clients at once", x="100%", y=height + 34, text_anchor="end",
            class_="seven-tick seven-axis",
        )
    )
    return "".join(parts)


def _line(row: Row, x: Any, top: float) -> str:
    """One server: its name, and below how far it came."""
    y = top + LINE
    good = [n for n in sorted(row.points) if not _stop(row.points[n])]
    end, parts = row.end, []
    reached = row.held(end) if end is not None else None
    if good or reached:
        last = max([*good, reached or 0])
        parts.append(svg.element("line", x1="0", x2=x(last), y1=y, y2=y))
    shape = SHAPES[row.server.step]
    for clients in good:
        parts.append(svg.at(x(clients), y, svg.element("path", d=shape)))
    style = f"seven-line seven-step{row.server.step}"
    drawn = svg.element("g", "".join(parts), class_=style)
    if end is not None:
        where = x(row.tried(end))
        drawn += svg.at(
            where, y,
            svg.element("path", class_="seven-end", d="M-7 -7L7 7M-7 7L7 -7"),
        ) + svg.at(
            where, y,
            svg.text(
                _stop(row.points[end]), x=13, y=4, class_="seven-value"
            ),
        )
    elif not row.points:
        drawn += svg.text(NOT_MEASURED, x=0, y=y + 4, class_="seven-tick")
    name = f"{row.server.name}  {row.server.title}"
    return svg.text(name, x=0, y=top + 15, class_="seven-label") + drawn


def _sentence(row: Row) -> str:
    """What a screen reader says of a row."""
    name = row.server.name
    good = [n for n, point in row.points.items() if not _stop(point)]
    if not row.points:
        return f"{name}: {NOT_MEASURED}."
    words = f"{name} held {max(good):,} clients" if good else name
    end = row.end
    if end is None:
        return f"{words}."
    stop = _stop(row.points[end])
    reached = row.held(end)
    much = f"{reached:,} of {end:,}" if reached else f"{end:,}"
    return f"{words}{', and' if good else ''} was stopped at {much}: {stop}."


# The tables --------------------------------------------------------------


def _table(found: list[Row], levels: list[int]) -> str:
    head = [
        "Server", *(f"{n:,} clients" for n in levels),
        "Memory a client", "Threads",
    ]
    body = []
    for row in found:
        cells = [_cell(row, clients) for clients in levels]
        body.append(
            [
                f"<strong>{escape(row.server.name)}</strong><br>"
                f"<small>{escape(row.server.waits)}</small>",
                *cells, _memory(row), _threads(row),
            ]
        )
    return table(head, body, "How many clients at once")


def _cell(row: Row, clients: int) -> str:
    """Until the last answer, or what stopped the server."""
    point = row.points.get(clients)
    if point is None:
        after_end = row.end is not None and clients > row.end
        return DASH if after_end else f"<small>{NOT_MEASURED}</small>"
    stop = _stop(point)
    if not stop:
        cell = figure("seconds").write(value(point, "seconds") or 0.0)
        cell = f"{cell} s"
        if point.delay != DELAY:
            cell += f"<br><small>--delay {point.delay:g}</small>"
        return cell
    cell = f'<strong class="seven-no">{stop}</strong>'
    reached = row.held(clients)
    if reached:
        return f"{cell}<br><small>{reached:,} held</small>"
    if point.runs:
        last = point.runs[-1]
        words = f"{last.requests:,} of {row.tried(clients):,} answered"
        if watched := last.extra.get("watched_seconds"):
            words = f"{last.requests:,} in {watched:g} s"
        cell += f"<br><small>{words}</small>"
    return cell


def _memory(row: Row) -> str:
    """Bytes of the server for a client, with the most it held."""
    for clients in sorted(row.points, reverse=True):
        for run in row.points[clients].runs:
            if (found := _bytes(run)) is not None:
                return figure("user_bytes_per_connection").write(found)
    return DASH


def _bytes(run: Run) -> float | None:
    """Memory for a client if that is more than noise."""
    held = run.extra.get("descriptors", 0)
    if held < SURE or held < HELD * run.extra.get("connections", 0):
        return None
    return run.extra.get("user_bytes_per_connection")


def _threads(row: Row) -> str:
    runs = [run for point in row.points.values() for run in point.runs]
    most = max((run.threads or 0 for run in runs), default=0)
    return f"{most:,}" if most else DASH


def _notes(found: list[Row]) -> str:
    """What stopped each server, in a sentence."""
    items = []
    for row in found:
        if (end := row.end) is None:
            continue
        stop, _, why = row.points[end].reason.partition(": ")
        items.append(
            f"<li><strong>{escape(row.server.name)}</strong> at {end:,}, "
            f"{stop}: {escape(why)}.</li>"
        )
    return f'<ul class="seven-notes">{"".join(items)}</ul>' if items else ""


COLUMNS = (
    "connections", "answered", "wrong", "open_seconds",
    "first_answer_seconds", "seconds", "user_bytes_per_connection",
)


def _everything(found: list[Row]) -> str:
    """Every figure of every run, folded away."""
    head = ["Server", "Clients", *(figure(c).label for c in COLUMNS)]
    head[head.index("Seconds")] = "Last answer"
    head.append("Threads")
    body = []
    for row in found:
        for clients, point in sorted(row.points.items()):
            for run in point.runs:
                cells = [_figure(run, name) for name in COLUMNS]
                body.append(
                    [
                        escape(row.server.name), f"{clients:,}", *cells,
                        DASH if not run.threads else f"{run.threads:,}",
                    ]
                )
    return (
        '<details class="seven-data"><summary>Every figure</summary>'
        f"{table(head, body, 'Every figure')}</details>"
    )


def _figure(run: Run, name: str) -> str:
    """A figure of a run, of one that was stopped too."""
    if name == "user_bytes_per_connection":
        found = _bytes(run)
    elif name == "seconds":
        return f"{run.seconds:,.1f} s" if run.requests else DASH
    else:
        found = run.extra.get(name)
    return DASH if found is None else figure(name).write(found)
