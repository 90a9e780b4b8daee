"""The labs about the GIL, large frames and a database: fences of their own.

The data are docs/data/labs-NAME, of ``./bench.sh labs NAME``. A point is an
interpreter on so many CPUs ("2 CPUs"); a variant of the echo on an
interpreter, in a shape ("newest, two processes"), perhaps with huge pages;
or a handler with a pool of some size ("10 connections").
"""

import json
from collections.abc import Collection
from dataclasses import replace
from html import escape
from typing import Any

from tools.data.results import Point
from tools.servers import by_name
from tools.site import charts, data, elements, experiments, options
from tools.site import sweep_chart as sweep
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, cell, required, value, values

GIL, FRAMES, DATABASE = "labs-gil", "labs-frames", "labs-database"
# Variant of a point -> class of its bar, and what the legend says.
CPUS = {
    "1 CPU": ("bar", "upper bar: one CPU"),
    "2 CPUs": ("mark", "lower bar: two CPUs"),
}
SHAPES = {"one": "one process", "two": "two processes"}
HUGE = ", huge pages"
IN_C = "C-recv"  # what the line across the bars shows
HEAD = ["Variant", "First", "Second", "Third"]  # functions of a profile


def _known(key: str, word: str, known: Collection[str]) -> str:
    """An option that is one of these words."""
    if word not in known:
        raise SiteError(f"{key} is one of {', '.join(known)}, not {word!r}")
    return word


def _most_runs(points: list[Point]) -> int:
    return max(len(point.runs) for point in points)


# The GIL ------------------------------------------------------------------


def _gil(chosen: dict[str, str], md: Any) -> str:
    """One figure: a row an interpreter, a bar on one CPU and on two."""
    name = chosen["figure"]
    points = experiments.points(GIL, GIL)
    if all(value(point, name) is None for point in points):
        raise SiteError(f"{GIL} has no {name}")
    free = {p.server for p in points if 0 in values(p, "gil")}
    rows: dict[str, charts.Row] = {}
    for point in points:
        label = f"Python {point.server}" + ", no GIL" * (point.server in free)
        row = rows.setdefault(point.server, charts.Row(label, []))
        kind, _ = CPUS[point.variant]
        row.bars.append(charts.Bar(point, kind, point.variant))
    there = {point.variant for point in points}
    keys = [key for variant, key in CPUS.items() if variant in there]
    words = [chosen["caption"]] if "caption" in chosen else []
    if (repeats := _most_runs(points)) > 1:
        words.append(f"Medians of {repeats} runs.")
    return charts.row_chart(
        uid(md, "gil", name), chosen["title"], name, [*rows.values()], keys,
        experiments.caption(GIL, " ".join(words)), "Interpreter",
    )


# Large frames -------------------------------------------------------------


