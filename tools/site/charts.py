"""Charts as inline SVG: bars for one load, lines for the sweep.

Every shape has a class and no colour; docs/assets/seven.css gives colours
for light, dark and print. No script is needed.

What a chart shows of the reference stands in its figure's data-chart too,
as JSON: docs/assets/compare.js draws it again from that, by the same rules,
with fewer servers or beside other results. A test holds the two together.
"""

import itertools
import json
import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

from tools.data.results import Point
from tools.servers import Server
from tools.site import svg
from tools.site.figures import DASH, figure, required, spread, value
from tools.site.tables import table

ROW = 42  # px of a bar with its label
OWN_ROW = 15  # px more for the reader's bar
AXIS = 26  # px below the bars
MARK = "\u25b8"  # before the name of the page's own server
SWEEP_HEIGHT = 380  # px of the sweep's plot
LABEL_GAP = 17  # px between the names at the right of a sweep


@dataclass(frozen=True)
class Bar:
    """One server in a bar chart: the reference and the reader's point."""

    server: Server
    point: Point
    own: Point | None = None


@dataclass(frozen=True)
class Line:
    """One server in a sweep, points in the order of clients."""

    server: Server
    points: list[Point]
    own: list[Point] = field(default_factory=list)


def frame(
    uid: str, title: str, legend: str, drawing: str, data: str, caption: str,
    told: dict[str, Any] | None = None,
) -> str:
    """A chart with its title, legend, table and caption. HTML inside.

    told: what the chart is made from, if a script may draw it anew.
    """
    chart = ""
    if told is not None:
        made_from = json.dumps({"title": title, **told}, ensure_ascii=False)
        chart = f' data-chart="{escape(made_from)}"'
    return (
        f'<figure class="seven-chart" id="{uid}" data-search-exclude{chart}>'
        f'<p class="seven-title">{escape(title)}</p>'
        f"{legend}{drawing}"
        '<details class="seven-data"><summary>These numbers as a table'
        f"</summary>{data}</details>"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def legend(keys: list[tuple[str, str]]) -> str:
    """Swatches with their meaning; class suffix and text of each."""
    items = "".join(
        f'<span><span class="seven-key seven-key--{kind}"></span>'
        f"{escape(text)}</span>"
        for kind, text in keys
    )
    return f'<p class="seven-legend">{items}</p>'


def bars(
    uid: str, title: str, name: str, rows: list[Bar], mark: str | None,
    caption: str, clients: int | None = None,
) -> str:
    """A bar a server, the one called mark set off as this step.

    clients: the load that was asked for, None if any.
    """
    known = [
        v
        for row in rows
        for point in (row.point, row.own)
        if point is not None
        for v in (value(point, name), *(spread(point, name) or ()))
        if v is not None
    ]
    possible = _common_possible(rows) if _is_rate(name) else None
    top = max([*known, possible or 0]) or 1.0
    with_own = any(row.own is not None for row in rows)
    step = ROW + (OWN_ROW if with_own else 0)
    plot = 4 + step * len(rows)
    drawing = [grid(name, top, plot)]
    if possible is not None:
        x = svg.percent(possible / top)
        drawing.append(
            svg.element(
                "line", class_="seven-possible", x1=x, x2=x, y1=0, y2=plot
            )
        )
    for number, row in enumerate(rows):
        drawing.append(
            _bar(row, name, top, 4 + number * step, mark, possible)
        )
    words = []
    for row in rows:
        words.append(_sentence(row.server, row.point, name, ""))
        if row.own is not None:
            words.append(_sentence(row.server, row.own, name, "yours "))
    keys = [("bar", "reference")]
    if mark is not None:
        keys.insert(0, ("mark", f"{MARK} this step"))
    if with_own:
        keys.append(("own", "yours"))
    if any(spread(row.point, name) for row in rows):
        keys.append(("spread", "slowest to fastest run"))
    if possible is not None:
        keys.append(("possible", "possible: clients / delay"))
    return frame(
        uid,
        title,
        legend(keys),
        svg.chart(
            uid, title, " ".join(words), plot + AXIS, "".join(drawing), "bars"
        ),
        _bars_table(rows, name, with_own),
        caption,
        {
            "kind": "bars", "suite": rows[0].point.suite, "clients": clients,
            "figure": name, "axis": figure(name).axis, "mark": mark,
            "possible": possible,
            "rows": [
                {
                    "server": row.server.name, "title": row.server.title,
                    "value": value(row.point, name),
                    "spread": spread(row.point, name),
                    "reason": row.point.reason,
                }
                for row in rows
            ],
        },
    )


def _bar(
    row: Bar, name: str, top: float, y: float, mark: str | None,
    limit: float | None,
) -> str:
    marked = row.server.name == mark
    label = f"{row.server.name}  {row.server.title}"
    if marked:
        label = f"{MARK} {label}"
    kind = "mark" if marked else "bar"
    parts = [
        svg.text(
            label,
            x=0, y=y + 15,
            class_="seven-label" + (" seven-label--mark" if marked else ""),
        ),
        _rectangle(row.point, name, top, y + 21, 14, kind, limit),
    ]
    if row.own is not None:
        own = _rectangle(row.own, name, top, y + 38, 10, "own", limit)
        parts.append(own)
    return svg.element("g", "".join(parts), data_server=row.server.name)


def _rectangle(
    point: Point, name: str, top: float, y: float, height: float, kind: str,
    limit: float | None,
) -> str:
    found = value(point, name)
    if found is None:
        reason = point.reason or "not measured"
        return svg.text(
            f"{DASH} {reason}", x=0, y=svg.px(y + height - 2),
            class_="seven-value",
        )
    end, parts = found, []
    parts.append(
        svg.element(
            "rect", class_=f"seven-{kind}", x=0, y=y, height=height,
            width=svg.percent(found / top),
        )
    )
    low_high = spread(point, name)
    if low_high is not None:
        end = max(end, low_high[1])
        x1, x2 = (svg.percent(v / top) for v in low_high)
        middle = y + height / 2
        parts.append(
            svg.element(
                "line", class_="seven-spread",
                x1=x1, x2=x2, y1=svg.px(middle), y2=svg.px(middle),
            )
        )
        for x in (x1, x2):
            parts.append(
                svg.element(
                    "line", class_="seven-spread", x1=x, x2=x,
                    y1=svg.px(middle - 3), y2=svg.px(middle + 3),
                )
            )
    if limit is not None and limit * 0.6 < end < limit:
        end = limit  # or the number would lie across that line
    words = figure(name).write(found) + (" yours" if kind == "own" else "")
    label = svg.text(
        words, x=7, y=svg.px(height / 2 + 4), class_="seven-value"
    )
    parts.append(svg.at(svg.percent(end / top), y, label))
    return "".join(parts)


def thin_bar(
    point: Point, name: str, top: float, y: float, height: int, kind: str
) -> str:
    """A bar of a measured point, its spread and its number; top: the end.

    y and height in pixels; kind: the suffix of its class.
    """
    found = required(point, name)
    end = found
    parts = [
        svg.element(
            "rect", class_=f"seven-{kind}", x=0, y=f"{y:g}", height=height,
            width=svg.percent(found / top),
        )
    ]
    if low_high := spread(point, name):
        low, end = low_high
        parts += whisker(low / top, end / top, y + height / 2)
    label = svg.text(
        figure(name).write(found), x=7, y=11, class_="seven-value"
    )
    return "".join(parts) + svg.at(svg.percent(end / top), y, label)


def whisker(low: float, high: float, y: float) -> list[str]:
    """A line from one part of the width to another, with its ends."""
    lines = [(low, high, y, y)]
    lines += [(x, x, y - 3, y + 3) for x in (low, high)]
    return [
        svg.element(
            "line", class_="seven-spread", x1=svg.percent(x1),
            x2=svg.percent(x2), y1=f"{y1:g}", y2=f"{y2:g}",
        )
        for x1, x2, y1, y2 in lines
    ]


def grid(name: str, top: float, plot: float) -> str:
    """Lines over a plot from 0 to top, with the numbers below it."""
    parts = []
    for tick in svg.ticks(top):
        x = svg.percent(tick / top)
        anchor = "start" if tick == 0 else "middle"
        parts.append(
            svg.element("line", class_="seven-grid", x1=x, x2=x, y1=0, y2=plot)
            + svg.text(
                _tick(name, tick), x=x, y=plot + 17, text_anchor=anchor,
                class_="seven-tick",
            )
        )
    return "".join(parts)


def _tick(name: str, tick: float) -> str:
    if name == "share":
        return f"{100 * tick:.0f} %"
    if name == "peak_memory":
        tick /= 1e6
    return f"{tick:,.4g}" if tick < 1000 else f"{tick:,.0f}"


def _is_rate(name: str) -> bool:
    return name == "requests_per_second"


def _common_possible(rows: list[Bar]) -> float | None:
    found = {row.point.possible for row in rows}
    return found.pop() if len(found) == 1 else None


def _sentence(server: Server, point: Point, name: str, who: str) -> str:
    found = value(point, name)
    said = point.reason or "not measured"
    if found is not None:
        said = figure(name).write(found)
    return f"{server.name} {who}{said};"


def _bars_table(rows: list[Bar], name: str, with_own: bool) -> str:
    head = ["Server", figure(name).axis, "Lowest run", "Highest run"]
    if with_own:
        head.append("Yours")
    body = []
    for row in rows:
        cells = [row.server.name, *_cells(row.point, name)]
        if with_own:
            cells.append(_cells(row.own, name)[0] if row.own else DASH)
        body.append([escape(cell) for cell in cells])
    return table(head, body, servers=[row.server.name for row in rows])


def _cells(point: Point, name: str) -> list[str]:
    write = figure(name).write
    found, low_high = value(point, name), spread(point, name)
    cells = [DASH if found is None else write(found)]
    if low_high is None:
        return [*cells, DASH, DASH]
    return [*cells, write(low_high[0]), write(low_high[1])]


def sweep(uid: str, title: str, lines: list[Line], caption: str) -> str:
    """Requests/s over clients, both logarithmic, a line a server."""
    axes = _Axes(lines)
    ends = [
        (line, good[-1]) for line in lines if (good := axes.good(line.points))
    ]
    drawing = [axes.grid(), axes.ideal()]
    for line in lines:
        drawing.append(_line(axes, line.server, line.own, own=True))
        drawing.append(_line(axes, line.server, line.points, own=False))
    drawing.append(_names(axes, ends))
    notes = []
    for line, last in ends:
        reason = _end(line.points)
        if reason:
            drawing.append(
                svg.at(
                    axes.x(last), axes.y(last),
                    svg.element("path", class_="seven-end", d=CROSS),
                )
            )
            notes.append(
                f"<li><strong>{line.server.name}</strong> ends at "
                f"{last.clients:,} clients: {escape(reason)}</li>"
            )
    keys = [("ideal", "possible: clients / delay")]
    if any(line.own for line in lines):
        keys.append(("ownline", "yours"))
    if notes:
        keys.append(("end", "the line ends here, the reason is below"))
    words = " ".join(
        f"{line.server.name} reaches {figure('requests_per_second').write(r)}"
        f" requests per second at {last.clients} clients;"
        for line, last in ends
        if (r := last.median("requests_per_second")) is not None
    )
    reasons = f'<ul class="seven-notes">{"".join(notes)}</ul>' if notes else ""
    return frame(
        uid,
        title,
        legend(keys),
        svg.chart(
            uid, title, words, SWEEP_HEIGHT + 46, "".join(drawing), "sweep"
        ) + reasons,
        _sweep_table(lines),
        caption,
        {
            "kind": "sweep", "suite": "sweep",
            "lines": [
                {
                    "server": line.server.name, "step": line.server.step,
                    "variant": line.server.path.name != "server.py",
                    "end": _end(line.points),
                    "points": [
                        {
                            "clients": point.clients, "delay": point.delay,
                            "rate": point.median("requests_per_second"),
                        }
                        for point in line.points
                    ],
                }
                for line in lines
            ],
        },
    )


class _Axes:
    """Both logarithmic axes of a sweep."""

    def __init__(self, lines: list[Line]) -> None:
        points = [
            p for line in lines for p in self.good([*line.points, *line.own])
        ]
        rates = [self.rate(p) for p in points]
        ideal = [p.possible for p in points if p.possible]
        self.clients = max([2, *(p.clients for p in points)])
        self.low = min([*rates, *ideal], default=1.0) / 1.3
        self.high = max([*rates, *ideal], default=10.0) * 1.15
        self.possible = ideal
        self.delay = next((p.delay for p in points if p.delay), None)

    @staticmethod
    def rate(point: Point) -> float:
        return point.median("requests_per_second") or 0.0

    def good(self, points: list[Point]) -> list[Point]:
        return [p for p in points if self.rate(p) > 0]

    def x(self, point: Point) -> str:
        return self._x(point.clients)

    def _x(self, clients: float) -> str:
        return svg.percent(math.log(clients) / math.log(self.clients))

    def y(self, point: Point) -> float:
        return self._y(self.rate(point))

    def _y(self, rate: float) -> float:
        part = math.log(rate / self.low) / math.log(self.high / self.low)
        return round(8 + (SWEEP_HEIGHT - 8) * (1 - part), 1)

    def grid(self) -> str:
        parts = [
            svg.text(
                "requests/s", x=-50, y=-6, class_="seven-tick seven-axis"
            ),
            svg.text(
                "clients at once", x="100%", y=SWEEP_HEIGHT + 38,
                text_anchor="end", class_="seven-tick seven-axis",
            ),
        ]
        for rate in svg.powers(self.low, self.high, 10):
            y = self._y(rate)
            parts.append(
                svg.element(
                    "line", class_="seven-grid", x1=0, x2="100%",
                    y1=svg.px(y), y2=svg.px(y),
                )
                + svg.text(
                    f"{rate:,.0f}", x=-12, y=svg.px(y + 4), text_anchor="end",
                    class_="seven-tick",
                )
            )
        for clients in svg.powers(1, self.clients, 8):
            x = self._x(clients)
            parts.append(
                svg.element(
                    "line", class_="seven-grid", x1=x, x2=x, y1=0,
                    y2=SWEEP_HEIGHT,
                )
                + svg.text(
                    f"{clients:,.0f}", x=x, y=SWEEP_HEIGHT + 18,
                    text_anchor="middle", class_="seven-tick",
                )
            )
        return "".join(parts)

    def ideal(self) -> str:
        if self.delay is None:
            return ""
        return svg.element(
            "line", class_="seven-possible",
            x1=self._x(1), y1=svg.px(self._y(1 / self.delay)),
            x2=self._x(self.clients),
            y2=svg.px(self._y(self.clients / self.delay)),
        )


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


def _style(server: Server) -> str:
    style = f"seven-step{server.step}"
    if server.path.name != "server.py":
        style += " seven-variant"
    return style


def _line(
    axes: _Axes, server: Server, points: list[Point], own: bool
) -> str:
    good = axes.good(points)
    parts = [
        svg.element(
            "line",
            x1=axes.x(one), y1=svg.px(axes.y(one)),
            x2=axes.x(two), y2=svg.px(axes.y(two)),
        )
        for one, two in itertools.pairwise(good)
    ]
    for point in good:
        words = (
            f"{server.name}{', yours' if own else ''}: {point.clients:,} "
            f"clients, {axes.rate(point):,.0f} requests/s"
        )
        parts.append(
            svg.at(
                axes.x(point), axes.y(point),
                svg.element(
                    "path", svg.element("title", escape(words)),
                    d=SHAPES[server.step],
                ),
            )
        )
    kind = " seven-ownline" if own else ""
    return svg.element(
        "g", "".join(parts), class_=f"seven-line {_style(server)}{kind}",
        data_server=server.name,
    )


def _names(axes: _Axes, ends: list[tuple[Line, Point]]) -> str:
    """Each line's name at the right, kept from covering each other."""
    placed = sorted(ends, key=lambda end: axes.y(end[1]))
    wanted = [axes.y(last) for _, last in placed]
    heights: list[float] = []
    for y in wanted:
        heights.append(max(y, heights[-1] + LABEL_GAP) if heights else y)
    over = (heights[-1] - SWEEP_HEIGHT) if heights else 0
    if over > 0:  # push the lowest up, and those in its way
        limit = float(SWEEP_HEIGHT)
        for at in range(len(heights) - 1, -1, -1):
            heights[at] = min(heights[at], limit)
            limit = heights[at] - LABEL_GAP
    parts = []
    for (line, last), y in zip(placed, heights, strict=True):
        parts.append(
            svg.element(
                "line", class_="seven-leader",
                x1=axes.x(last), y1=svg.px(axes.y(last)), x2="100%",
                y2=svg.px(y),
            )
            + svg.at(
                "100%", y,
                svg.element(
                    "g",
                    svg.element("path", d=SHAPES[line.server.step]),
                    class_=f"seven-line {_style(line.server)}",
                    transform="translate(20 0)",
                )
                + svg.text(
                    line.server.name, x=30, y=4, class_="seven-value"
                ),
            )
        )
    return "".join(parts)


def _end(points: list[Point]) -> str:
    """Why a line ends before the others, "" if it does not."""
    for point in points:
        if point.end or point.status == "failed":
            return point.reason or "no reason was recorded"
    return ""


def _sweep_table(lines: list[Line]) -> str:
    clients = sorted({p.clients for line in lines for p in line.points})
    head = ["Clients", "Possible"]
    for line in lines:
        head.append(line.server.name)
        if line.own:
            head.append(f"{line.server.name} yours")
    body = []
    for number in clients:
        row = [f"{number:,}"]
        here = [p for ln in lines for p in ln.points if p.clients == number]
        possible = here[0].possible
        write = figure("requests_per_second").write
        row.append(DASH if possible is None else write(possible))
        for line in lines:
            row.append(_rate_at(line.points, number))
            if line.own:
                row.append(_rate_at(line.own, number))
        body.append(row)
    return table(head, body)


def _rate_at(points: list[Point], clients: int) -> str:
    for point in points:
        rate = point.median("requests_per_second")
        if point.clients == clients and rate is not None:
            return figure("requests_per_second").write(rate)
    return DASH
