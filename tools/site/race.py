"""The player of recordings: the fence ``race``.

It is complete without a script: the end of each recording, waterfall,
lanes and a table. docs/assets/race.js makes it play.
"""

import functools
import itertools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tools.data.recording import Recording
from tools.servers import ROOT, Server
from tools.site import (
    options,
    race_charts,
    race_data,
    race_lines,
    race_stage,
)
from tools.site.elements import table
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid, up

MOST_SERVERS = 2
MARGIN = 1.02  # of the time axis, beyond the last answer
NEAR = 0.01  # of the length: events closer than that are one step
STEP = 0.05  # of the length: no step holds more
SLOWER = (
    "Seen with strace, which makes every system call slower: compare "
    "shapes, not milliseconds."
)
PERFETTO = "https://ui.perfetto.dev/"


@dataclass(frozen=True)
class Run:
    """A server of a race with its recording."""

    server: Server
    recording: Recording
    file: Path

    @property
    def trace(self) -> Path:
        """The same for trace viewers, if it was made."""
        return self.file.with_suffix(".trace.json")

    @functools.cached_property
    def stage(self) -> race_stage.Stage:
        """Where its requests are, and when they move."""
        return race_stage.stage(self.recording)


def _render(chosen: dict[str, str], md: Any) -> str:
    """Recordings of one server or two, on one clock."""
    servers = options.servers(chosen["servers"])
    names = [server.name for server in servers]
    if len(names) > MOST_SERVERS or len(set(names)) != len(names):
        raise SiteError("a race has one server or two different ones")
    runs = [Run(server, *race_data.find(server.name)) for server in servers]
    ident = uid(md, "race", *names)
    end = max(run.recording.length for run in runs)
    return (
        f'<figure class="seven-race" id="{ident}" data-search-exclude>'
        f'<p class="seven-title">{escape(chosen["title"])}</p>'
        f'<div class="race-runs">'
        f"{''.join(_board(run, at) for at, run in enumerate(runs))}</div>"
        f'<div class="race-result">{_charts(ident, runs, end * MARGIN)}'
        f"{_tables(runs)}</div>"
        f'<script type="application/json">{_data(runs, end)}</script>'
        f"<figcaption>{_caption(runs, up(md))}</figcaption>"
        "</figure>"
    )


def _board(run: Run, at: int) -> str:
    """A server's name, its counters and its stage, as at the end."""
    clients = len(run.recording.clients)
    counters = "".join(
        f'<div class="race-count"><dt>{label}</dt>'
        f'<dd data-count="{name}">{shown}</dd></div>'
        for name, label, shown in (
            ("answered", "answered", f"{clients} of {clients}"),
            ("work", "at work", "0"),
            ("calls", "system calls", f"{race_data.calls(run.recording):,}"),
        )
    )
    return (
        f'<div class="race-run" role="group" '
        f'aria-label="Server {escape(run.server.name)}">'
        '<div class="race-top"><p class="race-name">'
        f"<strong>{escape(run.server.name)}</strong> "
        f"{escape(run.server.title)}</p>"
        f'<dl class="race-counts">{counters}</dl></div>'
        f"{race_stage.html(run.stage, run.recording, at)}</div>"
    )


def _charts(ident: str, runs: list[Run], top: float) -> str:
    """Both views, one after the other; a script shows one at a time."""
    views = ""
    for view, heading, draw, row in (
        ("requests", "Each request", race_charts.waterfall, "client"),
        ("threads", "What the server is doing", race_charts.lanes, "thread"),
    ):
        views += (
            f'<div class="race-view" data-view="{view}">'
            f'<p class="race-heading">{heading}, a row a {row}</p>'
            f"{race_charts.legend(view == 'requests')}"
        )
        for run in runs:
            name = run.server.name
            chart = draw(
                f"{ident}-{view}-{name}", f"{heading}: {name}",
                run.recording, top,
            )
            views += (
                f'<p class="race-over"><strong>{escape(name)}</strong> '
                f"{escape(run.server.waits)}</p>{chart}"
            )
        views += "</div>"
    return views


