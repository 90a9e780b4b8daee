"""What mkdocs.yml names: the fences of the pages and the inline numbers.

A fence that cannot do its job raises SuperFencesException, a number
InlineHiliteException: both end the build, with or without --strict.
"""

import itertools
from html import escape
from typing import Any

from pymdownx.inlinehilite import (  # type: ignore[import-untyped]
    InlineHiliteException,
)

from tools.data.results import SUITES, Point
from tools.site import (
    charts,
    data,
    diff,
    experiments,
    figures,
    options,
    rules_table,
    tables,
)
from tools.site import source as pieces
from tools.site.errors import SiteError
from tools.site.fence import code, fence, uid


def num(source: str, language: str, css_class: str, md: Any) -> str:
    """A measured number in a sentence; see `figures.inline`."""
    try:
        return figures.inline(source)
    except Exception as error:  # anything else, inlinehilite swallows
        why = str(error) if isinstance(error, SiteError) else repr(error)
        raise InlineHiliteException(
            f"the number {source!r} cannot be made: {why}"
        ) from error


def _source(text: str, md: Any) -> str:
    """A piece of a file by name: see `source.find` and `source.section`.

    ``name`` may list several, comma between; ``section`` takes what stands
    under a banner; ``idea: yes`` what is this step's own; ``whole: yes``
    the whole file.
    """
    chosen = options.parse(
        text, ["file"], ["name", "section", "idea", "whole"]
    )
    content = pieces.read(chosen["file"])
    if len(chosen) != 2:
        raise SiteError("give one of name, section, idea and whole")
    if "name" in chosen:
        names = [name.strip() for name in chosen["name"].split(",")]
        found = [pieces.find(content, name) for name in names]
    elif "section" in chosen:
        found = [pieces.section(content, chosen["section"])]
    elif options.yes(chosen, "idea"):
        found = [pieces.idea(content)]
    elif options.yes(chosen, "whole"):
        found = [pieces.cut(content.splitlines(), 1, content.count("\n"))]
    else:
        raise SiteError("idea and whole are yes or not there")
    label = pieces.label(chosen["file"])
    title = f"{label}, {_lines(found)}"
    return code(md, _join(found), "python", title, label, _numbers(found))


def _lines(found: list[pieces.Piece]) -> str:
    numbers = ", ".join(
        f"{p.first}" if p.first == p.last else f"{p.first} to {p.last}"
        for p in found
    )
    one = len(found) == 1 and found[0].first == found[0].last
    return f"{'line' if one else 'lines'} {numbers}"


def _join(found: list[pieces.Piece]) -> str:
    """Pieces as one text: neighbours as in the file, others spaced."""
    text = found[0].text
    for last, piece in itertools.pairwise(found):
        gap = piece.first - last.last
        text += "\n" if gap == 1 else "\n\n" if gap == 2 else "\n\n\n"
        text += piece.text
    return text


def _numbers(found: list[pieces.Piece]) -> list[int | None]:
    """Of each line that `_join` makes, its number in the file."""
    numbers: list[int | None] = [*range(found[0].first, found[0].last + 1)]
    for last, piece in itertools.pairwise(found):
        gap = piece.first - last.last
        numbers += [None] * (0 if gap == 1 else 1 if gap == 2 else 2)
        numbers += range(piece.first, piece.last + 1)
    return numbers


def _stepdiff(text: str, md: Any) -> str:
    """What changed between two servers, the shared sections left out."""
    chosen = options.parse(text, ["from", "to"], ["context"])
    context = options.whole(chosen, "context")
    found = diff.changes(
        pieces.read(chosen["from"]), pieces.read(chosen["to"]),
        2 if context is None else context,
    )
    old, new = pieces.label(chosen["from"]), pieces.label(chosen["to"])
    title = f"{old} → {new}: {found.added} lines in, {found.removed} out"
    return code(md, found.text, "diff", title)


def _caption(own: str, points: list[Point], suite: str) -> str:
    """What was measured, how often, where and when. HTML."""
    run = data.reference()
    words = [escape(own)] if own else []
    words.append(f"Load: {escape(SUITES[suite])}.")
    repeats = {len(p.runs) for p in points if p.status == "ok"}
    if repeats and repeats != {1}:
        low, high = min(repeats), max(repeats)
        each = f"{low}" if low == high else f"{low} to {high}"
        words.append(f"Medians of {each} runs.")
    words.append(
        f"Reference: {escape(run.machine.cpu)}, {run.machine.cores} cores, "
        f"{escape(run.machine.python)}, {run.started[:10]}."
    )
    yours = data.own()
    if yours is not None:
        words.append(
            f'<span class="seven-own-run">Yours: '
            f"{escape(yours.machine.cpu)}, {yours.machine.cores} cores, "
            f"{escape(yours.started[:10])}, "
            f"<code>{escape(yours.command)}</code>.</span>"
        )
    return " ".join(words)


def _bars(text: str, md: Any) -> str:
    """A bar chart of one figure of one suite."""
    chosen = options.parse(
        text, ["suite", "title"],
        ["figure", "servers", "clients", "mark", "caption"],
    )
    name = chosen.get("figure", "requests_per_second")
    figures.figure(name)
    clients = options.whole(chosen, "clients")
    rows = []
    for server in options.servers(chosen.get("servers", "all")):
        where = (server.name, chosen["suite"], clients)
        if data.not_measured(*where):
            continue
        point = data.reference_point(*where)
        figures.required(point, name)
        rows.append(charts.Bar(server, point, data.own_point(*where)))
    mark = _mark(chosen, [row.server.name for row in rows])
    load = str(rows[0].point.clients)
    ident = uid(md, "bars", chosen["suite"], name, mark or "", load)
    return charts.bars(
        ident, chosen["title"], name, rows, mark,
        _caption(
            chosen.get("caption", ""), [row.point for row in rows],
            chosen["suite"],
        ),
        clients,
    )


