"""The lab about copies: a chart of MB/s, and where the time goes.

The data are docs/data/labs-frames, of ``./bench.sh labs frames``: its
points are variants of 06_asyncio/lab_frames.py on an interpreter
("newest"), in a shape ("two processes"), and perhaps with huge pages.
"""

import json
from dataclasses import dataclass
from html import escape
from typing import Any

from tools.data.results import DATA, Point
from tools.site import charts, experiments, options, svg
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, figure, spread, value
from tools.site.tables import table

RUN = SUITE = "labs-frames"
FIGURE = "mb_per_second"
SHAPES = {"one": "one process", "two": "two processes"}
HUGE = ", huge pages"
IN_C = "C-recv"  # what the line shows
LABEL, BAR, GAP, BETWEEN = 21, 14, 3, 9  # px, from the top of a row down
AXIS = 26  # px below the bars
ROOM = 0.03  # part of the width that a spread may need beyond its bar
TOP = 3  # functions of a profile that are shown


@dataclass(frozen=True)
class Row:
    """A variant: with the usual pages, and with huge ones."""

    name: str
    usual: Point
    huge: Point | None

    @property
    def points(self) -> list[Point]:
        """Those there are; one is enough to say why there are none."""
        if self.huge is None or self.usual.status != "ok":
            return [self.usual]
        return [self.usual, self.huge]

    @property
    def height(self) -> int:
        """Pixels of its name and its bars."""
        return LABEL + len(self.points) * (BAR + GAP) + BETWEEN


def _render(text: str, md: Any) -> str:
    """A chart, or with ``show: profile`` a table of functions.

    part: oldest, newest or libraries; shape: one or two; variants: which,
    in this order (default: all, as measured).
    """
    chosen = options.parse(
        text, ["title", "part", "shape"], ["variants", "show", "caption"]
    )
    if chosen["shape"] not in SHAPES:
        raise SiteError(f"shape is one or two, not {chosen['shape']!r}")
    where = f"{chosen['part']}, {SHAPES[chosen['shape']]}"
    words = chosen.get("variants", "")
    names = [word.strip() for word in words.split(",") if word.strip()]
    show = chosen.get("show", "chart")
    ident = uid(md, "frames", show, where)
    if show == "profile":
        return _profile(ident, chosen, where, names)
    if show != "chart":
        raise SiteError(f"show is chart or profile, not {show!r}")
    return _chart(ident, chosen, where, names)


def rows(where: str, names: list[str]) -> list[Row]:
    """The variants measured in one way. Raises SiteError for a gap."""
    points = experiments.run(RUN).suite(SUITE)
    usual = {p.server: p for p in points if p.variant == where}
    huge = {p.server: p for p in points if p.variant == where + HUGE}
    if not usual:
        there = ", ".join(sorted({repr(p.variant) for p in points}))
        raise SiteError(f"{RUN} has nothing in {where!r}; there are {there}")
    for name in names:
        if name not in usual:
            raise SiteError(f"{RUN} has no {name!r} in {where!r}")
    return [Row(n, usual[n], huge.get(n)) for n in names or usual]


def in_c(where: str) -> float | None:
    """MB/s of the echo in C, with usual pages; None in one process."""
    shape = where.partition(", ")[2]
    for point in experiments.run(RUN).suite(SUITE, IN_C):
        if point.variant == f"C, {shape}":
            return value(point, FIGURE)
    return None


# The chart ----------------------------------------------------------------


def _chart(
    ident: str, chosen: dict[str, str], where: str, names: list[str]
) -> str:
    title = chosen["title"]
    found = rows(where, names)
    points = [point for row in found for point in row.points]
    mark = in_c(where)
    ends = [mark or 0.0]
    for point in points:
        ends += [value(point, FIGURE) or 0.0, *(spread(point, FIGURE) or ())]
    if not any(ends):
        raise SiteError(f"{RUN} has no speed in {where!r}")
    top = max(ends) * (1 + ROOM)
    plot = sum(row.height for row in found)
    drawing = [charts.grid(FIGURE, top, plot)]
    if mark is not None:
        x = svg.percent(mark / top)
        drawing.append(
            svg.element(
                "line", class_="seven-possible", x1=x, x2=x, y1=0, y2=plot
            )
        )
    y = 0
    for row in found:
        drawing.append(_row(row, top, y))
        y += row.height
    words = " ".join(_sentence(row) for row in found)
    if mark is not None:
        words += f" {IN_C} {figure(FIGURE).write(mark)};"
    repeats = max(len(point.runs) for point in points)
    caption = experiments.caption(RUN, chosen.get("caption", ""), repeats)
    return charts.frame(
        ident, title, _legend(found, mark),
        svg.chart(
            ident, title, f"{figure(FIGURE).axis}. {words}", plot + AXIS,
            "".join(drawing), "bars",
        ),
        _table(found, mark, title), caption,
    )


