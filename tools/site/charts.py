"""Charts as inline SVG: bars for one load, lines for the sweep.

Every shape has a class and no colour; docs/assets/seven.css gives colours
for light, dark and print. No script is needed; what hides servers on the
page Compare (docs/assets/compare.js) goes by data-server.
"""

import itertools
import math
from dataclasses import dataclass, field
from html import escape

from tools.data.results import Point
from tools.servers import Server
from tools.site import data, elements, svg
from tools.site.data import Several
from tools.site.figures import DASH, cell, figure, spread, value, values

LABEL = 21  # px from the top of a row to its first bar
BAR, OWN = 14, 10  # px of a bar, and of one beside the reference
STEP = 17  # px from one bar to the next
BETWEEN = 4  # px more below the row for each of its bars
AXIS = 26  # px below the bars
MARK = "\u25b8"  # before the name of the page's own server
HEIGHT = 380  # px of the sweep's plot
LABEL_GAP = 17  # px between the names at the right of a sweep
RATE = "requests_per_second"
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

# Bars ----------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """A measured point; kind: bar, mark or own; which: its name in words."""

    point: Point
    kind: str = "bar"
    which: str = ""

    def ends(self, name: str) -> list[float]:
        """The numbers that must find room in a chart of a figure."""
        found = value(self.point, name)
        return [] if found is None else [found, *values(self.point, name)]

    def said(self, name: str) -> str:
        """The number in words, or why there is none."""
        found, low_high = value(self.point, name), spread(self.point, name)
        if found is None:
            return self.point.reason or "not measured"
        write = figure(name).write
        if not isinstance(self.point, Several) or low_high is None:
            return write(found)
        low, high = map(write, low_high)
        return f"{write(found)} ({low} to {high})"


@dataclass(frozen=True)
class Row:
    """What is measured once or in several ways: a name and its bars."""

    name: str
    bars: list[Bar]
    server: str = ""
    title: str = ""  # what is drawn beside the name

    @property
    def height(self) -> int:
        """Pixels of its name and its bars."""
        return LABEL + len(self.bars) * (STEP + BETWEEN)


@dataclass(frozen=True)
class Limit:
    """A dashed line across all bars, and what the legend says of it."""

    value: float
    words: str


def bars(
    uid: str, title: str, name: str,
    rows: list[tuple[Server, Point, Point | None]], mark: str | None,
    caption: str,
) -> str:
    """A row a server: the reference, and what stands beside it.

    mark: the name of the server that is set off as this step.
    """
    keys = [("mark", f"{MARK} this step")] if mark is not None else []
    keys.append(("bar", "reference"))
    made = []
    for server, point, other in rows:
        here = server.name == mark
        drawn = [Bar(point, "mark" if here else "bar", "reference")]
        if other is not None:
            drawn.append(Bar(other, "own", data.who(other)))
        made.append(Row(server.name, drawn, server.name, server.title))
    if any(other is not None for _, _, other in rows):
        several = len(data.beside()) > 1
        keys.append(("own", data.who() + (": median" if several else "")))
        if several:
            keys.append(("band", "the lowest to the highest of them"))
    possible = {point.possible for _, point, _ in rows}
    limit = None
    if name == RATE and len(possible) == 1 and (most := possible.pop()):
        limit = Limit(most, "possible: clients / delay")
    return row_chart(uid, title, name, made, keys, caption, "Server", limit)


def row_chart(
    uid: str, title: str, name: str, rows: list[Row],
    keys: list[tuple[str, str]], caption: str, what: str,
    limit: Limit | None = None,
) -> str:
    """Bars of one figure in rows, with legend and table.

    keys: what the legend says of the kinds of bars; what: what a row is.
    """
    every = [bar for row in rows for bar in row.bars]
    ends = [end for bar in every for end in bar.ends(name)]
    most = limit.value if limit else 0.0
    top = max([*ends, most]) or 1.0
    plot = sum(row.height for row in rows)
    drawing = [_grid(name, top, plot)]
    if limit is not None:
        x = svg.percent(most / top)
        drawing.append(svg.line((x, x), (0, plot), "seven-possible"))
    y = 0
    for row in rows:
        drawing.append(_row(row, name, top, y, most))
        y += row.height
    if any(
        spread(bar.point, name) for bar in every
        if not isinstance(bar.point, Several)
    ):
        keys = [*keys, ("spread", "lowest to highest run")]
    if limit is not None:
        keys = [*keys, ("possible", limit.words)]
    words = " ".join(_sentence(row, name) for row in rows)
    return frame(
        uid, title, keys,
        svg.chart(
            uid, title, f"{figure(name).axis}: {words}", plot + AXIS,
            "".join(drawing), "bars",
        ),
        _bars_table(rows, name, what), caption,
    )


def frame(
    uid: str, title: str, keys: list[tuple[str, str]], drawing: str,
    table: str, caption: str,
) -> str:
    """A chart with its title, legend, table and caption. HTML inside."""
    folded = elements.folded("These numbers as a table", table)
    content = elements.legend(keys) + drawing + folded
    return elements.figure(uid, "chart", content, caption, title)


def _grid(name: str, top: float, plot: float) -> str:
    """Lines over a plot from 0 to top, with the numbers below it."""
    parts = []
    for tick in svg.ticks(top):
        x = svg.percent(tick / top)
        parts.append(svg.line((x, x), (0, plot), "seven-grid"))
        parts.append(
            svg.text(
                _tick(name, tick), x=x, y=plot + 17, class_="seven-tick",
                text_anchor="middle" if tick else "start",
            )
        )
    return "".join(parts)


