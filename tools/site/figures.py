"""Figures by name: what they are called, their unit, how they are written."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from tools.data.results import Machine, Point, Results
from tools.site import data, race_data
from tools.site.errors import SiteError

DASH = "\u2013"


def rate(value: float) -> str:
    """Requests per second and other plain counts per something."""
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def count(value: float) -> str:
    """A whole number; the median of two runs may end in a half."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def plain(value: float) -> str:
    """A whole number that counts nothing, so without commas."""
    return f"{value:.0f}"


def nearest(value: float) -> str:
    """The nearest whole number."""
    return f"{value:,.0f}"


def nearest_ms(value: float) -> str:
    """A time in ms, where parts of one mean nothing."""
    return f"{value:,.0f} ms"


def tenths(value: float) -> str:
    """A small number with one digit after the point."""
    return f"{value:,.1f}"


def milliseconds(value: float) -> str:
    """A time in ms with two or three digits that mean something."""
    digits = 3 if value < 0.1 else 2 if value < 10 else 0
    return f"{value:,.{digits}f} ms"


def latency(value: float) -> str:
    """A time that ab measured; it knows whole milliseconds only."""
    return "under 1 ms" if value < 1 else f"{value:,.0f} ms"


def cores(value: float) -> str:
    """CPU seconds per second."""
    return f"{value:.2f}"


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


def microseconds(value: float) -> str:
    """A time given in ms, as µs: for what takes a few of them."""
    return f"{value * 1000:,.1f} µs"


def seconds(value: float) -> str:
    """A time in seconds."""
    return f"{value:,.1f} s" if value < 100 else f"{value:,.0f} s"


def size(value: float) -> str:
    """A size in bytes."""
    return f"{value:,.0f} bytes"


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
        f"{name}_per_second": Figure(f"{label}, {unit}/s", rate,
                                     f"{unit} per second")
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
        f"{name}_ms": Figure(label, milliseconds,
                             "milliseconds until the answer")
        for name, label in {
            "answer": "Answer, alone",
            "answer_hog_short": "Beside a hog, short interval",
            "answer_hog_usual": "Beside a hog, usual interval",
            "answer_hog_long": "Beside a hog, long interval",
        }.items()
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


def value(point: Point, name: str) -> float | None:
    """A figure of a point, the median over its runs; None: not measured."""
    figure(name)
    if name == "cpu_us":
        name = "cpu_ms"
    if name == "share":
        return point.share
    if name == "possible":
        return point.possible
    if name == "failures":
        good = [run for run in point.runs if run.error is None]
        return float(sum(r.failed + r.non_2xx for r in good)) if good else None
    try:
        return point.median(name)
    except KeyError:  # only some runs of an experiment have it
        return None


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


def spread(point: Point, name: str) -> tuple[float, float] | None:
    """Lowest and highest run, None if one run or none was made."""
    if name == "cpu_us":
        name = "cpu_ms"
    if name == "share":
        low_high = point.spread("requests_per_second")
        if low_high is None or point.possible is None:
            return None
        low_high = (low_high[0] / point.possible, low_high[1] / point.possible)
        many = len(point.values("requests_per_second")) > 1
    elif name in ("possible", "failures"):
        return None
    else:
        try:
            low_high = point.spread(name)
        except KeyError:  # only some runs of an experiment have it
            return None
        many = len(point.values(name)) > 1
    return low_high if many else None


REFERENCE_RE = re.compile(
    r"""(?:(?P<run>[a-z-]+):)?          # an experiment, or the reference
        (?P<server>[\w.-]+?(?:\[[^]]+\])?)
        \.(?P<suite>[a-z-]+)(?:@(?P<clients>\d+))?
        \.(?P<figure>[a-z_0-9]+)""",
    re.VERBOSE,
)


def _look_up(word: str) -> tuple[float, float | None, str]:
    if word.strip().startswith(race_data.PREFIX):
        found, name = race_data.figure(word.strip())
        return found, None, name
    match = REFERENCE_RE.fullmatch(word.strip())
    if match is None:
        raise SiteError(
            f"{word.strip()!r} is not server.suite.figure or "
            "server.suite@clients.figure"
        )
    clients = int(match["clients"]) if match["clients"] else None
    name = match["figure"]
    if match["run"]:
        # Here, because experiments writes its figures with this module.
        from tools.site import experiments

        point = experiments.find(
            match["run"], match["server"], match["suite"], clients
        )
        return required(point, name), None, name
    where = (match["server"], match["suite"], clients)
    ours = required(data.reference_point(*where), name)
    own = data.own_point(*where)
    return ours, None if own is None else value(own, name), name


def inline(text: str) -> str:
    """A number for a sentence, as HTML.

    ``03.classic.requests_per_second``, ``06.sweep@1024.share``, a ratio
    ``03.classic.p99 / 03.classic.p50``, or ``machine.cores``. The
    reader's own number follows in brackets when there is one. With the
    name of an experiment in front it comes from there:
    ``peers:nginx.peer-keep.cpu_us``, ``scale:07[2 workers].scale.cores``;
    with ``race:`` from a recording: ``race:02.last``. A dash for a sketch
    that was not measured yet.
    """
    text = text.strip()
    for part in text.split("/"):
        named = REFERENCE_RE.fullmatch(part.strip())
        if named and data.not_measured(named["server"], named["suite"]):
            return DASH
    if text.startswith("machine."):
        name = text.removeprefix("machine.")
        fact = escape(machine_fact(data.reference(), name))
        return f"<code>{fact}</code>" if name == "command" else fact
    if "/" in text:
        over, under = (_look_up(part) for part in text.split("/", 1))
        if not under[0]:
            raise SiteError(f"{text!r} divides by zero")
        ours = over[0] / under[0]
        write: Callable[[float], str] = times
        mine = None
        if over[1] is not None and under[1]:
            mine = over[1] / under[1]
    else:
        ours, mine, called = _look_up(text)
        write = figure(called).write
    shown = (
        f'<data class="seven-num" value="{ours:.6g}" '
        f'data-num="{escape(text)}">{write(ours)}</data>'
    )
    if mine is not None:
        shown += f' <span class="seven-yours">(yours {write(mine)})</span>'
    return re.sub(" (ms|µs|%|s|bytes)<", "\u00a0\\1<", shown)


def machine_fact(run: Results, name: str) -> str:
    """One fact about where and how a run was made, as text."""
    machine: Machine = run.machine
    facts = {
        "cpu": machine.cpu,
        "cores": str(machine.cores),
        "memory": f"{machine.memory / 2**30:.1f} GiB",
        "kernel": machine.kernel,
        "python": machine.python,
        "open_files": f"{machine.open_files:,}",
        "date": run.started[:10],
        "commit": run.commit or "no commit",
        "command": run.command,
        "mode": run.mode,
        "minutes": f"{run.seconds / 60:.0f}",
        "load": run.load,
        "tools": ", ".join(f"{k} {v}" for k, v in run.tools.items()),
    }
    try:
        return facts[name]
    except KeyError:
        raise SiteError(
            f"nothing about the machine is called {name!r}; there are "
            + ", ".join(facts)
        ) from None
