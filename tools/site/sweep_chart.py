"""The sweep as inline SVG: requests/s over clients, a line a server."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.data.results import Point
from tools.servers import SERVERS, Server
from tools.site import data, elements, svg
from tools.site.charts import POSSIBLE, RATE, beside_keys, frame
from tools.site.data import Several
from tools.site.figures import cell, figure, spread, value, values
from tools.site.template import html

HEIGHT = 380  # px of the plot
LABEL_GAP = 17  # px between the names at the right
CROSS = "M-7 -7L7 7M-7 7L7 -7"  # where a line ends before the others
# A shape a step, so that nobody has to tell the colours apart.
SHAPES = {
    1: "M-4 -4H4V4H-4Z",
    2: "M0 -5L5 4H-5Z",
    3: "M0 -6L6 0L0 6L-6 0Z",
    4: "M-5 -4H5L0 5Z",
    5: "M-6 -1.5H-1.5V-6H1.5V-1.5H6V1.5H1.5V6H-1.5V1.5H-6Z",
    6: "M-4.5 0A4.5 4.5 0 1 1 4.5 0A4.5 4.5 0 1 1 -4.5 0Z",
    7: "M0 -6L1.8 -1.8L6 0L1.8 1.8L0 6L-1.8 1.8L-6 0L-1.8 -1.8Z",
}


@dataclass(frozen=True)
class Line:
    """One server in a sweep, points in the order of clients."""

    server: Server
    points: list[Point]
    own: list[Point] = field(default_factory=list)

    @property
    def both(self) -> list[tuple[str, list[Point]]]:
        """The reference's points, called "", and those beside it."""
        found = [("", self.points), (data.who(), self.own)]
        return [(who, points) for who, points in found if points]

    @property
    def style(self) -> str:
        """The classes of what is drawn of it."""
        step = self.server.step
        files = [each.path.name for each in SERVERS if each.step == step]
        name = self.server.path.name
        number = files.index(name) if name in files else 1  # 0: the step's
        end = f" seven-variant seven-variant{number}" if number else ""
        return f"seven-line seven-step{step}{end}"

    @property
    def end(self) -> str:
        """Why the line ends before the others, "" if it does not."""
        for point in self.points:
            if point.end or point.status == "failed":
                return point.reason or "no reason was recorded"
        return ""


class Place(NamedTuple):
    """Where a point is drawn, and what it says."""

    x: str
    y: float
    clients: int
    rate: float


class Trace(NamedTuple):
    """What is drawn of a line; whose it is, "" for the reference."""

    line: Line
    who: str
    places: list[Place]
    band: str  # the path from the lowest to the highest of several


