"""Charts as inline SVG: bars of one figure, in rows.

Every shape has a class and no colour; docs/assets/seven.css gives colours
for light, dark and print. No script is needed; what hides servers on the
page Compare (docs/assets/compare.js) goes by data-server.
"""

from dataclasses import dataclass
from html import escape
from itertools import accumulate

from markupsafe import Markup

from tools.data.results import Point
from tools.site import data, elements, svg
from tools.site.data import Several
from tools.site.figures import (
    DASH,
    cell,
    count,
    figure,
    spread,
    value,
    values,
)
from tools.site.template import html

LABEL = 21  # px from the top of a row to its first bar
STEP = 17  # px from one bar to the next
BETWEEN = 4  # px more below the row for each of its bars
AXIS = 26  # px below the bars
MARK = "\u25b8"  # before the name of the page's own server
RATE = "requests_per_second"
POSSIBLE = "possible: clients / delay"

Keys = list[tuple[str, str]]  # a legend: of each kind, what it means


@dataclass(frozen=True)
class Bar:
    """A measured point; kind: bar, mark or own; which: its name in words."""

    point: Point
    kind: str = "bar"
    which: str = ""

    @property
    def several(self) -> bool:
        """Is it of several people's results?"""
        return isinstance(self.point, Several)

    def said(self, name: str) -> str:
        """The number in words, or why there is none."""
        found, low_high = value(self.point, name), spread(self.point, name)
        if found is None:
            return self.point.reason or "not measured"
        write = figure(name).write
        if not self.several or low_high is None:
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

    def said(self, name: str) -> str:
        """What a screen reader says of it."""
        one = len(self.bars) == 1
        return ", ".join(
            bar.said(name) if one else f"{bar.which} {bar.said(name)}"
            for bar in self.bars
        )


def beside_keys(kind: str) -> Keys:
    """What the legend says of the results beside the reference."""
    if len(data.beside()) == 1:
        return [(kind, data.who())]
    return [
        (kind, f"{data.who()}: median"),
        ("band", "the lowest to the highest of them"),
    ]


def row_chart(
    uid: str, title: str, name: str, rows: list[Row], keys: Keys,
    caption: str, what: str, limit: tuple[float, str] | None = None,
) -> str:
    """Bars of one figure in rows, with legend and table.

    keys: what the legend says of the kinds of bars; what: what a row is;
    limit: where a dashed line goes across, and what the legend says of it.
    """
    every = [bar for row in rows for bar in row.bars]
    most, meaning = limit or (0.0, "")
    ends = [end for bar in every for end in values(bar.point, name)]
    top = max([*ends, most]) or 1.0
    *above, plot = accumulate((row.height for row in rows), initial=0)
    ticks = [
        (tick, _tick(name, tick)) for tick in svg.ticks(top)
        if figure(name).write is not count or tick == int(tick)
    ]

    def end_of(bar: Bar) -> float:
        """Where its number stands, which no line may cross."""
        end = max(values(bar.point, name))
        return most if most * 0.8 < end < most else end

    drawing = html(
        "bars", rows=list(zip(rows, above, strict=True)), name=name, top=top,
        label=LABEL, step=STEP, mark=MARK, end_of=end_of, value=value,
        spread=spread, write=figure(name).write, plot=plot, ticks=ticks,
        most=most, svg=svg,
    )
    if any(spread(b.point, name) for b in every if not b.several):
        keys = [*keys, ("spread", "lowest to highest run")]
    if most:
        keys = [*keys, ("possible", meaning)]
    words = " ".join(f"{row.name} {row.said(name)};" for row in rows)
    return frame(
        uid, title, keys,
        svg.chart(
            uid, title, f"{figure(name).axis}: {words}", plot + AXIS,
            drawing, "bars",
        ),
        _bars_table(rows, name, what), caption,
    )


def frame(
    uid: str, title: str, keys: Keys, drawing: str, table: str, caption: str
) -> str:
    """A chart with its title, legend, table and caption. HTML inside."""
    content = html(
        "chart", keys=keys, drawing=Markup(drawing), table=Markup(table)
    )
    return elements.figure(uid, "chart", content, caption, title)


def _tick(name: str, tick: float) -> str:
    if name == "share":
        return f"{100 * tick:.0f} %"
    if name == "peak_memory":
        tick /= 1e6
    return f"{tick:,.4g}" if tick < 1000 else f"{tick:,.0f}"


def _bars_table(rows: list[Row], name: str, what: str) -> str:
    """A row for each bar."""
    several = any(len(row.bars) > 1 for row in rows)
    body, servers = [], []
    for row in rows:
        for bar in row.bars:
            write, ends = figure(name).write, spread(bar.point, name)
            words = [row.name, *[bar.which] * several]
            words.append(cell(bar.point, name, False))
            words += map(write, ends) if ends else [DASH, DASH]
            body.append([escape(word) for word in words])
            servers.append(row.server)
    head = [what, *["Which"] * several, figure(name).axis]
    return elements.table(
        [*head, "Lowest run", "Highest run"], body, "", servers
    )
