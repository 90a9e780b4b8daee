"""The lab about copies: a chart of MB/s, and where the time goes.

The data are docs/data/labs-frames, of ``./bench.sh labs frames``: its
points are variants of 06_asyncio/lab_frames.py on an interpreter
("newest"), in a shape ("two processes"), and perhaps with huge pages.
"""

import json
from html import escape
from typing import Any

from tools.data.results import Point
from tools.site import charts, data, elements, experiments, options
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, value

RUN = SUITE = "labs-frames"
FIGURE = "mb_per_second"
SHAPES = {"one": "one process", "two": "two processes"}
HUGE = ", huge pages"
IN_C = "C-recv"  # what the line shows
HEAD = ["Variant", "First", "Second", "Third"]  # functions of a profile


def _render(chosen: dict[str, str], md: Any) -> str:
    """A chart, or with ``show: profile`` a table of functions.

    part: oldest, newest or libraries; shape: one or two; variants: which,
    in this order (default: all, as measured).
    """
    if chosen["shape"] not in SHAPES:
        raise SiteError(f"shape is one or two, not {chosen['shape']!r}")
    where = f"{chosen['part']}, {SHAPES[chosen['shape']]}"
    names = options.words(chosen, "variants")
    kinds = {"chart": _chart, "profile": _profile}
    show = chosen.get("show", "chart")
    if show not in kinds:
        raise SiteError(f"show is chart or profile, not {show!r}")
    return kinds[show](uid(md, "frames", show, where), chosen, where, names)


def _chart(
    ident: str, chosen: dict[str, str], where: str, names: list[str]
) -> str:
    """A row a variant: with the usual pages, and with huge ones."""
    points = experiments.points(RUN, SUITE)
    usual = _variants(points, where)
    huge = _variants(points, where + HUGE)
    missing = [name for name in names if name not in usual]
    if missing or not usual:
        raise SiteError(
            f"{RUN} has nothing in {where!r} of "
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
    shape = SHAPES[chosen["shape"]]
    in_c = _variants(points, f"C, {shape}").get(IN_C)
    limit = None
    if in_c is not None and (speed := value(in_c, FIGURE)) is not None:
        limit = (speed, f"{IN_C}, usual pages: {speed:,.0f}")
    repeats = max(len(bar.point.runs) for row in rows for bar in row.bars)
    return charts.row_chart(
        ident, chosen["title"], FIGURE, rows, keys,
        _caption(chosen, repeats), "Variant", limit,
    )


def _caption(chosen: dict[str, str], repeats: int = 1) -> str:
    """Which Python ran it, what the page says, and how it was measured."""
    version = data.experiment(RUN).tools.get(chosen["part"], "")
    ran = f"On Python {version.partition(',')[0]}. " if version else ""
    return experiments.caption(RUN, ran + chosen.get("caption", ""), repeats)


def _variants(points: list[Point], where: str) -> dict[str, Point]:
    return {p.server: p for p in points if p.variant == where}


def _profile(
    ident: str, chosen: dict[str, str], where: str, names: list[str]
) -> str:
    """The functions that took most of each variant's time."""
    file = data.folder(RUN) / "profile.json"
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


frames = fence(_render, "title part shape", "variants show caption")