def _legend(found: list[Row], mark: float | None) -> str:
    keys = [("bar", "usual pages (4 KiB)")]
    if any(row.huge for row in found):
        keys = [("bar", "upper bar: usual pages"),
                ("mark", "lower bar: huge pages")]
    if any(spread(p, FIGURE) for row in found for p in row.points):
        keys.append(("spread", "slowest to fastest run"))
    if mark is not None:
        keys.append(("possible", f"{IN_C}, usual pages"))
    return charts.legend(keys)


def _row(row: Row, top: float, y: int) -> str:
    parts = [svg.text(row.name, x=0, y=y + 15, class_="seven-label")]
    y += LABEL
    for point, kind in zip(row.points, ("bar", "mark"), strict=False):
        parts.append(_bar(point, top, y, kind))
        y += BAR + GAP
    return "".join(parts)


def _bar(point: Point, top: float, y: int, kind: str) -> str:
    found = value(point, FIGURE)
    if found is None:
        why = f"{DASH} {point.reason or 'not measured'}"
        return svg.text(why, x=0, y=y + 11, class_="seven-value")
    return charts.thin_bar(point, FIGURE, top, y, BAR, kind)


def _sentence(row: Row) -> str:
    said = [_speed(row.usual)]
    if row.huge:
        said.append(f"with huge pages {_speed(row.huge)}")
    return f"{row.name} {', '.join(said)};"


def _speed(point: Point) -> str:
    found = value(point, FIGURE)
    if found is None:
        return point.reason or "not measured"
    return figure(FIGURE).write(found)


def _table(found: list[Row], mark: float | None, title: str) -> str:
    head = ["Variant", "MB/s", "Slowest run", "Fastest run"]
    if any(row.huge for row in found):
        head += [f"{name}, huge pages" for name in head[1:]]
    body = []
    for row in found:
        cells = [cell for point in row.points for cell in _cells(point)]
        cells += [DASH] * (len(head) - 1 - len(cells))
        body.append([escape(cell) for cell in (row.name, *cells)])
    if mark is not None:
        rest = [DASH] * (len(head) - 2)
        body.append([IN_C, figure(FIGURE).write(mark), *rest])
    return table(head, body, title)


def _cells(point: Point) -> list[str]:
    low_high = spread(point, FIGURE)
    if low_high is None:
        return [_speed(point), DASH, DASH]
    return [_speed(point), *map(figure(FIGURE).write, low_high)]


# Where the time goes ------------------------------------------------------


def _profile(
    ident: str, chosen: dict[str, str], where: str, names: list[str]
) -> str:
    """The functions that took most of each variant's time."""
    file = DATA / RUN / "profile.json"
    try:
        known = json.loads(file.read_text(encoding="utf-8"))[where]
        found = {name: known[name] for name in names or known}
        body = [
            [f"<strong>{escape(name)}</strong>", *_functions(functions)]
            for name, functions in found.items()
        ]
    except OSError as error:
        raise SiteError(f"{file.name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(f"{file.name} has no {error} in {where!r}") from error
    head = ["Variant", *("First", "Second", "Third")[:TOP]]
    caption = experiments.caption(RUN, chosen.get("caption", ""), 1)
    return (
        f'<figure class="seven-measured" id="{ident}" data-search-exclude>'
        f'<p class="seven-title">{escape(chosen["title"])}</p>'
        f"{table(head, body, chosen['title'])}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _functions(functions: list[list[Any]]) -> list[str]:
    cells = [
        f"{100 * share:.0f}&nbsp;% <code>{escape(name)}</code>"
        for name, share in functions[:TOP]
    ]
    return cells + [DASH] * (TOP - len(cells))


frames = fence(_render)
