"""What was measured: the fences of charts and tables, the inline numbers.

A fence that cannot do its job raises SuperFencesException, a number
InlineHiliteException: both end the build, with or without --strict.
"""

from typing import Any

from pymdownx.inlinehilite import (  # type: ignore[import-untyped]
    InlineHiliteException,
)

from tools.data.results import Point
from tools.site import (
    charts,
    data,
    elements,
    experiments,
    figures,
    inline_number,
    options,
    result_tables,
    sweep_chart,
)
from tools.site.errors import SiteError
from tools.site.fence_call import code, fence, uid


def num(source: str, language: str, css_class: str, md: Any) -> str:
    """A measured number in a sentence; see `inline_number.inline`."""
    try:
        return inline_number.inline(source)
    except Exception as error:  # anything else, inlinehilite swallows
        why = str(error) if isinstance(error, SiteError) else repr(error)
        raise InlineHiliteException(
            f"the number {source!r} cannot be made: {why}"
        ) from error


def _rows(chosen: dict[str, str]) -> list[result_tables.Shown]:
    """Servers with their point in a suite, and what stands beside it."""
    clients = options.whole(chosen, "clients")
    rows = []
    for server in options.servers(chosen.get("servers", "all")):
        where = (server.name, chosen["suite"], clients)
        if data.not_measured(*where):
            continue
        point = data.reference_point(*where)
        rows.append((server, point, data.beside_point(*where)))
    mark = chosen.get("mark")
    if mark is not None and mark not in [server.name for server, _, _ in rows]:
        raise SiteError(f"the marked server {mark!r} is not shown")
    return rows


def _caption(chosen: dict[str, str], points: list[Point], suite: str) -> str:
    return result_tables.caption(chosen.get("caption", ""), points, suite)


def _bars(chosen: dict[str, str], md: Any) -> str:
    """A bar chart of one figure: a row a server, what is beside it below.

    mark: the server that is set off as this step.
    """
    name, suite = chosen.get("figure", charts.RATE), chosen["suite"]
    mark, found = chosen.get("mark", ""), _rows(chosen)
    rows = []
    for server, point, other in found:
        figures.required(point, name)
        kind = "mark" if server.name == mark else "bar"
        drawn = [charts.Bar(point, kind, "reference")]
        if other is not None:
            drawn.append(charts.Bar(other, "own", data.who(other)))
        rows.append(charts.Row(server.name, drawn, server.name, server.title))
    keys = [("mark", f"{charts.MARK} this step")] * bool(mark)
    keys.append(("bar", "reference"))
    if any(other is not None for _, _, other in found):
        keys += charts.beside_keys("own")
    points = [point for _, point, _ in found]
    possible = {point.possible for point in points}
    limit = None
    if name == charts.RATE and len(possible) == 1 and (most := possible.pop()):
        limit = (most, charts.POSSIBLE)
    return charts.row_chart(
        uid(md, "bars", suite, name, mark, str(points[0].clients)),
        chosen["title"], name, rows, keys, _caption(chosen, points, suite),
        "Server", limit,
    )


def _sweep(chosen: dict[str, str], md: Any) -> str:
    """Requests/s over clients for several servers."""
    servers = options.servers(chosen.get("servers", "steps"))
    lines = []
    for server in servers:
        if data.not_measured(server.name, "sweep"):
            continue
        found = data.reference().suite("sweep", server.name)
        if not found:
            raise SiteError(f"the reference has no sweep of {server.name}")
        found.sort(key=lambda point: point.clients)
        own = data.beside_points("sweep", server.name)
        lines.append(sweep_chart.Line(server, found, own))
    points = [point for line in lines for point in line.points]
    return sweep_chart.sweep(
        uid(md, "sweep", *(server.name for server in servers)),
        chosen["title"], lines, _caption(chosen, points, "sweep"),
    )


def _abtable(chosen: dict[str, str], md: Any) -> str:
    """The load generator's figures for one server or several."""
    rows, suite = _rows(chosen), chosen["suite"]
    columns = options.words(chosen, "columns") or result_tables.COLUMNS
    points = [point for _, point, _ in rows]
    return elements.figure(
        uid(md, "measured", suite, *(server.name for server, _, _ in rows)),
        "measured",
        result_tables.measured(rows, chosen.get("mark"), tuple(columns)),
        _caption(chosen, points, suite) + result_tables.commands(points),
    )


def _experiment(chosen: dict[str, str], md: Any) -> str:
    """A table of a run of ``./bench.sh NAME``."""
    name, suite = chosen["run"], chosen["suite"]
    rows = chosen.get("rows", "").split(";")
    shown = experiments.show(
        name, suite, options.whole(chosen, "clients"),
        options.words(chosen, "figures"), chosen.get("against", ""),
        chosen.get("mark", ""), [row.strip() for row in rows if row],
    )
    points = experiments.points(name, suite)
    repeats = max(len(point.runs) for point in points)
    return elements.figure(
        uid(md, "experiment", name, suite, chosen["figures"]), "measured",
        shown, experiments.caption(name, chosen.get("caption", ""), repeats),
    )


def _experimentbars(chosen: dict[str, str], md: Any) -> str:
    """A bar of one figure for each point of such a run."""
    name, suite, figure = chosen["run"], chosen["suite"], chosen["figure"]
    points = experiments.points(name, suite)
    for point in points:
        figures.required(point, figure)
    return charts.row_chart(
        uid(md, "experimentbars", name, suite, figure), chosen["title"],
        figure, [
            charts.Row(point.variant or point.server, [charts.Bar(point)])
            for point in points
        ],
        [], experiments.caption(name, chosen.get("caption", "")), "What",
    )


def _machine(chosen: dict[str, str], md: Any) -> str:
    """Where, when and with what the numbers were measured."""
    return result_tables.machine()


def _printed(chosen: dict[str, str]) -> str:
    """What ab printed in the first run of a suite."""
    return data.printed(options.server(chosen["server"]).name, chosen["suite"])


def _raw(chosen: dict[str, str], md: Any) -> str:
    """All that ab printed, unchanged, folded away."""
    heading = f"What the load generator printed for {chosen['server']}"
    return elements.folded("raw", heading, _printed(chosen))


def _ablines(chosen: dict[str, str], md: Any) -> str:
    """The lines of it from one that begins with a word to another."""
    lines = _printed(chosen).splitlines()
    first = _line(lines, chosen["from"])
    last = _line(lines[first:], chosen["to"])
    return code(md, "\n".join(lines[first : first + last + 1]), "text", "")


def _line(lines: list[str], word: str) -> int:
    """Where it is. Another version of ab would print something else."""
    for number, line in enumerate(lines):
        if line.lstrip().startswith(word):
            return number
    raise SiteError(f"ab printed no line that begins with {word!r}")


bars = fence(_bars, "suite title", "figure servers clients mark caption")
sweep = fence(_sweep, "title", "servers")
abtable = fence(_abtable, "servers suite", "clients mark caption columns")
experiment = fence(
    _experiment, "run suite figures", "against mark rows clients caption",
)
experimentbars = fence(_experimentbars, "run suite figure title", "caption")
machine = fence(_machine)
raw = fence(_raw, "server suite")
ablines = fence(_ablines, "server suite from to")
