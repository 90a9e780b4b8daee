"""How many clients each server held at once, and what stopped it.

A row each server, a place each number of clients: as a picture on a
logarithmic axis, and as a table. A server or a number that the committed
run does not have is "not measured".
"""

import math
from dataclasses import dataclass
from html import escape
from typing import Any

from tools.data.results import Point, Run
from tools.servers import SERVERS, Server
from tools.site import elements, experiments, svg
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, figure, value
from tools.site.sweep_chart import CROSS, SHAPES, clients_axis

RUN = SUITE = "hold"
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
LINE = 34  # from the top of the first row to its line
AXIS = 40  # for the numbers below
FIRST = 0.04  # where the fewest clients stand, part of the width
COLUMNS = (  # of the table with everything
    "connections", "answered", "wrong", "open_seconds",
    "first_answer_seconds", "seconds", "user_bytes_per_connection",
)


@dataclass(frozen=True)
class Row:
    """One server: its points, the fewest clients first."""

    server: Server
    points: list[Point]

    @property
    def end(self) -> Point | None:
        """Where the clients were too many, None if they never were."""
        return next((point for point in self.points if _stop(point)), None)

    @property
    def good(self) -> list[int]:
        """The numbers of clients that were all answered, rising."""
        return [point.clients for point in self.points if not _stop(point)]

    @property
    def runs(self) -> list[Run]:
        """All of them, the fewest clients first."""
        return [run for point in self.points for run in point.runs]


def _tried(point: Point) -> int:
    """How many clients there were really where so many were asked for."""
    extra = point.runs[-1].extra if point.runs else {}
    if "needed_seconds" in extra:  # it was hopeless
        return point.clients
    return int(extra.get("connections") or point.clients)


def _held(point: Point) -> int:
    """How many clients it held: all, a part of them, or 0."""
    held = value(point, "connections") if point.status == "ok" else 0
    return int(held or 0)


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


def _render(chosen: dict[str, str], md: Any) -> str:
    """How many clients each server held; see the top of this file."""
    title = chosen["title"]
    points = experiments.points(RUN, SUITE)
    points.sort(key=lambda point: point.clients)
    found = [
        Row(server, [p for p in points if p.server == server.name])
        for server in SERVERS
    ]
    levels = sorted({*LEVELS, *(point.clients for point in points)})
    ident = uid(md, "hold", title)
    return elements.figure(
        ident, "chart",
        _legend(found) + _picture(ident, title, found, levels)
        + _table(found, levels) + _notes(found)
        + elements.folded("Every figure", _everything(found)),
        experiments.caption(RUN, chosen.get("caption", "")), title,
    )


hold = fence(_render, "title", "caption")

# The picture -------------------------------------------------------------


def _legend(found: list[Row]) -> str:
    end = (
        '<span><span class="seven-key seven-key--end"></span>'
        "stopped, and by what</span>"
    ) if any(row.end for row in found) else ""
    return (
        '<p class="seven-legend"><span>filled: every client was answered'
        f"</span>{end}</p>"
    )


def _picture(
    ident: str, title: str, found: list[Row], levels: list[int]
) -> str:
    """A line each server; a shape where it held, a cross where not."""
    top = levels[-1] / levels[0]

    def x(clients: float) -> str:
        part = max(math.log(clients / levels[0]) / math.log(top), 0.0)
        return svg.percent(FIRST + (1 - FIRST) * part)

    height = LINE - ROW + 16 + ROW * len(found)
    parts = [svg.column(x(n), height, f"{n:,}") for n in levels]
    parts.append(clients_axis(height))
    for number, row in enumerate(found):
        parts.append(_line(row, x, LINE + number * ROW))
    words = " ".join(map(_sentence, found))
    return svg.chart(
        ident, title, words, height + AXIS, "".join(parts), "bars"
    )


def _line(row: Row, x: Any, y: int) -> str:
    """One server: its name, and below how far it came."""
    end, drawn = row.end, ""
    if reached := max([*row.good, _held(end) if end else 0, 0]):
        drawn = svg.line(("0", x(reached)), (y, y))
    shape = svg.element("path", d=SHAPES[row.server.step])
    for clients in row.good:
        drawn += svg.at(x(clients), y, shape)
    style = f"seven-line seven-step{row.server.step}"
    drawn = svg.element("g", drawn, class_=style)
    if end:
        cross = svg.element("path", class_="seven-end", d=CROSS)
        cross += svg.label(_stop(end), 13, 4, "value")
        drawn += svg.at(x(_tried(end)), y, cross)
    elif not row.points:
        drawn += svg.label(NOT_MEASURED, 0, y + 4, "tick")
    name = f"{row.server.name}  {row.server.title}"
    return svg.label(name, 0, y - 15, "label") + drawn


