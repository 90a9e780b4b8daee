"""Figures by name: what they are called, their unit, how they are written."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

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


def rate(value: float) -> str:
    """Requests per second and other plain counts per something."""
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def count(value: float) -> str:
    """A whole number; the median of two runs may end in a half."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def milliseconds(value: float) -> str:
    """A time in ms with two or three digits that mean something."""
    digits = 3 if value < 0.1 else 2 if value < 10 else 0
    return f"{value:,.{digits}f} ms"


def microseconds(value: float) -> str:
    """A time given in ms, as µs: for what takes a few of them."""
    return f"{value * 1000:,.1f} µs"


def seconds(value: float) -> str:
    """A time in seconds."""
    return f"{value:,.1f} s" if value < 100 else f"{value:,.0f} s"


def latency(value: float) -> str:
    """A time that ab measured; it knows whole milliseconds only."""
    return "under 1 ms" if value < 1 else f"{value:,.0f} ms"


def megabytes(value: float) -> str:
    """A size in memory."""
    size = value / 1e6
    return f"{size:,.0f} MB" if size >= 100 else f"{size:.1f} MB"


def percent(value: float) -> str:
    """A part of one, never rounded up to the whole."""
    return f"{min(int(value * 1000) / 10, 100):.1f} %"


def times(value: float) -> str:
    """How many times as much."""
    if value < 2:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


# The figures ---------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """How a figure is called and written."""

    label: str
    write: Callable[[float], str]
    axis: str = ""  # what the axis of a chart says


FIGURES = {
    "requests_per_second": Figure("Requests/s", rate, "requests per second"),
    "share": Figure("Of possible", percent, "part of clients / delay"),
    "possible": Figure("Possible", rate, "requests per second"),
    "failures": Figure("Failures", count, "failed or not 2xx"),
    "cpu_ms": Figure(
        "CPU per request", milliseconds, "CPU milliseconds per request"
    ),
    "cpu_us": Figure(
        "CPU per request", microseconds, "CPU microseconds per request"
    ),
    "cores": Figure("Cores busy", cores, "CPU seconds per second"),
    "peak_memory": Figure("Peak memory", megabytes, "megabytes at most"),
    "threads": Figure("Threads", count, "threads at most, all processes"),
    "requests": Figure("Requests", count, "complete answers"),
    "seconds": Figure("Seconds", rate, "seconds"),
    "body_bytes": Figure("Body", count, "bytes"),
    "response_bytes": Figure("Response", count, "bytes"),
    "context_switches": Figure("Context switches", count, "switches"),
    "calls_per_request": Figure(
        "System calls per request", rate, "system calls per request"
    ),
    # Of experiments only.
    "connections": Figure("Connections", count),
    "answered": Figure("Answered", count),
    "wrong": Figure("Wrong answers", count),
    "open_seconds": Figure("Time to open them", seconds),
    "first_answer_seconds": Figure("First answer", seconds),
    "answer_seconds": Figure("First to last answer", seconds),
    "needed_seconds": Figure("Needed at least", seconds),
    "user_bytes_per_connection": Figure("Memory per connection", size),
    "requests_answered": Figure("Answered", count),
    "workers_killed": Figure("Workers killed", count),
    "speed_up_times": Figure("Against the first", times),
    "load_cores": Figure("Cores of the load generator", cores),
    "load_limit_per_second": Figure("Its limit on one core", rate),
    # Of recordings only.
    "first": Figure("First answer", latency),
    "last": Figure("Last answer", latency),
    "longest_wait": Figure("Longest wait", latency),
    "peak": Figure("At work at once", count),
    "busy": Figure("Threads that waited at once", count),
    "calls": Figure("System calls", count),
    # Of the lab chain.
    "chain_per_second": Figure("One after the other, fetches/s", rate),
    "chain_cpu_ms": Figure("CPU per fetch", microseconds),
    "chain_end": Figure("The chain ends at", plain),
    # Of the lab frames.
    "mb_per_second": Figure("MB/s", nearest, "megabytes per second"),
    "copies_expected": Figure("Copies expected", tenths),
    "copied_frames": Figure("Copied, frames", tenths),
    "allocated_frames": Figure("Allocated, frames", tenths),
    "allocations_per_frame": Figure("Allocations", nearest),
    "peak_frames": Figure("Memory held, frames", tenths),
    "faults_per_frame": Figure("Page faults", nearest),
    "receives_per_frame": Figure("Receive calls", nearest),
    "sends_per_frame": Figure("Send calls", nearest),
    "user_ms": Figure("CPU, our code", nearest_ms),
    "system_ms": Figure("CPU, kernel", nearest_ms),
    # Of the lab gil.
    "efficiency_times": Figure(
        "Two computing threads, times the work of one", times,
        "times the work of one thread",
    ),
    **{
        f"{name}_per_second": Figure(
            f"{label}, {unit}/s", rate, f"{unit} per second"
        )
        for name, label, unit in (
            ("lock", "Lock", "hand-overs"),
            ("lock_hog", "Lock, beside a hog", "hand-overs"),
            ("condition", "Condition", "hand-overs"),
            ("condition_hog", "Condition, beside a hog", "hand-overs"),
            ("pool_1", "1 client", "requests"),
            ("pool_10", "10 clients", "requests"),
            ("pool_1_hog", "1 client, beside a hog", "requests"),
            ("pool_10_hog", "10 clients, beside a hog", "requests"),
        )
    },
    **{
        f"{name}_ms": Figure(
            label, milliseconds, "milliseconds until the answer"
        )
        for name, label in (
            ("answer", "Answer, alone"),
            ("answer_hog_short", "Beside a hog, short interval"),
            ("answer_hog_usual", "Beside a hog, usual interval"),
            ("answer_hog_long", "Beside a hog, long interval"),
        )
    },
    **{
        name: Figure(label, latency, f"{label}, milliseconds")
        for name, label in {
            "min": "Fastest", "mean": "Mean", "p50": "p50", "p66": "p66",
            "p75": "p75", "p80": "p80", "p90": "p90", "p95": "p95",
            "p98": "p98", "p99": "p99", "max": "Slowest",
        }.items()
    },
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
        return point.values("cpu_ms" if name == "cpu_us" else name)
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
