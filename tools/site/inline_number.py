"""A measured number in a sentence of a page."""

import re
import statistics
from collections.abc import Sequence
from html import escape

from tools.site import data, experiments, race_data
from tools.site.errors import SiteError
from tools.site.figures import DASH, figure, required, times, value
from tools.site.result_tables import machine_fact

REFERENCE_RE = re.compile(
    r"""(?:(?P<run>[a-z-]+):)?          # an experiment, or the reference
        (?P<server>[\w.-]+?(?:\[[^]]+\])?)
        \.(?P<suite>[a-z-]+)(?:@(?P<clients>\d+))?
        \.(?P<figure>[a-z_0-9]+)""",
    re.VERBOSE,
)


Found = tuple[float, str, list[float | None]]


def _number(word: str) -> Found:
    """A number, its name, and the same in each of the results beside it."""
    nowhere: list[float | None] = [None for _ in data.beside()]
    if word.startswith(race_data.PREFIX):
        return *race_data.figure(word), nowhere
    match = REFERENCE_RE.fullmatch(word)
    if match is None:
        raise SiteError(
            f"{word!r} is not server.suite.figure or "
            "server.suite@clients.figure"
        )
    clients = int(match["clients"]) if match["clients"] else None
    where, name = (match["server"], match["suite"], clients), match["figure"]
    if match["run"]:
        point = experiments.find(match["run"], *where)
        return required(point, name), name, nowhere
    others = [run.find(*where) for run in data.beside()]
    return required(data.reference_point(*where), name), name, [
        None if point is None else value(point, name) for point in others
    ]


def inline(text: str) -> str:
    """A number for a sentence, as HTML.

    ``03.classic.requests_per_second``, ``06.sweep@1024.share``, a ratio
    ``03.classic.p99 / 03.classic.p50``, or ``machine.cores``. That of the
    results beside the reference follows in brackets, if there are any.
    With the name of an experiment in front it comes from there:
    ``peers:nginx.peer-keep.cpu_us``, ``scale:07[2 workers].scale.cores``;
    with ``race:`` from a recording: ``race:02.last``. A dash for a sketch
    that was not measured yet. ``100 * ...`` is so many times as much.
    """
    factor, star, rest = text.strip().partition(" * ")
    text, many = (rest, float(factor)) if star else (text.strip(), 1.0)
    if text.startswith("machine."):
        name = text.removeprefix("machine.")
        fact = escape(machine_fact(data.reference(), name))
        return f"<code>{fact}</code>" if name == "command" else fact
    words = [word.strip() for word in text.split(" / ", 1)]
    for named in filter(None, map(REFERENCE_RE.fullmatch, words)):
        if data.not_measured(named["server"], named["suite"]):
            return DASH
    numbers, names, others = zip(*map(_number, words), strict=True)
    ours = _ratio(numbers)
    if ours is None:
        raise SiteError(f"{text!r} divides by zero")
    ours *= many
    write = times if len(words) == 2 else figure(names[0]).write
    shown = f'<data class="seven-num" value="{ours:.6g}">{write(ours)}</data>'
    theirs = [
        many * each for run in zip(*others, strict=True)
        if (each := _ratio(run)) is not None
    ]
    if theirs:
        median = statistics.median(theirs)
        one = len(data.beside()) == 1
        who = "yours" if one else f"median of {len(theirs)} runs"
        shown += f' <span class="seven-yours">({who} {write(median)})</span>'
    return re.sub(" (ms|µs|%|s|bytes)<", "\u00a0\\1<", shown)


def _ratio(found: Sequence[float | None]) -> float | None:
    """One number, or the first through the second; None if that fails."""
    first, under = found[0], found[1] if len(found) == 2 else 1.0
    return first / under if first is not None and under else None
