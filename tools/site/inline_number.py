"""A measured number in a sentence of a page."""

import re
import statistics
from html import escape

from tools.data.results import Point, Results
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


class _Number:
    """One number of the reference, and the same in other results."""

    def __init__(self, word: str) -> None:
        self.suite = ""  # that other results may have too
        if word.startswith(race_data.PREFIX):
            self.value, self.name = race_data.figure(word)
            return
        match = REFERENCE_RE.fullmatch(word)
        if match is None:
            raise SiteError(
                f"{word!r} is not server.suite.figure or "
                "server.suite@clients.figure"
            )
        self.server, self.name = match["server"], match["figure"]
        self.clients = int(match["clients"]) if match["clients"] else None
        where = (self.server, match["suite"], self.clients)
        if match["run"]:
            point: Point = experiments.find(match["run"], *where)
        else:
            point = data.reference_point(*where)
            self.suite = match["suite"]
        self.value = required(point, self.name)

    def of(self, run: Results) -> float | None:
        """The same number in another run, None if it is not there."""
        if not self.suite:
            return None
        point = run.find(self.server, self.suite, self.clients)
        return None if point is None else value(point, self.name)


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
    numbers = [_Number(word) for word in words]
    ours = _ratio([number.value for number in numbers])
    if ours is None:
        raise SiteError(f"{text!r} divides by zero")
    ours *= many
    write = times if len(numbers) == 2 else figure(numbers[0].name).write
    shown = f'<data class="seven-num" value="{ours:.6g}">{write(ours)}</data>'
    runs = [[number.of(run) for number in numbers] for run in data.beside()]
    theirs = [
        many * each for run in runs if (each := _ratio(run)) is not None
    ]
    if theirs:
        median = statistics.median(theirs)
        who = "yours" if len(runs) == 1 else f"median of {len(theirs)} runs"
        shown += f' <span class="seven-yours">({who} {write(median)})</span>'
    return re.sub(" (ms|µs|%|s|bytes)<", "\u00a0\\1<", shown)


def _ratio(found: list[float | None] | list[float]) -> float | None:
    """One number, or the first through the second; None if that fails."""
    first, under = found[0], found[1] if len(found) == 2 else 1.0
    return first / under if first is not None and under else None
