"""The lab about the GIL as a chart: a row an interpreter, two bars each.

The upper bar is the run on one CPU, the lower one that on two. The data
are docs/data/labs-gil, of ``./bench.sh labs gil``.
"""

from dataclasses import dataclass
from html import escape
from typing import Any

from tools.data.results import Point
from tools.site import charts, experiments, options, svg
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, figure, spread, value
from tools.site.tables import table

RUN = SUITE = "labs-gil"
# Variant of a point -> class of its bar, and what the legend says.
BARS = {
    "1 CPU": ("bar", "upper bar: one CPU"),
    "2 CPUs": ("mark", "lower bar: two CPUs"),
}
LABEL = 21  # px of the interpreter's name
BAR = 14
GAP = 4  # px between two bars
BETWEEN = 10  # px between two interpreters
AXIS = 26  # px below the bars
ROOM = 0.03  # part of the width that a spread may need beyond its bar


@dataclass(frozen=True)
class Row:
    """An interpreter with its points, by the number of CPUs."""

    name: str
    points: dict[str, Point]

    @property
    def label(self) -> str:
        """Its name, and whether it has no GIL."""
        free = any(known(point, "gil") == 0 for point in self.points.values())
        return f"Python {self.name}" + (", no GIL" if free else "")

    @property
    def height(self) -> float:
        """Pixels of its name and its bars."""
        return LABEL + len(self.points) * (BAR + GAP) + BETWEEN


def known(point: Point, name: str) -> float | None:
    """A figure that no table shows; None if it was not measured."""
    try:
        return point.median(name)
    except KeyError:
        return None


def rows() -> list[Row]:
    """The interpreters in the order they were measured, oldest first."""
    found: dict[str, Row] = {}
    for point in experiments.run(RUN).suite(SUITE):
        if point.variant not in BARS:
            raise SiteError(f"{RUN} has a point on {point.variant!r}")
        row = found.setdefault(point.server, Row(point.server, {}))
        row.points[point.variant] = point
    if not found:
        raise SiteError(f"{RUN} has no points")
    return list(found.values())


def _render(text: str, md: Any) -> str:
    """One figure of the lab, of all interpreters."""
    chosen = options.parse(text, ["figure", "title"], ["caption"])
    name, title = chosen["figure"], chosen["title"]
    found = rows()
    points = [point for row in found for point in row.points.values()]
    if all(value(point, name) is None for point in points):
        raise SiteError(f"{RUN} has no {name}")
    ident = uid(md, "gil", name)
    repeats = max(len(point.runs) for point in points)
    words = [chosen["caption"]] if "caption" in chosen else []
    if repeats > 1:
        words.append(f"Medians of {repeats} runs.")
    caption = experiments.caption(RUN, " ".join(words), 1)
    return charts.frame(
        ident, title, _legend(points, name),
        _chart(ident, title, found, name), _table(found, name, title),
        caption,
    )


def _legend(points: list[Point], name: str) -> str:
    variants = {point.variant for point in points}
    keys = [BARS[variant] for variant in BARS if variant in variants]
    if any(spread(point, name) for point in points):
        keys.append(("spread", "lowest to highest run"))
    return charts.legend(keys)


def _chart(ident: str, title: str, found: list[Row], name: str) -> str:
    ends = [
        number
        for row in found
        for point in row.points.values()
        for number in (value(point, name), *(spread(point, name) or ()))
        if number is not None
    ]
    top = (max(ends) or 1.0) * (1 + ROOM)
    plot = sum(row.height for row in found)
    drawing = [charts.grid(name, top, plot)]
    y = 0.0
    for row in found:
        drawing.append(_row(row, name, top, y))
        y += row.height
    words = " ".join(_sentence(row, name) for row in found)
    axis = figure(name).axis
    return svg.chart(
        ident, title, f"{axis}. {words}", plot + AXIS, "".join(drawing),
        "bars",
    )


def _row(row: Row, name: str, top: float, y: float) -> str:
    parts = [
        svg.text(row.label, x=0, y=f"{y + 15:g}", class_="seven-label")
    ]
    y += LABEL
    for variant, point in row.points.items():
        parts.append(_bar(point, name, top, y, BARS[variant][0]))
        y += BAR + GAP
    return "".join(parts)


def _bar(
    point: Point, name: str, top: float, y: float, kind: str
) -> str:
    found = value(point, name)
    if found is None:
        why = point.reason or "not measured"
        return svg.text(
            f"{DASH} {point.variant}: {why}", x=0, y=f"{y + 11:g}",
            class_="seven-value",
        )
    return charts.thin_bar(point, name, top, y, BAR, kind)


def _sentence(row: Row, name: str) -> str:
    said = []
    for variant, point in row.points.items():
        found = value(point, name)
        words = point.reason or "not measured"
        if found is not None:
            words = figure(name).write(found)
        said.append(f"{words} on {variant}")
    return f"{row.label}: {', '.join(said)};"


def _table(found: list[Row], name: str, title: str) -> str:
    head = ["Interpreter", "On", figure(name).axis, "Lowest run",
            "Highest run"]
    body = []
    for row in found:
        for variant, point in row.points.items():
            write = figure(name).write
            middle = value(point, name)
            cells = [DASH if middle is None else write(middle)]
            cells += [write(n) for n in spread(point, name) or ()]
            cells += [DASH] * (3 - len(cells))
            body.append([escape(c) for c in (row.label, variant, *cells)])
    return table(head, body, title)


gil = fence(_render)