def _frames(chosen: dict[str, str], md: Any) -> str:
    """A chart of MB/s, or with ``show: profile`` a table of functions.

    part: oldest, newest or libraries; shape: one or two; variants: which,
    in this order (default: all, as measured).
    """
    shape = SHAPES[_known("shape", chosen["shape"], SHAPES)]
    where = f"{chosen['part']}, {shape}"
    names = options.words(chosen, "variants")
    show = _known("show", chosen.get("show", "chart"), ("chart", "profile"))
    ident = uid(md, "frames", show, where)
    if show == "profile":
        return _profile(ident, chosen, where, names)
    usual, huge, in_c = (
        {p.server: p for p in experiments.points(FRAMES, FRAMES)
         if p.variant == variant}
        for variant in (where, where + HUGE, f"C, {shape}")
    )
    missing = [name for name in names if name not in usual]
    if missing or not usual:
        raise SiteError(
            f"{FRAMES} has nothing in {where!r} of "
            f"{', '.join(missing) or 'any variant'}"
        )
    rows = []
    for name in names or usual:
        bars = [charts.Bar(usual[name], "bar", "usual pages")]
        if name in huge and usual[name].status == "ok":
            bars.append(charts.Bar(huge[name], "mark", "huge pages"))
        rows.append(charts.Row(name, bars))
    keys = [("bar", "usual pages (4 KiB)")]
    if any(len(row.bars) > 1 for row in rows):
        keys = [("bar", "upper bar: usual pages"),
                ("mark", "lower bar: huge pages")]  # fmt: skip
    figure, limit = "mb_per_second", None
    if IN_C in in_c and (speed := value(in_c[IN_C], figure)) is not None:
        limit = (speed, f"{IN_C}, usual pages: {speed:,.0f}")
    repeats = _most_runs([bar.point for row in rows for bar in row.bars])
    return charts.row_chart(
        ident, chosen["title"], figure, rows, keys,
        _caption(chosen, repeats), "Variant", limit,
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
    except OSError as error:
        raise SiteError(f"{file.name}: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise SiteError(f"{file.name} has no {error} in {where!r}") from error
    body = []
    for name, functions in found.items():
        cells = [
            f"{100 * share:.0f}&nbsp;% <code>{escape(function)}</code>"
            for function, share in functions
        ]
        row = [f"<strong>{escape(name)}</strong>", *cells, *[DASH] * 3]
        body.append(row[: len(HEAD)])
    return elements.figure(
        ident, "measured", elements.table(HEAD, body, chosen["title"]),
        _caption(chosen), chosen["title"],
    )


# A database ---------------------------------------------------------------


def _database(chosen: dict[str, str], md: Any) -> str:
    """One figure of one suite.

    show: lines over the clients (requests/s only), a table over them, or
    bars; clients: how many, for bars.
    """
    show = _known("show", chosen["show"], ("lines", "table", "bars"))
    suite, title = chosen["suite"], chosen["title"]
    name = chosen.get("figure", charts.RATE)
    points = experiments.points(
        DATABASE, suite, options.whole(chosen, "clients")
    )
    ident = uid(md, "database", suite, show, name)
    caption = experiments.caption(
        DATABASE, chosen.get("caption", ""), _most_runs(points)
    )
    lines: dict[str, list[Point]] = {}
    for point in points:
        label = f"{point.server}, {point.variant}"
        lines.setdefault(label, []).append(point)
    if show == "bars":
        rows = []
        for label, each in lines.items():
            for point in each:
                required(point, name)
            rows += [charts.Row(label, [charts.Bar(p)]) for p in each]
        return charts.row_chart(
            ident, title, name, rows, [], caption, "Handler"
        )
    if show == "lines":
        every = [_line(each, points) for each in lines.values()]
        return sweep.sweep(ident, title, every, caption)
    clients = sorted({point.clients for point in points})
    body = []
    for label, each in lines.items():
        by_clients = {point.clients: point for point in each}
        body.append([
            f"<strong>{escape(label)}</strong>",
            *(cell(by_clients.get(number), name) for number in clients),
        ])
    head = ["Handler", *(f"{n:,} client{'s' * (n > 1)}" for n in clients)]
    table = elements.table(head, body, title)
    return elements.figure(ident, "measured", table, caption, title)


def _line(line: list[Point], every: list[Point]) -> sweep.Line:
    """The line of a handler looks as that of its server's step.

    Its name is short, as it stands beside the line: its pool is a part of
    it ("06-async, 10") if there are several of this handler.
    """
    name = line[0].server
    if len({p.variant for p in every if p.server == name}) > 1:
        name += f", {line[0].variant.partition(' ')[0]}"
    return sweep.Line(
        replace(by_name(line[0].server[:2]), name=name),
        sorted(line, key=lambda point: point.clients),
    )


gil = fence(_gil, "figure title", "caption")
frames = fence(_frames, "title part shape", "variants show caption")
database = fence(_database, "suite show title", "figure clients caption")
