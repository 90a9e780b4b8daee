"""The picture in the README: the ladder as an SVG file, light and dark.

Unlike the charts of the pages it stands alone, so it has a viewBox and
its colours are written in it.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path

from tools.servers import ROOT, SERVERS
from tools.site import data, svg
from tools.site.figures import rate, required

FOLDER = ROOT / "docs" / "assets"
SUITE = "classic"
WIDTH = 820
LEFT = 366  # px for the names
RIGHT = 60  # px for the values
TOP = 74  # px for the title
ROW = 30


@dataclass(frozen=True)
class Scheme:
    """The colours of one picture."""

    ink: str
    soft: str
    bar: str
    variant: str
    line: str


SCHEMES = {
    "light": Scheme("#1f2328", "#59636e", "#1d4f8c", "#7f9fc6", "#d1d9e0"),
    "dark": Scheme("#f0f6fc", "#9198a1", "#6cb2ff", "#3f648f", "#3d444d"),
}


def draw(scheme: Scheme) -> str:
    """The reference's classic load as one picture."""
    points = [(s, data.reference_point(s.name, SUITE)) for s in SERVERS]
    first = points[0][1]
    rates = [required(p, "requests_per_second") for _, p in points]
    top = max([*rates, first.possible or 0.0])
    scale = (WIDTH - LEFT - RIGHT) / top
    height = TOP + ROW * len(points) + 34
    title = (
        f"Requests per second with {first.clients} clients at once, "
        f"each request waits {first.delay:g} s"
    )
    said = "; ".join(
        f"{server.name} {server.title}: {rate(value)}"
        for (server, _), value in zip(points, rates, strict=True)
    )
    parts = [
        svg.element("title", escape(title)),
        svg.element("desc", escape(f"{said}.")),
        svg.text(title, x=0, y=22, font_size=17, font_weight=700,
                 fill=scheme.ink),
        svg.text(_subtitle(), x=0, y=44, font_size=13, fill=scheme.soft),
    ]
    bottom = height - 28
    limit = (first.possible or 0.0) * scale
    if first.possible:
        x = f"{LEFT + first.possible * scale:.1f}"
        parts.append(
            svg.element("line", x1=x, x2=x, y1=TOP - 6, y2=bottom,
                        stroke=scheme.soft, stroke_dasharray="5 4")
            + svg.text(f"possible: {first.possible:g}", x=x, y=bottom + 18,
                       text_anchor="middle", font_size=12, fill=scheme.soft)
        )
    parts.append(
        svg.element("line", x1=LEFT, x2=LEFT, y1=TOP - 6, y2=bottom,
                    stroke=scheme.line)
    )
    for number, ((server, _), value) in enumerate(
        zip(points, rates, strict=True)
    ):
        y = TOP + number * ROW
        main = server.path.name == "server.py"
        width = value * scale
        parts.append(
            svg.text(server.name, x=0, y=y + 16, font_size=13,
                     font_weight=700 if main else 400, fill=scheme.ink)
            + svg.text(server.title, x=92, y=y + 16, font_size=13,
                       fill=scheme.ink)
            + svg.element("rect", x=LEFT, y=y + 3, width=f"{width:.1f}",
                          height=18,
                          fill=scheme.bar if main else scheme.variant)
            + svg.text(rate(value), x=f"{_beside(width, limit):.1f}",
                       y=y + 16, font_size=13, fill=scheme.ink)
        )
    return svg.element(
        "svg", "\n".join(["", *parts, ""]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH, height=height, role="img",
        font_family="system-ui, -apple-system, 'Segoe UI', sans-serif",
    ) + "\n"


def _beside(width: float, limit: float) -> float:
    """Where a bar's number goes: beside it, and not across the limit."""
    crosses = width + 40 > limit > width
    return LEFT + (limit if crosses else width) + 7


def _subtitle() -> str:
    run = data.reference()
    return (
        f"{run.machine.cpu}, {run.machine.cores} cores, "
        f"{run.machine.python}, {run.started[:10]}"
    )


def file(scheme: str) -> Path:
    """Where the picture of a scheme is."""
    return FOLDER / f"ladder-{scheme}.svg"


def write() -> list[Path]:
    """Draw both pictures anew."""
    written = []
    for name, scheme in SCHEMES.items():
        file(name).write_text(draw(scheme), encoding="utf-8")
        written.append(file(name))
    return written


def stale() -> list[Path]:
    """Pictures that do not show the reference as it is."""
    return [
        file(name)
        for name, scheme in SCHEMES.items()
        if not file(name).is_file()
        or file(name).read_text(encoding="utf-8") != draw(scheme)
    ]
