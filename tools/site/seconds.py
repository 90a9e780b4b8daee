"""Good responses in each second, as inline SVG: a line each, and a table."""

import itertools
from html import escape

from tools.data.results import Point
from tools.site import charts, elements, experiments, svg
from tools.site.errors import SiteError
from tools.site.sweep_chart import SHAPES

STEPS = (3, 5, 6)  # whose colours and shapes the lines have
MARKS = 14  # shapes of a line, so that a phone has room for them
HEIGHT, AXIS = 240, 46  # px of the plot, and below it
LETTER = 16  # px from one line's letter to the next


def chart(
    uid: str, title: str, lines: dict[str, Point], caption: str
) -> str:
    """Up to three lines by their names, and the requests that arrived.

    Raises SiteError if a point has no figures for each second.
    """
    good = {name: _series(point, "good") for name, point in lines.items()}
    sent = _series(next(iter(lines.values())), "sent")
    every = {"Requests": sent, **good}
    top = max(1.0, *itertools.chain(*every.values()))
    drawing = [_grid(top, len(sent)), _line(sent, top, "seven-possible")]
    keys = [("ideal", "requests that arrived")]
    for number, (name, numbers) in enumerate(good.items()):
        step, letter = STEPS[number], "ABC"[number]
        shape = svg.element("path", d=SHAPES[step])
        label = svg.label(letter, 8 + LETTER * number, 4, "value")
        drawn = _line(numbers, top) + "".join(
            svg.at(_x(second, numbers), _y(numbers[second], top), shape)
            for second in range(0, len(numbers), -(-len(numbers) // MARKS))
        ) + svg.at("100%", _y(numbers[-1], top), label)
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
        uid, title, keys,
        svg.chart(uid, title, words, HEIGHT + AXIS, "".join(drawing), "sweep"),
        elements.table(["Second", *map(escape, every)], body), caption,
    )


def _series(point: Point, name: str) -> list[float]:
    for run in point.runs:
        if run.series.get(name):
            return run.series[name]
    raise SiteError(
        f"no seconds of {experiments.label(point)}: "
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
        svg.label("responses/s", -50, -10, axis),
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
