"""The labs' own fences: gil, frames, database, connections and others.

The data are docs/data/labs-NAME and docs/data/hosts. Whatever a lab is
about, a fence picks rows of points, and shows one figure of them as bars
or in a table. (Others: lines over clients, lines over seconds, texts.)

``rows`` of hosts have a name each and say how their points are called,
server and variant, with a place for each of ``bars``; semicolons between.
Instead, ``point: {row}[{bar}]`` says it for all rows.
"""

import json
from dataclasses import replace
from html import escape
from typing import Any

from tools.data.results import Point
from tools.servers import by_name
from tools.site import charts, data, elements, experiments, options, seconds
from tools.site import sweep_chart as sweep
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, cell, required, value, values

GIL, FRAMES, DATABASE = "labs-gil", "labs-frames", "labs-database"
INSIDE, HOSTS, CONNECTIONS = "labs-inside", "hosts", "labs-connections"
# What the line of another server looks like: that of ours with its idea.
LOOKS = {"coroutines": "06-coroutines", "asyncio": "06", "gevent": "03",
         "tornado": "05", "node": "04", "07": "07"}
SECOND = {"2 CPUs", "huge pages"}  # bars of a kind of their own
CPUS = [("bar", "upper bar: one CPU"), ("mark", "lower bar: two CPUs")]
SHAPES = {"one": "one process", "two": "two processes"}
IN_C = "C-recv"  # what the line across the bars shows
HEAD = ["Variant", "First", "Second", "Third"]  # functions of a profile
TOOLS = ("ss", "ps", "strace", "py-spy")

Rows = dict[str, dict[str, Point]]  # its name -> name of a bar -> its point


def _known(key: str, word: str, *known: str) -> str:
    """An option that is one of these words."""
    if word not in known:
        raise SiteError(f"{key} is one of {', '.join(known)}, not {word!r}")
    return word


def _bars(
    ident: str, chosen: dict[str, str], figure: str, rows: Rows,
    keys: list[tuple[str, str]], caption: str, what: str,
    limit: tuple[float, str] | None = None,
) -> str:
    """A row of bars each; see `charts.row_chart`."""
    drawn = [
        charts.Row(name, [
            charts.Bar(point, "mark" if which in SECOND else "bar", which)
            for which, point in points.items()
        ])
        for name, points in rows.items()
    ]
    return charts.row_chart(
        ident, chosen["title"], figure, drawn, keys, caption, what, limit
    )


def _table(
    ident: str, title: str, head: list[str], body: list[list[str]],
    caption: str,
) -> str:
    table = elements.table(head, body, title)
    return elements.figure(ident, "measured", table, caption, title)


def _most_runs(rows: Rows) -> int:
    return max(len(p.runs) for row in rows.values() for p in row.values())


def _gil(chosen: dict[str, str], md: Any) -> str:
    """One figure: a row an interpreter, a bar on one CPU and on two."""
    name, rows = chosen["figure"], Rows()
    points = experiments.points(GIL, GIL)
    if all(value(point, name) is None for point in points):
        raise SiteError(f"{GIL} has no {name}")
    free = {p.server for p in points if 0 in values(p, "gil")}
    for point in points:
        label = f"Python {point.server}" + ", no GIL" * (point.server in free)
        rows.setdefault(label, {})[point.variant] = point
    words = [chosen["caption"]] if "caption" in chosen else []
    if (repeats := _most_runs(rows)) > 1:
        words.append(f"Medians of {repeats} runs.")
    return _bars(
        uid(md, "gil", name), chosen, name, rows, CPUS,
        experiments.caption(GIL, " ".join(words)), "Interpreter",
    )


# Large frames -------------------------------------------------------------