def _tables(runs: list[Run]) -> str:
    """The clients of every run; times in ms."""
    head = [
        "Client", "begun, ms", "accepted", "read", "answer begins", "done",
    ]
    tables = ""
    for run in runs:
        body = []
        for at, c in enumerate(run.recording.clients, 1):
            times = (c.begun, c.accepted, c.read, c.answered, c.done)
            body.append([f"{at}", *(f"{t / 1000:,.1f}" for t in times)])
        name = escape(run.server.name)
        tables += (
            f"<div><p><strong>{name}</strong>: "
            f"{race_charts.summary(run.recording)} "
            f"{race_charts.doing(run.recording)}</p>"
            f"{table(head, body, f'Every client of server {name}')}</div>"
        )
    return (
        '<details class="seven-data race-data"><summary>These recordings '
        f"as a table</summary><div>{tables}</div></details>"
    )


def _caption(runs: list[Run], up: str | None) -> str:
    """What was recorded, where and how; where the data is. HTML."""
    first = runs[0].recording
    words = [
        f"{len(first.clients)} clients, one request each, all at once; "
        f"each request waits {first.delay:g} s."
    ]
    places: dict[str, list[str]] = {}
    notes: list[str] = []
    for run in runs:
        places.setdefault(_place(run), []).append(run.server.name)
        notes += [f"{note}." for note in re.split(
            r"\.(?: |$)", run.recording.note) if note]
    for place, names in places.items():
        who = f"{' and '.join(names)}: " if len(places) > 1 else ""
        words.append(f"{escape(who)}{place}.")
    if not any("strace" in note for note in notes):
        notes.append(SLOWER)
    words += [escape(note) for note in dict.fromkeys(notes)]
    words += [_links(run, up) for run in runs]
    if any(run.trace.is_file() for run in runs):
        words.append(
            "To zoom into every system call, save a trace and open it at "
            f'<a href="{PERFETTO}">ui.perfetto.dev</a>, under '
            "<em>Open trace file</em>."
        )
    return " ".join(words)


def _place(run: Run) -> str:
    """When and on what a recording was made. HTML."""
    made = run.recording
    whose = "Your recording" if race_data.is_own(run.file) else "Recorded"
    chosen = (
        f", the median of {made.repeats} by its length"
        if made.repeats > 1 else ""
    )
    return (
        f"{whose} on {escape(made.started[:10])}, "
        f"{escape(made.machine.cpu)}, {made.machine.cores} cores, "
        f"{escape(made.machine.python)}{chosen}"
    )


def _links(run: Run, up: str | None) -> str:
    """Where a recording and its trace are; links if they are on the site."""
    parts = []
    for file, name in ((run.file, "recording"), (run.trace, "trace")):
        if not file.is_file():
            continue
        if up is None or race_data.is_own(run.file):
            near = file.is_relative_to(ROOT)
            path = file.relative_to(ROOT).as_posix() if near else file.name
            parts.append(f"<code>{escape(path)}</code>")
        else:
            address = escape(f"{up}data/recordings/{file.name}")
            parts.append(f'<a href="{address}" download>{name}</a>')
    return f"{escape(run.server.name)}: {', '.join(parts)}."


def _data(runs: list[Run], end: int) -> str:
    """What the script needs, small, and safe inside a script element."""
    data = {
        "end": end,
        "top": round(end * MARGIN),
        "steps": steps([run.stage for run in runs], end),
        "runs": [
            {
                "name": run.server.name,
                "file": run.server.file,
                "moves": [
                    _flat((m.at, m.place + m.state) for m in its)
                    for its in run.stage.moves
                ],
                "calls": _flat(run.recording.calls),
                "lines": [
                    [line.number, line.text, int(line.parked),
                     _flat(line.times)]
                    for line in race_lines.running(run.recording)
                ],
            }
            for run in runs
        ],
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _flat(pairs: Iterable[tuple[Any, ...]]) -> list[Any]:
    return list(itertools.chain.from_iterable(pairs))


def steps(stages: list[race_stage.Stage], end: int) -> list[int]:
    """The moments, in µs, at which something has happened.

    Events close together are one step, at the last of them, so that a
    press of a button always shows a difference.
    """
    events = sorted(
        move.at for made in stages for moves in made.moves for move in moves
    )
    found: list[int] = []
    begun = 0
    for last, event in itertools.pairwise([*events, end + 1]):
        if event - last > end * NEAR or event - begun > end * STEP:
            found.append(last)
            begun = event
    return sorted({0, *found, end})


race = fence(_render, "servers title")
