"""Tables of the results: what was measured, where, and in which words."""

from collections.abc import Callable
from html import escape

from markupsafe import Markup

from tools.data.results import SUITES, Point, Results
from tools.servers import Server
from tools.site import data, elements
from tools.site.errors import SiteError
from tools.site.figures import cell, figure, required
from tools.site.template import html

COLUMNS: tuple[str, ...] = (
    "requests_per_second", "share", "p50", "p99", "failures", "cpu_ms",
    "peak_memory", "threads",
)
MOST = 3  # different facts of several runs that are named, not counted

Shown = tuple[Server, Point, Point | None]  # and what stands beside it


def measured(
    rows: list[Shown], mark: str | None, columns: tuple[str, ...]
) -> str:
    """The load generator's figures of servers, a row each.

    What stands beside the reference has a second row below. A point
    without a possible number of requests has no share.
    """
    if not any(point.possible for _, point, _ in rows):
        columns = tuple(name for name in columns if name != "share")
    count = len(data.beside())
    body, servers = [], []
    for server, point, other in rows:
        for name in columns:
            required(point, name)
        heading = f"<strong>{server.name}</strong>"
        heading += " this step" * (server.name == mark)
        body.append([heading, *_cells(point, columns, False)])
        if count:
            heading = data.who(other)
            if other is not None and other.reason and other.status != "ok":
                heading += f"<br><small>{escape(other.reason)}</small>"
            body.append([heading, *_cells(other, columns, count > 1)])
        servers += [server.name] * (2 if count else 1)
    head = ["Server", *(figure(name).label for name in columns)]
    return elements.table(head, body, "What was measured", servers)


def _cells(
    point: Point | None, columns: tuple[str, ...], spread: bool
) -> list[str]:
    """spread: that of every figure, not of the requests/s alone."""
    return [
        cell(point, name, spread or name == "requests_per_second")
        for name in columns
    ]


def commands(points: list[Point]) -> str:
    """The commands that measured, each once, folded away. HTML."""
    found = [point.runs[0].command for point in points if point.runs]
    lines = "\n".join(dict.fromkeys(found))
    word = "commands" if "\n" in lines else "command"
    return elements.folded("data", f"The {word}", lines) if lines else ""


def caption(own: str, points: list[Point], suite: str) -> str:
    """What was measured, how often, where and when. HTML.

    own: what the page itself says, plain text.
    """
    return html(
        "caption", own=own, load=SUITES[suite], run=data.reference(),
        repeats={len(p.runs) for p in points if p.status == "ok"},
        beside=data.beside(), fact=fact,
    )


FACTS: dict[str, tuple[str, Callable[[Results], object]]] = {
    # by name: what the table of machines calls it, how it is found
    "cpu": ("Processor", lambda run: run.machine.cpu),
    "cores": ("Cores", lambda run: run.machine.cores),
    "memory": ("Memory", lambda run: f"{run.machine.memory / 2**30:.1f} GiB"),
    "kernel": ("Kernel", lambda run: run.machine.kernel),
    "python": ("Python", lambda run: run.machine.python),
    "tools": ("Tools", lambda run: ", ".join(
        f"{name} {version}" for name, version in run.tools.items()
    )),
    "open_files": (
        "Open files at most", lambda run: f"{run.machine.open_files:,}"
    ),
    "date": ("Date", lambda run: run.started[:10]),
    "command": ("Command", lambda run: run.command),
    "minutes": ("Minutes it took", lambda run: f"{run.seconds / 60:.0f}"),
    "commit": ("Commit", lambda run: run.commit or "no commit"),
}


def machine_fact(run: Results, name: str) -> str:
    """One fact about where and how a run was made, as text."""
    if name not in FACTS:
        raise SiteError(
            f"nothing about the machine is called {name!r}; there are "
            + ", ".join(FACTS)
        )
    _, find = FACTS[name]
    return str(find(run))


def fact(runs: list[Results], name: str) -> Markup:
    """A fact about several runs: those there are, or how many. HTML."""
    found = list(dict.fromkeys(machine_fact(run, name) for run in runs))
    if len(found) > MOST:
        return Markup("{} different").format(len(found))
    return Markup(" or ").join(found)


def machine() -> str:
    """Where the reference, and what stands beside it, was measured."""
    columns = {"Reference": [data.reference()]}
    if data.beside():
        columns[data.who().capitalize()] = data.beside()
    body = [
        [label, *(fact(runs, name) for runs in columns.values())]
        for name, (label, _) in FACTS.items()
    ]
    head = ["What", *columns]
    return elements.table(head, body, "Where the numbers were measured")
