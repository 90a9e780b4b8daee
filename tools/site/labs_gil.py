"""The lab about the GIL as a chart: a row an interpreter, two bars each.

The upper bar is the run on one CPU, the lower one that on two. The data
are docs/data/labs-gil, of ``./bench.sh labs gil``.
"""

from typing import Any

from tools.data.results import Point
from tools.site import charts, experiments
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import value, values

RUN = SUITE = "labs-gil"
# Variant of a point -> class of its bar, and what the legend says.
BARS = {
    "1 CPU": ("bar", "upper bar: one CPU"),
    "2 CPUs": ("mark", "lower bar: two CPUs"),
}


def _render(chosen: dict[str, str], md: Any) -> str:
    """One figure of the lab, of all interpreters, oldest first."""
    name = chosen["figure"]
    points = experiments.points(RUN, SUITE)
    if all(value(point, name) is None for point in points):
        raise SiteError(f"{RUN} has no {name}")
    rows: dict[str, charts.Row] = {}
    for point in points:
        if point.variant not in BARS:
            raise SiteError(f"{RUN} has a point on {point.variant!r}")
        row = rows.setdefault(
            point.server, charts.Row(_label(point.server, points), [])
        )
        kind, _ = BARS[point.variant]
        row.bars.append(charts.Bar(point, kind, point.variant))
    there = {point.variant for point in points}
    keys = [key for variant, key in BARS.items() if variant in there]
    repeats = max(len(point.runs) for point in points)
    words = [chosen["caption"]] if "caption" in chosen else []
    if repeats > 1:
        words.append(f"Medians of {repeats} runs.")
    return charts.row_chart(
        uid(md, "gil", name), chosen["title"], name, list(rows.values()),
        keys, experiments.caption(RUN, " ".join(words)), "Interpreter",
    )


def _label(name: str, points: list[Point]) -> str:
    """An interpreter's name, and whether it has no GIL."""
    free = any(0 in values(p, "gil") for p in points if p.server == name)
    return f"Python {name}" + (", no GIL" if free else "")


gil = fence(_render, "figure title", "caption")
