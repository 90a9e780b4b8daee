"""The sweep as inline SVG: requests/s over clients, a line a server."""

import itertools
import math
from dataclasses import dataclass, field
from html import escape

from tools.data.results import Point
from tools.servers import SERVERS, Server
from tools.site import data, elements, svg
from tools.site.charts import POSSIBLE, RATE, beside_keys, frame
from tools.site.data import Several
from tools.site.figures import cell, figure, spread, value, values

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


def _rate(point: Point) -> float:
    return value(point, RATE) or 0.0


def _good(points: list[Point]) -> list[Point]:
    return [point for point in points if _rate(point) > 0]


class _Axes:
    """Both logarithmic axes of a sweep."""

    def __init__(self, lines: list[Line]) -> None:
        points = [
            p for line in lines for p in _good([*line.points, *line.own])
        ]
        ends = [_rate(p) for p in points]
        ends += [
            rate for p in points if isinstance(p, Several)
            for rate in values(p, RATE)
        ]
        ends += [p.possible for p in points if p.possible]
        ends = [rate for rate in ends if rate > 0] or [1.0, 10.0]
        self.clients = max([2, *(p.clients for p in points)])
        self.low, self.high = min(ends) / 1.3, max(ends) * 1.15
        self.delay = next((p.delay for p in points if p.delay), None)

    def part(self, clients: float) -> float:
        return math.log(clients) / math.log(self.clients)

    def x(self, clients: float) -> str:
        return svg.percent(self.part(clients))

    def y(self, rate: float) -> float:
        part = math.log(rate / self.low) / math.log(self.high / self.low)
        return round(8 + (HEIGHT - 8) * (1 - part), 1)

    def at(self, point: Point, content: str) -> str:
        return svg.at(self.x(point.clients), self.y(_rate(point)), content)

    def between(self, one: Point, two: Point) -> str:
        return svg.line(
            (self.x(one.clients), self.x(two.clients)),
            (self.y(_rate(one)), self.y(_rate(two))),
        )

    def grid(self) -> str:
        """Lines with their numbers, and the line of what is possible."""
        parts = [svg.label("requests/s", -50, -6, "tick seven-axis")]
        parts.append(clients_axis(HEIGHT))
        for rate in svg.powers(self.low, self.high, 10):
            y = self.y(rate)
            parts.append(svg.line(("0", "100%"), (y, y), "seven-grid"))
            parts.append(svg.label(f"{rate:,.0f}", -12, y + 4, "tick", "end"))
        parts += [
            svg.column(self.x(clients), HEIGHT, f"{clients:,.0f}")
            for clients in svg.powers(1, self.clients, 8)
        ]
        if self.delay is not None:
            ends = (self.y(1 / self.delay), self.y(self.clients / self.delay))
            across = (self.x(1), self.x(self.clients))
            parts.append(svg.line(across, ends, "seven-possible"))
        return "".join(parts)

    def band(self, points: list[Point]) -> str:
        """From the lowest to the highest of several, over the clients.

        Only here lines bend, so only this has a viewBox: it is stretched
        to the width of the chart, and there is no text in it.
        """
        ends = [
            (100 * self.part(p.clients), *map(self.y, low_high))
            for p in points
            if isinstance(p, Several) and (low_high := spread(p, RATE))
            and low_high[0] > 0
        ]
        if len(ends) < 2:
            return ""
        there = [f"{x:.2f} {low:g}" for x, low, _ in ends]
        back = [f"{x:.2f} {high:g}" for x, _, high in reversed(ends)]
        return svg.element(
            "svg",
            svg.element("path", d=f"M{'L'.join([*there, *back])}Z"),
            class_="seven-between", width="100%", height=HEIGHT,
            viewBox=f"0 0 100 {HEIGHT}", preserveAspectRatio="none",
        )


