"""The player of recordings: the fence ``race``.

It is complete without a script: the end of each recording, waterfall,
lanes and a table. docs/assets/race.js makes it play.
"""

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from tools.data import recording
from tools.data.recording import Recording
from tools.servers import ROOT, Server
from tools.site import options, race_charts, race_data, race_lines, race_stage
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid, up
from tools.site.template import html

MOST_SERVERS = 2
MARGIN = 1.02  # of the time axis, beyond the last response


class Run(NamedTuple):
    """A server of a race, its recording, and how its requests move.

    address: of the file on the site; "": it is not there.
    """

    server: Server
    recording: Recording
    file: Path
    stage: race_stage.Stage
    address: str

    @property
    def path(self) -> str:
        """Where the file is on this machine."""
        near = self.file.is_relative_to(ROOT)
        return str(self.file.relative_to(ROOT)) if near else self.file.name

    @property
    def place(self) -> str:
        """When and on what the recording was made."""
        made = self.recording
        own = self.file.parent != recording.REFERENCE
        return (
            f"{'Your recording' if own else 'Recorded'} on "
            f"{made.started[:10]}, {made.machine.cpu}, "
            f"{made.machine.cores} cores, {made.machine.python}"
        )


def _render(chosen: dict[str, str], md: Any) -> str:
    """Recordings of one server or two, on one clock."""
    servers = options.servers(chosen["servers"])
    names = [server.name for server in servers]
    if len(names) > MOST_SERVERS or len(set(names)) != len(names):
        raise SiteError("a race has one server or two different ones")
    runs = [_run(server, up(md)) for server in servers]
    return player(runs, uid(md, "race", *names), chosen["title"])


def player(runs: list[Run], ident: str, title: str) -> str:
    """The element. ident: its id in the page."""
    end = max(run.recording.length for run in runs)
    places: dict[str, list[str]] = {}
    notes: list[str] = []
    for run in runs:
        places.setdefault(run.place, []).append(run.server.name)
        notes += filter(None, re.split(r"\.(?: |$)", run.recording.note))
    return html(
        "race", ident=ident, title=title, runs=runs,
        views=race_charts.VIEWS, top=end * MARGIN, places=places,
        notes=dict.fromkeys(notes), data=_data(runs, end),
        waiting=race_stage.WAITING, in_ring=race_stage.RING,
        on_shelf=race_stage.SHELF, answered=race_stage.ANSWERED,
        done=race_stage.DONE,
    )


def _run(server: Server, up: str | None) -> Run:
    made, file = race_data.find(server.name)
    there = up is not None and file.parent == recording.REFERENCE
    address = f"{up}data/recordings/{file.name}" if there else ""
    return Run(server, made, file, race_stage.stage(made), address)


def _data(runs: list[Run], end: int) -> Markup:
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
    return Markup(text.replace("<", "\\u003c"))


def _flat(pairs: Iterable[tuple[Any, ...]]) -> list[Any]:
    return list(itertools.chain.from_iterable(pairs))


race = fence(_render, "servers title")