def _frames(chosen: dict[str, str], md: Any) -> str:
    """A chart of MB/s, or with ``show: profile`` a table of functions.

    part: oldest, newest or libraries; shape: one or two; variants: which,
    in this order (default: all, as measured).
    """
    shape = SHAPES[_known("shape", chosen["shape"], *SHAPES)]
    where = f"{chosen['part']}, {shape}"
    names = options.words(chosen, "variants")
    show = _known("show", chosen.get("show", "chart"), "chart", "profile")
    ident = uid(md, "frames", show, where)
    if show == "profile":
        return _profile(ident, chosen, where, names)
    usual, huge, in_c = (
        {p.server: p for p in experiments.points(FRAMES, FRAMES)
         if p.variant == variant}
        for variant in (where, f"{where}, huge pages", f"C, {shape}")
    )
    missing = [name for name in names if name not in usual]
    if missing or not usual:
        raise SiteError(
            f"{FRAMES} has nothing in {where!r} of "
            f"{', '.join(missing) or 'any variant'}"
        )
    rows = {name: {"usual pages": usual[name]} for name in names or usual}
    keys = [("bar", "usual pages (4 KiB)")]
    for name, row in rows.items():
        if name in huge and huge[name].status == "ok":
            row["huge pages"] = huge[name]
            keys = [("bar", "upper bar: usual pages"),
                    ("mark", "lower bar: huge pages")]  # fmt: skip
    figure, limit = "mb_per_second", None
    if IN_C in in_c and (speed := value(in_c[IN_C], figure)) is not None:
        limit = (speed, f"{IN_C}, usual pages: {speed:,.0f}")
    return _bars(
        ident, chosen, figure, rows, keys,
        _caption(chosen, _most_runs(rows)), "Variant", limit,
    )


def _caption(chosen: dict[str, str], repeats: int = 1) -> str:
    """Which Python ran it, what the page says, and how it was measured."""
    version = data.experiment(FRAMES).tools.get(chosen["part"], "")
    ran = f"On Python {version.partition(',')[0]}. " if version else ""
    own = ran + chosen.get("caption", "")
    return experiments.caption(FRAMES, own, repeats)


def _profile(
    ident: str, chosen: dict[str, str], where: str, names: list[str]
) -> str:
    """The functions that took most of each variant's time."""
    file = data.folder(FRAMES) / "profile.json"
    try:
        known = json.loads(file.read_text(encoding="utf-8"))[where]
        found = {name: known[name] for name in names or known}
    except (OSError, ValueError, KeyError) as error:
        raise SiteError(f"{file.name} has no {error} in {where!r}") from error
    body = []
    for name, functions in found.items():
        cells = [
            f"{100 * share:.0f}&nbsp;% <code>{escape(function)}</code>"
            for function, share in functions
        ]
        row = [f"<strong>{escape(name)}</strong>", *cells, *[DASH] * 3]
        body.append(row[:len(HEAD)])
    return _table(ident, chosen["title"], HEAD, body, _caption(chosen))


# A database ---------------------------------------------------------------


def _database(chosen: dict[str, str], md: Any) -> str:
    """One figure of one suite.

    show: lines over the clients (requests/s only), a table over them, or
    bars; clients: how many, for bars.
    """
    show = _known("show", chosen["show"], "lines", "table", "bars")
    suite, title = chosen["suite"], chosen["title"]
    name = chosen.get("figure", charts.RATE)
    clients, rows = options.whole(chosen, "clients"), Rows()
    points = experiments.points(DATABASE, suite, clients)
    for point in points:
        row = rows.setdefault(f"{point.server}, {point.variant}", {})
        row["" if show == "bars" else f"{point.clients:,}"] = point
        if show == "bars":
            required(point, name)
    ident = uid(md, "database", suite, show, name)
    caption = experiments.caption(
        DATABASE, chosen.get("caption", ""), _most_runs(rows)
    )
    if show == "bars":
        return _bars(ident, chosen, name, rows, [], caption, "Handler")
    if show == "lines":
        lines = [[*row.values()] for row in rows.values()]
        handlers = [line[0].server for line in lines]
        drawn = [_line(line, handlers) for line in lines]
        return sweep.sweep(ident, title, drawn, caption)
    numbers = sorted({point.clients for point in points})
    head = ["Handler", *(f"{n:,} client{'s' * (n > 1)}" for n in numbers)]
    body = [
        [f"<strong>{escape(label)}</strong>",
         *(cell(row.get(f"{n:,}"), name) for n in numbers)]
        for label, row in rows.items()
    ]  # fmt: skip
    return _table(ident, title, head, body, caption)