class _Axes:
    """Both logarithmic axes of a sweep."""

    def __init__(self, lines: list[Line]) -> None:
        points = [
            point for line in lines for _, found in line.both
            for point in found if value(point, RATE)
        ]
        ends = [p.possible or 0.0 for p in points]
        for p in points:  # of one, its median counts; of several, all
            several = isinstance(p, Several)
            ends += values(p, RATE) if several else [value(p, RATE) or 0.0]
        ends = [rate for rate in ends if rate > 0] or [1.0, 10.0]
        self.clients = max([2, *(p.clients for p in points)])
        self.low, self.high = min(ends) / 1.3, max(ends) * 1.15
        self.delay = next((p.delay for p in points if p.delay), None)

    @property
    def rates(self) -> list[float]:
        """Where grid lines go: 1, 10 ..., or 1, 2, 5, 10 if few fit."""
        tens = svg.powers(self.low / 10, self.high, 10)
        factors = (1, 2, 5) if self.high < 100 * self.low else (1,)
        every = [factor * ten for ten in tens for factor in factors]
        return [rate for rate in every if self.low <= rate <= self.high]

    def x(self, clients: float) -> float:
        """Percent of the width."""
        return 100 * math.log(clients) / math.log(self.clients)

    def y(self, rate: float) -> float:
        """Pixels from the top."""
        part = math.log(rate / self.low) / math.log(self.high / self.low)
        return round(8 + (HEIGHT - 8) * (1 - part), 1)

    def place(self, clients: int, rate: float) -> Place:
        """The place of so many requests/s with so many clients."""
        x = svg.percent(self.x(clients) / 100)
        return Place(x, self.y(rate), clients, rate)

    def trace(self, line: Line, who: str, points: list[Point]) -> Trace:
        """What is drawn of these points of a line."""
        places = [
            self.place(point.clients, rate) for point in points
            if (rate := value(point, RATE))
        ]
        return Trace(line, who, places, self.band(points))

    def band(self, points: list[Point]) -> str:
        """From the lowest to the highest of several, over the clients.

        Only here lines bend, so only this has a viewBox: it is stretched
        to the width of the chart, and there is no text in it.
        """
        ends = [
            (self.x(p.clients), *map(self.y, low_high)) for p in points
            if isinstance(p, Several) and (low_high := spread(p, RATE))
            and low_high[0] > 0
        ]
        if len(ends) < 2:
            return ""
        there = [f"{x:.2f} {low:g}" for x, low, _ in ends]
        back = [f"{x:.2f} {high:g}" for x, _, high in reversed(ends)]
        return f"M{'L'.join([*there, *back])}Z"


def sweep(uid: str, title: str, lines: list[Line], caption: str) -> str:
    """Requests/s over clients, both logarithmic, a line a server."""
    axes = _Axes(lines)
    every = [  # the reference is drawn over what stands beside it
        axes.trace(line, *found) for line in lines
        for found in reversed(line.both)
    ]
    traces = [trace for trace in every if trace.places]
    ends = [trace for trace in traces if not trace.who]
    keys = [("ideal", POSSIBLE)] * (axes.delay is not None)
    if any(line.own for line in lines):
        keys += beside_keys("ownline")
    if any(trace.line.end for trace in ends):
        keys.append(("end", "the line ends here, the reason is below"))
    chart = html(
        "sweep", uid=uid, title=title, height=HEIGHT, axes=axes, svg=svg,
        traces=traces, ends=ends, names=list(_names(ends)), cross=CROSS,
        shapes=SHAPES, write=figure(RATE).write, axis=clients_axis(HEIGHT),
    )
    return frame(uid, title, keys, chart, _sweep_table(lines), caption)


def clients_axis(height: float) -> str:
    """What the numbers below a plot of this height are."""
    kind = "tick seven-axis"
    return svg.label("clients at once", "100%", height + 36, kind, "end")


def _names(ends: list[Trace]) -> Iterator[tuple[Trace, float]]:
    """Each line's name at the right, kept from covering each other."""
    placed = sorted(ends, key=lambda trace: trace.places[-1].y)
    heights: list[float] = []
    for trace in placed:
        least = heights[-1] + LABEL_GAP if heights else 0.0
        heights.append(max(trace.places[-1].y, least))
    limit = float(HEIGHT)
    for at in reversed(range(len(heights))):  # push up what is too low
        heights[at] = min(heights[at], limit)
        limit = heights[at] - LABEL_GAP
    return zip(placed, heights, strict=True)


def _sweep_table(lines: list[Line]) -> str:
    columns = [
        (line.server.name, who, {p.clients: p for p in points})
        for line in lines for who, points in line.both
    ]
    body = []
    for clients in sorted({p.clients for line in lines for p in line.points}):
        at = [points.get(clients) for _, _, points in columns]
        first = next(point for point in at if point is not None)
        body.append(
            [f"{clients:,}", cell(first, "possible")]
            + [cell(p, RATE, isinstance(p, Several)) for p in at]
        )
    names = [f"{name} {who}".strip() for name, who, _ in columns]
    return elements.table(
        ["Clients", "Possible", *names], body, "", None,
        ["", "", *(name for name, _, _ in columns)],
    )
