"""Figures by name: what they are called, their unit, how they are written."""

import statistics
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.data.results import Point
from tools.site.data import Several
from tools.site.errors import SiteError

DASH = "\u2013"

# Ways of writing a number --------------------------------------------------

plain = "{:.0f}".format  # a whole number that counts nothing: no commas
nearest = "{:,.0f}".format
nearest_ms = "{:,.0f} ms".format
tenths = "{:,.1f}".format
cores = "{:.2f}".format  # CPU seconds per second
size = "{:,.0f} bytes".format
of_hundred = "{:.0f} %".format  # a part that is given in percent already


def _by_size(
    *limits: tuple[float, int], unit: str = "", per: float = 1
) -> Callable[[float], str]:
    """The larger a number, the fewer of its digits mean something.

    limits: below which size how many digits stand behind the point; per:
    how much one unit is.
    """

    def write(value: float) -> str:
        value /= per
        digits = next((many for limit, many in limits if value < limit), 0)
        return f"{value:,.{digits}f}{unit}"

    return write


rate = _by_size((10, 2), (1000, 1))  # and other counts per something
times = _by_size((2, 2), (10, 1))  # how many times as much
milliseconds = _by_size((0.1, 3), (10, 2), unit=" ms")
seconds = _by_size((100, 1), unit=" s")
megabytes = _by_size((100, 1), unit=" MB", per=1e6)


def count(value: float) -> str:
    """A whole number; the median of two runs may end in a half."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def microseconds(value: float) -> str:
    """A time given in ms, as µs: for what takes a few of them."""
    return f"{value * 1000:,.1f} µs"


def latency(value: float) -> str:
    """A time that ab measured; it knows whole milliseconds only."""
    return "under 1 ms" if value < 1 else f"{value:,.0f} ms"


def percent(value: float) -> str:
    """A part of one, never rounded up to the whole."""
    return f"{min(100 * value, 99.9 if value < 1 else 100):.1f} %"


# The figures ---------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """How a figure is called and written."""

    label: str
    write: Callable[[float], str]
    axis: str = ""  # what the axis of a chart says


FIGURES = {
    name: Figure(label, globals()[write], *axis)
    for name, (label, write, *axis) in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}


def figure(name: str) -> Figure:
    """How to write the figure of that name."""
    try:
        return FIGURES[name]
    except KeyError:
        known = ", ".join(FIGURES)
        raise SiteError(
            f"no figure is called {name!r}; there are {known}"
        ) from None


def values(point: Point, name: str) -> list[float]:
    """A figure of each good run; of several people, a median of each."""
    if isinstance(point, Several):
        each = (value(one, name) for one in point.points)
        return [found for found in each if found is not None]
    if name == "possible":
        return [] if point.possible is None else [point.possible]
    if name == "failures":
        good = [run for run in point.runs if run.error is None]
        return [float(sum(r.failed + r.non_2xx for r in good))] if good else []
    if name == "share":
        rates = point.values("requests_per_second")
        return [r / point.possible for r in rates] if point.possible else []
    try:
        same = {"cpu_us": "cpu_ms"}.get(name, name.removeprefix("fine_"))
        return point.values(same)
    except KeyError:  # only some runs of an experiment have it
        return []


def value(point: Point, name: str) -> float | None:
    """A figure of a point, the median of `values`; None: not measured."""
    figure(name)
    found = values(point, name)
    return statistics.median(found) if found else None


def spread(point: Point, name: str) -> tuple[float, float] | None:
    """The lowest and the highest of `values`, None for fewer than two."""
    found = values(point, name)
    return (min(found), max(found)) if len(found) > 1 else None


def required(point: Point, name: str) -> float:
    """A figure of the reference: that it is missing is an error."""
    found = value(point, name)
    if found is None:
        why = f" ({point.status}: {point.reason})" if point.reason else ""
        raise SiteError(
            f"the reference has no {name} of {point.server} in "
            f"{point.suite} with {point.clients} clients{why}"
        )
    return found


def cell(point: Point | None, name: str, spread_too: bool = True) -> str:
    """A figure for a table, its spread below it in small; DASH: none."""
    found = None if point is None else value(point, name)
    if point is None or found is None:
        return DASH
    write = figure(name).write
    low_high = spread(point, name) if spread_too else None
    if low_high is None or write(low_high[0]) == write(low_high[1]):
        return write(found)
    low, high = map(write, low_high)
    _, space, unit = high.rpartition(" ")  # the unit once: "5.1 to 5.4 µs"
    low = low.removesuffix(space + unit) if space else low
    return f"{write(found)}<br><small>{low} to {high}</small>"