def _sentence(row: Row) -> str:
    """What a screen reader says of a row."""
    words = [row.server.name]
    if not row.points:
        return f"{words[0]}: {NOT_MEASURED}."
    if row.good:
        words.append(f"held {row.good[-1]:,} clients")
    if end := row.end:
        part = f"{_held(end):,} of " if _held(end) else ""
        words[-1] += ", and" if row.good else ""
        words.append(f"was stopped at {part}{end.clients:,}: {_stop(end)}")
    return f"{' '.join(words)}."


# The tables --------------------------------------------------------------


def _table(found: list[Row], levels: list[int]) -> str:
    head = ["Server", *(f"{n:,} clients" for n in levels)]
    body = [
        [
            f"<strong>{escape(row.server.name)}</strong><br>"
            f"<small>{escape(row.server.waits)}</small>",
            *(_cell(row, clients) for clients in levels),
            _memory(row), _threads(row),
        ]
        for row in found
    ]
    head += ["Memory a client", "Threads"]
    return elements.table(head, body, "How many clients at once")


def _cell(row: Row, clients: int) -> str:
    """Until the last answer, or what stopped the server."""
    point = next((p for p in row.points if p.clients == clients), None)
    if point is None:
        after_end = row.end and clients > row.end.clients
        return DASH if after_end else f"<small>{NOT_MEASURED}</small>"
    stop, small = _stop(point), ""
    if not stop:
        rate = figure("seconds").write(value(point, "seconds") or 0.0)
        cell = f"{rate} s"
        if point.delay != DELAY:
            small = f"--delay {point.delay:g}"
    else:
        cell = f'<strong class="seven-no">{stop}</strong>'
        if reached := _held(point):
            small = f"{reached:,} held"
        elif point.runs:
            last = point.runs[-1]
            small = f"{last.requests:,} of {_tried(point):,} answered"
            if watched := last.extra.get("watched_seconds"):
                small = f"{last.requests:,} in {watched:g} s"
    return f"{cell}<br><small>{small}</small>" if small else cell


def _memory(row: Row) -> str:
    """Bytes of the server for a client, with the most it held."""
    found = [_figure(run, "user_bytes_per_connection") for run in row.runs]
    return next((f for f in reversed(found) if f != DASH), DASH)


def _threads(row: Row) -> str:
    most = max((run.threads or 0 for run in row.runs), default=0)
    return f"{most:,}" if most else DASH


def _notes(found: list[Row]) -> str:
    """What stopped each server, in a sentence."""
    items = []
    for row in found:
        if end := row.end:
            stop, _, why = end.reason.partition(": ")
            items.append(
                f"<li><strong>{escape(row.server.name)}</strong> at "
                f"{end.clients:,}, {stop}: {escape(why)}.</li>"
            )
    return f'<ul class="seven-notes">{"".join(items)}</ul>' if items else ""


def _everything(found: list[Row]) -> str:
    """Every figure of every run."""
    head = ["Server", "Clients", *(figure(c).label for c in COLUMNS)]
    head[head.index("Seconds")] = "Last answer"
    body = [
        [
            escape(row.server.name), f"{point.clients:,}",
            *(_figure(run, name) for name in COLUMNS),
            f"{run.threads:,}" if run.threads else DASH,
        ]
        for row in found
        for point in row.points
        for run in point.runs
    ]
    return elements.table([*head, "Threads"], body, "Every figure")


def _figure(run: Run, name: str) -> str:
    """A figure of a run, of one that was stopped too."""
    if name == "seconds":
        return f"{run.seconds:,.1f} s" if run.requests else DASH
    if name == "user_bytes_per_connection":  # if that is more than noise
        held, extra = run.extra.get("descriptors", 0), run.extra
        few = held < SURE or held < HELD * extra.get("connections", 0)
        if few or extra.get(name, 0) < 0:
            return DASH
    found = run.extra.get(name)
    return DASH if found is None else figure(name).write(found)