def _line(points: list[Point], handlers: list[str]) -> sweep.Line:
    """The line of a handler looks as that of its server's step.

    Its name is short, as it stands beside the line: its pool is a part of
    it ("06-async, 10") if there are several of this handler.
    """
    name = points[0].server
    server = by_name(name[:2])
    if handlers.count(name) > 1:
        name += f", {points[0].variant.partition(' ')[0]}"
    points = sorted(points, key=lambda point: point.clients)
    return sweep.Line(replace(server, name=name), points)


# More and more connections ------------------------------------------------


def _connections(chosen: dict[str, str], md: Any) -> str:
    """Requests/s over connections, a line a server."""
    lines: dict[str, list[Point]] = {}
    for point in experiments.points(CONNECTIONS, CONNECTIONS):
        if point.status != "skipped":
            lines.setdefault(point.server, []).append(point)
    drawn = [
        sweep.Line(replace(by_name(LOOKS[name]), name=name), points)
        for name, points in lines.items()
    ]
    caption = experiments.caption(CONNECTIONS, chosen.get("caption", ""))
    ident = uid(md, "connections")
    return sweep.sweep(ident, chosen["title"], drawn, caption)


# A look inside, and several hosts -----------------------------------------


def _inside(chosen: dict[str, str], md: Any) -> str:
    """What a tool printed, the servers beside one another."""
    tool, blocks = _known("tool", chosen["tool"], *TOOLS), ""
    for point in experiments.points(INSIDE, INSIDE):
        server = by_name(point.server)
        missing = f"{tool} was not on the machine."
        text = elements.preformatted(point.runs[0].texts.get(tool, missing))
        blocks += (
            f"<div><p><strong>{escape(server.name)}</strong> "
            f"{escape(server.waits)}</p>{text}</div>"
        )
    return elements.figure(
        uid(md, "inside", tool), "measured",
        f'<div class="grid">{blocks}</div>' if tool == "ps" else blocks,
        experiments.caption(INSIDE, chosen.get("caption", "")),
    )


def _hosts(chosen: dict[str, str], md: Any) -> str:
    """Bars, a table with a figure in each cell, or good responses over
    the seconds, for up to three rows; see the top of this file.
    """
    show = _known("show", chosen.get("show", "bars"),
                  "bars", "table", "seconds")
    title, suite = chosen["title"], f"hosts-{chosen['part']}"
    ident = uid(md, "hosts", chosen["part"], show, title)
    caption = experiments.caption(HOSTS, chosen.get("caption", ""))
    bars, rows = _listed(chosen, "bars"), Rows()
    for each in _listed(chosen, "rows"):
        row, _, name = each.partition(" = ")
        name = name or chosen.get("point", "{row}")
        rows[row] = {
            bar: experiments.find(
                HOSTS, name.format(row=row, bar=bar), suite, None
            )
            for bar in bars
        }
    if show == "seconds":
        lines = {row: points[""] for row, points in rows.items()}
        return seconds.chart(ident, title, lines, caption)
    figure, what = chosen["figure"], chosen.get("what", "What")
    if show == "bars":
        keys = [("bar", f"from above: {', '.join(bars)}")] * any(bars)
        return _bars(ident, chosen, figure, rows, keys, caption, what)
    body = [
        [escape(row), *(cell(point, figure) for point in points.values())]
        for row, points in rows.items()
    ]
    return _table(ident, title, [what, *bars], body, caption)


def _listed(chosen: dict[str, str], key: str) -> list[str]:
    return [word.strip() for word in chosen.get(key, "").split(";")]


gil = fence(_gil, "figure title", "caption")
frames = fence(_frames, "title part shape", "variants show caption")
database = fence(_database, "suite show title", "figure clients caption")
connections = fence(_connections, "title", "caption")
inside = fence(_inside, "tool", "caption")
hosts = fence(
    _hosts, "title part rows", "figure show point bars what caption"
)