def _mark(chosen: dict[str, str], names: list[str]) -> str | None:
    mark = chosen.get("mark")
    if mark is not None and mark not in names:
        raise SiteError(f"the marked server {mark!r} is not shown")
    return mark


def _sweep(text: str, md: Any) -> str:
    """Requests/s over clients for several servers."""
    chosen = options.parse(text, ["title"], ["servers", "caption"])
    own = data.own()
    lines = []
    for server in options.servers(chosen.get("servers", "steps")):
        points = _ordered(data.reference().suite("sweep", server.name))
        if not points:
            raise SiteError(f"the reference has no sweep of {server.name}")
        theirs = own.suite("sweep", server.name) if own else []
        lines.append(charts.Line(server, points, _ordered(theirs)))
    names = [line.server.name for line in lines]
    ident = uid(md, "sweep", *names)
    caption = _caption(
        chosen.get("caption", ""), [p for ln in lines for p in ln.points],
        "sweep",
    )
    return charts.sweep(ident, chosen["title"], lines, caption)


def _ordered(points: list[Point]) -> list[Point]:
    return sorted(points, key=lambda point: point.clients)


def _abtable(text: str, md: Any) -> str:
    """The load generator's figures for one server or several."""
    chosen = options.parse(
        text, ["servers", "suite"],
        ["clients", "mark", "caption", "failed", "columns"],
    )
    clients = options.whole(chosen, "clients")
    rows = []
    for server in options.servers(chosen["servers"]):
        where = (server.name, chosen["suite"], clients)
        point, own = data.reference_point(*where), data.own_point(*where)
        rows.append((server, point, own))
    names = [server.name for server, _, _ in rows]
    columns = tables.COLUMNS
    if "columns" in chosen:
        columns = tuple(c.strip() for c in chosen["columns"].split(","))
    return tables.measured(
        uid(md, "measured", chosen["suite"], *names), rows,
        _mark(chosen, names), options.yes(chosen, "failed"),
        _caption(
            chosen.get("caption", ""), [point for _, point, _ in rows],
            chosen["suite"],
        ),
        data.own() is not None,
        columns,
        clients,
    )


def _experiment(text: str, md: Any) -> str:
    """A table of a run of ``./bench.sh NAME``."""
    chosen = options.parse(
        text, ["run", "suite", "figures"],
        ["against", "mark", "rows", "clients", "caption"],
    )
    rows = chosen.get("rows")
    shown = experiments.Shown(
        figures=tuple(f.strip() for f in chosen["figures"].split(",")),
        against=chosen.get("against", ""),
        mark=chosen.get("mark", ""),
        rows=tuple(r.strip() for r in rows.split(";")) if rows else None,
    )
    name, suite = chosen["run"], chosen["suite"]
    clients = options.whole(chosen, "clients")
    repeats = max(
        (len(p.runs) for p in experiments.run(name).suite(suite)), default=0
    )
    ident = uid(md, "experiment", name, suite, chosen["figures"])
    return (
        f'<figure class="seven-measured" id="{ident}" data-search-exclude>'
        f"{experiments.show(name, suite, clients, shown)}<figcaption>"
        f"{experiments.caption(name, chosen.get('caption', ''), repeats)}"
        "</figcaption></figure>"
    )


def _machine(text: str, md: Any) -> str:
    """Where, when and with what the numbers were measured."""
    options.parse(text, [])
    return tables.machine(data.reference(), data.own())


def _lessons(text: str, md: Any) -> str:
    """The table of lessons, as the recorded run of the tests saw it."""
    chosen = options.parse(text, [], ["servers"])
    servers = options.servers(chosen.get("servers", "all"))
    run = rules_table.recorded()
    rules_table.check_lessons(run, servers)
    return tables.lessons(
        servers, uid(md, "lessons"), rules_table.caption(run)
    )


def _raw(text: str, md: Any) -> str:
    """What ab printed in the first run of a suite, unchanged."""
    chosen = options.parse(text, ["server", "suite"], ["clients"])
    server = options.server(chosen["server"])
    point = data.reference_point(
        server.name, chosen["suite"], options.whole(chosen, "clients")
    )
    if not point.runs:
        raise SiteError(f"{server.name} has no run in {point.suite}")
    command = point.runs[0].command
    everything = data.reference_output(server.name)
    return tables.raw_output(
        first_output(everything, command),
        f"What the load generator printed for {server.name}",
    )


def first_output(everything: str, command: str) -> str:
    """The first output of a command in a file of raw outputs, with it.

    Each output stands there under its command, whose lines begin with
    a dollar sign.
    """
    header = "".join(f"$ {line}\n" for line in command.splitlines())
    start = everything.find(header)
    if start < 0:
        raise SiteError(f"the raw outputs do not hold {command!r}")
    output, _, _ = everything[start + len(header):].partition("\n$ ")
    return header + output.rstrip()


source = fence(_source)
stepdiff = fence(_stepdiff)
bars = fence(_bars)
sweep = fence(_sweep)
abtable = fence(_abtable)
experiment = fence(_experiment)
machine = fence(_machine)
lessons = fence(_lessons)
raw = fence(_raw)