def _tick(name: str, tick: float) -> str:
    if name == "share":
        return f"{100 * tick:.0f} %"
    if name == "peak_memory":
        tick /= 1e6
    return f"{tick:,.4g}" if tick < 1000 else f"{tick:,.0f}"


def _row(row: Row, name: str, top: float, y: int, limit: float) -> str:
    marked = bool(row.server) and row.bars[0].kind == "mark"
    label = f"{row.name}  {row.title}" if row.title else row.name
    if marked:
        label = f"{MARK} {label}"
    parts = [
        svg.text(
            label, x=0, y=y + 15,
            class_="seven-label" + (" seven-label--mark" if marked else ""),
        )
    ]
    y += LABEL
    for bar in row.bars:
        parts.append(_bar(bar, name, top, y, limit))
        y += STEP
    return svg.element(
        "g", "".join(parts), data_server=row.server or None,
        data_height=row.height,
    )


def _bar(bar: Bar, name: str, top: float, y: float, limit: float) -> str:
    found, low_high = value(bar.point, name), spread(bar.point, name)
    height = OWN if bar.kind == "own" else BAR
    middle = y + height / 2
    if found is None:
        why = f"{DASH} {bar.said(name)}"
        return svg.text(
            why, x=0, y=svg.px(middle + 4), class_="seven-value"
        )

    def rect(kind: str, begin: float, end: float) -> str:
        return svg.element(
            "rect", class_=f"seven-{kind}", x=svg.percent(begin / top), y=y,
            height=height, width=svg.percent((end - begin) / top),
        )

    parts = [rect(bar.kind, 0, found)]
    words = figure(name).write(found)
    if isinstance(bar.point, Several):
        if low_high is not None:
            parts.append(rect("band", *low_high))
    else:
        words += " yours" if bar.kind == "own" else ""
        if low_high is not None:
            low, high = (svg.percent(end / top) for end in low_high)
            for x, half in (((low, high), 0), ((low, low), 3),
                            ((high, high), 3)):  # fmt: skip
                ends = (middle - half, middle + half)
                parts.append(svg.line(x, ends, "seven-spread"))
    end = max(bar.ends(name))
    if limit * 0.6 < end < limit:
        end = limit  # or the number would lie across that line
    label = svg.text(words, x=7, y=4, class_="seven-value")
    return "".join(parts) + svg.at(svg.percent(end / top), middle, label)


def _sentence(row: Row, name: str) -> str:
    """What a screen reader says of a row."""
    if len(row.bars) == 1:
        return f"{row.name} {row.bars[0].said(name)};"
    said = [f"{bar.which} {bar.said(name)}" for bar in row.bars]
    return f"{row.name} {', '.join(said)};"


def _bars_table(rows: list[Row], name: str, what: str) -> str:
    """A row for each bar."""
    several = any(len(row.bars) > 1 for row in rows)
    head = [what, *(["Which"] if several else []), figure(name).axis]
    body = []
    for row in rows:
        for bar in row.bars:
            low_high = spread(bar.point, name)
            ends = map(figure(name).write, low_high or ())
            cells = [cell(bar.point, name, False), *(list(ends) or [DASH] * 2)]
            if several:
                cells.insert(0, bar.which)
            body.append([escape(each) for each in (row.name, *cells)])
    return elements.table(
        [*head, "Lowest run", "Highest run"], body, "",
        [row.server for row in rows for _ in row.bars],
    )


# The sweep -----------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One server in a sweep, points in the order of clients."""

    server: Server
    points: list[Point]
    own: list[Point] = field(default_factory=list)

    @property
    def style(self) -> str:
        """The classes of what is drawn of it."""
        variant = self.server.path.name != "server.py"
        end = " seven-variant" if variant else ""
        return f"seven-line seven-step{self.server.step}{end}"

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
        ends = [rate for p in points for rate in (_rate(p), *values(p, RATE))]
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
        axis, tick = "seven-tick seven-axis", "seven-tick"
        parts = [
            svg.text("requests/s", x=-50, y=-6, class_=axis),
            svg.text(
                "clients at once", x="100%", y=HEIGHT + 38,
                text_anchor="end", class_=axis,
            ),
        ]
        for rate in svg.powers(self.low, self.high, 10):
            y = self.y(rate)
            parts.append(svg.line(("0", "100%"), (y, y), "seven-grid"))
            parts.append(
                svg.text(
                    f"{rate:,.0f}", x=-12, y=svg.px(y + 4),
                    text_anchor="end", class_=tick,
                )
            )
        for clients in svg.powers(1, self.clients, 8):
            x = self.x(clients)
            parts.append(svg.line((x, x), (0, HEIGHT), "seven-grid"))
            parts.append(
                svg.text(
                    f"{clients:,.0f}", x=x, y=HEIGHT + 18,
                    text_anchor="middle", class_=tick,
                )
            )
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
    keys = [("ideal", "possible: clients / delay")]
    if any(line.own for line in lines):
        if len(data.beside()) == 1:
            keys.append(("ownline", "yours"))
        else:
            keys.append(("ownline", f"{data.who()}: median"))
            keys.append(("band", "the lowest to the highest of them"))
    if notes:
        keys.append(("end", "the line ends here, the reason is below"))
    chart = svg.chart(
        uid, title, " ".join(words), HEIGHT + 46, "".join(drawing), "sweep"
    )
    if notes:
        chart += f'<ul class="seven-notes">{"".join(notes)}</ul>'
    return frame(uid, title, keys, chart, _sweep_table(lines), caption)


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
                + svg.text(
                    line.server.name, x=30, y=4, class_="seven-value"
                ),
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