def sweep(uid: str, title: str, lines: list[Line], caption: str) -> str:
    """Requests/s over clients, both logarithmic, a line a server."""
    axes = _Axes(lines)
    ends = [(ln, good[-1]) for ln in lines if (good := _good(ln.points))]
    drawing = [axes.grid()]
    drawing += [
        _of(line, _line(axes, line, line.own, data.who()))
        + _of(line, _line(axes, line, line.points))
        for line in lines
    ]
    drawing += _names(axes, ends)
    words, notes = [], []
    for line, last in ends:
        name = line.server.name
        words.append(
            f"{name} reaches {figure(RATE).write(_rate(last))} requests per "
            f"second at {last.clients} clients;"
        )
        if line.end:
            cross = svg.element("path", class_="seven-end", d=CROSS)
            drawing.append(_of(line, axes.at(last, cross)))
            notes.append(
                f'<li data-server="{name}"><strong>{name}</strong> ends at '
                f"{last.clients:,} clients: {escape(line.end)}</li>"
            )
    keys = [("ideal", POSSIBLE)]
    if any(line.own for line in lines):
        keys += beside_keys("ownline")
    if notes:
        keys.append(("end", "the line ends here, the reason is below"))
    chart = svg.chart(
        uid, title, " ".join(words), HEIGHT + 46, "".join(drawing), "sweep"
    )
    if notes:
        chart += f'<ul class="seven-notes">{"".join(notes)}</ul>'
    return frame(uid, title, keys, chart, _sweep_table(lines), caption)


def clients_axis(height: float) -> str:
    """What the numbers below a plot of this height are."""
    kind = "tick seven-axis"
    return svg.label("clients at once", "100%", height + 36, kind, "end")


def _of(line: Line, content: str) -> str:
    """What belongs to a server, so that it can be hidden."""
    if not content:
        return ""
    return svg.element("g", content, data_server=line.server.name)


def _line(
    axes: _Axes, line: Line, points: list[Point], who: str = ""
) -> str:
    """who: whose line it is, "" for the reference."""
    good = _good(points)
    if not good:
        return ""
    parts = [axes.between(*pair) for pair in itertools.pairwise(good)]
    for point in good:
        words = (
            f"{line.server.name}{who and f', {who}'}: {point.clients:,} "
            f"clients, {_rate(point):,.0f} requests/s"
        )
        parts.append(
            axes.at(
                point,
                svg.element(
                    "path", svg.element("title", escape(words)),
                    d=SHAPES[line.server.step],
                ),
            )
        )
    kind = " seven-ownline" if who else ""
    return svg.element(
        "g", axes.band(good) + "".join(parts), class_=line.style + kind
    )


def _names(axes: _Axes, ends: list[tuple[Line, Point]]) -> list[str]:
    """Each line's name at the right, kept from covering each other."""

    def height(end: tuple[Line, Point]) -> float:
        return axes.y(_rate(end[1]))

    placed = sorted(ends, key=height)
    heights: list[float] = []
    for end in placed:
        least = heights[-1] + LABEL_GAP if heights else 0.0
        heights.append(max(height(end), least))
    limit = float(HEIGHT)
    for at in reversed(range(len(heights))):  # push up what is too low
        heights[at] = min(heights[at], limit)
        limit = heights[at] - LABEL_GAP
    return [
        _of(
            line,
            svg.line(
                (axes.x(last.clients), "100%"), (axes.y(_rate(last)), y),
                "seven-leader",
            )
            + svg.at(
                "100%", y,
                svg.element(
                    "g", svg.element("path", d=SHAPES[line.server.step]),
                    class_=line.style, transform="translate(20 0)",
                )
                + svg.label(line.server.name, 30, 4, "value"),
            ),
        )
        for (line, last), y in zip(placed, heights, strict=True)
    ]


def _sweep_table(lines: list[Line]) -> str:
    head, servers = ["Clients", "Possible"], ["", ""]
    columns: list[dict[int, Point]] = []
    for line in lines:
        name = line.server.name
        for points, who in ((line.points, ""), (line.own, data.who())):
            if points:
                head.append(f"{name} {who}".strip())
                servers.append(name)
                columns.append({p.clients: p for p in points})
    body = []
    for clients in sorted({p.clients for line in lines for p in line.points}):
        at = [column.get(clients) for column in columns]
        first = next(point for point in at if point is not None)
        body.append(
            [f"{clients:,}", cell(first, "possible")]
            + [cell(p, RATE, isinstance(p, Several)) for p in at]
        )
    return elements.table(head, body, "", None, servers)
