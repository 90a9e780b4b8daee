"""The lab "Beyond one machine": bars, tables, lines over seconds.

::

    title: More hosts, more requests
    part: scale
    figure: answered_per_second
    rows: threads = 03-pool[waits, 10 threads, {bar}]; computing = ...
    bars: 1 host; 2 hosts; 3 hosts
    caption: What else to say.

The data are docs/data/hosts, of ``./bench.sh hosts``. Each of ``rows``
(semicolons between) has a name and says how its points are called: server
and variant, with a place for each of ``bars``, if there are any. Instead,
``point: {row}[{bar}]`` says it for all rows.
``show: table`` makes cells of the bars; ``show: seconds`` draws, for up to
three rows, the good responses over time.
"""

import itertools
from html import escape
from typing import Any

from tools.data.results import Point
from tools.site import charts, elements, experiments, svg
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import cell
from tools.site.sweep_chart import SHAPES

RUN = "hosts"
GOOD, SENT = "good", "sent"  # series of a run: a number for each second
STEPS = (3, 5, 6)  # whose colours and shapes the lines have
MARKS = 14  # shapes of a line, so that a phone has room for them
HEIGHT, AXIS = 240, 46  # px of the plot of seconds, and below it
LETTER = 16  # px from one line's letter to the next


def _render(chosen: dict[str, str], md: Any) -> str:
    """Bars, a table or seconds; see the top of this file."""
    kinds = {"bars": _bars, "table": _table, "seconds": _seconds}
    show = chosen.get("show", "bars")
    if show not in kinds:
        raise SiteError(f"show is {', '.join(kinds)}, not {show!r}")
    ident = uid(md, "hosts", chosen["part"], show, chosen["title"])
    suite, found = f"hosts-{chosen['part']}", {}
    for each in _listed(chosen, "rows"):
        row, _, point = each.partition(" = ")
        point = point or chosen.get("point", "{row}")
        found[row] = {
            bar: experiments.find(
                RUN, point.format(row=row, bar=bar), suite, None
            )
            for bar in _listed(chosen, "bars")
        }
    return kinds[show](ident, chosen, found)


hosts = fence(
    _render, "title part rows", "figure show point bars what caption"
)

Found = dict[str, dict[str, Point]]  # row -> bar -> its point


def _listed(chosen: dict[str, str], key: str) -> list[str]:
    return [word.strip() for word in chosen.get(key, "").split(";")]


def _caption(chosen: dict[str, str]) -> str:
    return experiments.caption(RUN, chosen.get("caption", ""))


def _bars(ident: str, chosen: dict[str, str], found: Found) -> str:
    """A row of bars each."""
    rows = [
        charts.Row(name, [charts.Bar(p, "bar", b) for b, p in bars.items()])
        for name, bars in found.items()
    ]
    names = _listed(chosen, "bars")
    keys = [("bar", f"from above: {', '.join(names)}")] * any(names)
    return charts.row_chart(
        ident, chosen["title"], chosen["figure"], rows, keys,
        _caption(chosen), chosen.get("what", "What"),
    )


def _table(ident: str, chosen: dict[str, str], found: Found) -> str:
    """A figure in each cell."""
    head = [chosen.get("what", "What"), *_listed(chosen, "bars")]
    body = [
        [escape(row), *(cell(p, chosen["figure"]) for p in bars.values())]
        for row, bars in found.items()
    ]
    return elements.figure(
        ident, "measured", elements.table(head, body, chosen["title"]),
        _caption(chosen), chosen["title"],
    )


# Seconds ------------------------------------------------------------------


def _seconds(ident: str, chosen: dict[str, str], found: Found) -> str:
    """What came, and what was answered well, in each second."""
    lines = {row: _series(bars[""], GOOD) for row, bars in found.items()}
    sent = _series(next(iter(found.values()))[""], SENT)
    every = {"Requests": sent, **lines}
    top = max(1.0, *itertools.chain(*every.values()))
    drawing = [_grid(top, len(sent)), _line(sent, top, "seven-possible")]
    keys = [("ideal", "requests that came")]
    for number, (name, good) in enumerate(lines.items()):
        step, letter = STEPS[number], "ABC"[number]
        shape = svg.element("path", d=SHAPES[step])
        label = svg.label(letter, 8 + LETTER * number, 4, "value")
        drawn = _line(good, top) + "".join(
            svg.at(_x(second, good), _y(good[second], top), shape)
            for second in range(0, len(good), -(-len(good) // MARKS))
        ) + svg.at("100%", _y(good[-1], top), label)
        kind = f"line seven-step{step}"
        drawing.append(svg.element("g", drawn, class_=f"seven-{kind}"))
        keys.append((kind, f"{letter}: {name}"))
    words = " ".join(
        f"{name}, in each second: {', '.join(f'{n:g}' for n in numbers)}."
        for name, numbers in every.items()
    )
    body = [
        [f"{number:g}" for number in (second, *numbers)]
        for second, numbers in enumerate(zip(*every.values(), strict=True))
    ]
    return charts.frame(
        ident, chosen["title"], keys,
        svg.chart(
            ident, chosen["title"], words, HEIGHT + AXIS, "".join(drawing),
            "sweep",
        ),
        elements.table(["Second", *map(escape, every)], body),
        _caption(chosen),
    )


def _series(point: Point, name: str) -> list[float]:
    """A number for each second. Raises SiteError if there is none."""
    for run in point.runs:
        if run.series.get(name):
            return run.series[name]
    raise SiteError(
        f"{RUN} has no seconds of {experiments.label(point)}: "
        f"{point.reason or 'measure again'}"
    )


def _x(second: float, numbers: list[float]) -> str:
    """The middle of a second."""
    return svg.percent((second + 0.5) / len(numbers))


def _y(many: float, top: float) -> float:
    return round(HEIGHT * (1 - many / top), 1)


def _line(numbers: list[float], top: float, kind: str | None = None) -> str:
    return "".join(
        svg.line(
            (_x(second, numbers), _x(second + 1, numbers)),
            (_y(here, top), _y(there, top)), kind,
        )
        for second, (here, there) in enumerate(itertools.pairwise(numbers))
    )


def _grid(top: float, long: int) -> str:
    """Lines with their numbers, and what the numbers are."""
    axis = "tick seven-axis"
    parts = [
        svg.label("answers/s", -50, -10, axis),
        svg.label("seconds", "100%", HEIGHT + 36, axis, "end"),
    ]
    for many in svg.ticks(top):
        y = _y(many, top)
        parts.append(svg.line(("0", "100%"), (y, y), "seven-grid"))
        parts.append(svg.label(f"{many:g}", -12, y + 4, "tick", "end"))
    parts += [
        svg.column(svg.percent(second / long), HEIGHT, f"{second:g}")
        for second in svg.ticks(long)
    ]
    return "".join(parts)
