"""The player of recordings: the fence ``race``.

It is complete without a script: the end of each recording, waterfall,
lanes and a table. docs/assets/race.js makes it play.
"""

import itertools
import json
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from tools.data import recording
from tools.data.recording import Recording
from tools.servers import ROOT, Server
from tools.site import options, race_charts, race_data, race_lines, race_stage
from tools.site.elements import table
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid, up

MOST_SERVERS = 2
MARGIN = 1.02  # of the time axis, beyond the last response


class Run(NamedTuple):
    """A server of a race, its recording, and how its requests move."""

    server: Server
    recording: Recording
    file: Path
    stage: race_stage.Stage

    @property
    def own(self) -> bool:
        """Did the reader make the recording?"""
        return self.file.parent != recording.REFERENCE


def _render(chosen: dict[str, str], md: Any) -> str:
    """Recordings of one server or two, on one clock."""
    servers = options.servers(chosen["servers"])
    names = [server.name for server in servers]
    if len(names) > MOST_SERVERS or len(set(names)) != len(names):
        raise SiteError("a race has one server or two different ones")
    runs = []
    for server in servers:
        made, file = race_data.find(server.name)
        runs.append(Run(server, made, file, race_stage.stage(made)))
    ident = uid(md, "race", *names)
    end = max(run.recording.length for run in runs)
    return (
        f'<figure class="seven-race" id="{ident}" data-search-exclude>'
        f'<p class="seven-title">{escape(chosen["title"])}</p>'
        f'<div class="race-runs">'
        f"{''.join(map(_board, runs))}</div>"
        f'<div class="race-result">{_charts(ident, runs, end * MARGIN)}'
        f"{_tables(runs)}</div>"
        f'<script type="application/json">{_data(runs, end)}</script>'
        f"<figcaption>{_caption(runs, up(md))}</figcaption>"
        "</figure>"
    )


def _board(run: Run) -> str:
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
        f"{race_stage.html(run.stage, run.recording)}</div>"
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
        whose = f"{' and '.join(names)}: " if len(places) > 1 else ""
        words.append(f"{escape(whose)}{place}.")
    words += [escape(note) for note in dict.fromkeys(notes)]
    words += [_link(run, up) for run in runs]
    return " ".join(words)


def _place(run: Run) -> str:
    """When and on what a recording was made. HTML."""
    made = run.recording
    whose = "Your recording" if run.own else "Recorded"
    return (
        f"{whose} on {escape(made.started[:10])}, "
        f"{escape(made.machine.cpu)}, {made.machine.cores} cores, "
        f"{escape(made.machine.python)}"
    )


def _link(run: Run, up: str | None) -> str:
    """Where a recording is; a link if it is on the site."""
    if run.own or up is None:
        near = run.file.is_relative_to(ROOT)
        path = run.file.relative_to(ROOT).as_posix() if near else run.file.name
        where = f"<code>{escape(path)}</code>"
    else:
        address = escape(f"{up}data/recordings/{run.file.name}")
        where = f'<a href="{address}" download>recording</a>'
    return f"{escape(run.server.name)}: {where}."


def _data(runs: list[Run], end: int) -> str:
    """What the script needs, small, and safe inside a script element."""
    data = {
        "end": end,
        "top": round(end * MARGIN),
        "runs": [
            {
                "name": run.server.name,
                "file": run.server.file,
                "moves": [_flat(its) for its in run.stage.moves],
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


race = fence(_render, "servers title")
