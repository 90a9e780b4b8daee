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
    points = [
        (s, data.reference_point(s.name, SUITE))
        for s in SERVERS
        if not data.not_measured(s.name, SUITE)
    ]
    first, run = points[0][1], data.reference()
    rates = [required(point, "requests_per_second") for _, point in points]
    possible = first.possible or 0.0
    scale = (WIDTH - LEFT - RIGHT) / max([*rates, possible])
    limit = possible * scale
    height = TOP + ROW * len(points) + 34
    bottom = height - 28
    title = (
        f"Requests per second with {first.clients} clients at once, "
        f"each request waits {first.delay:g} s"
    )
    below = (
        f"{run.machine.cpu}, {run.machine.cores} cores, "
        f"{run.machine.python}, {run.started[:10]}"
    )
    said = "; ".join(
        f"{server.name} {server.title}: {rate(value)}"
        for (server, _), value in zip(points, rates, strict=True)
    )

    def words(
        content: str, x: str, y: int, size: int = 13,
        weight: int | None = None, colour: str = scheme.ink,
        anchor: str | None = None,
    ) -> str:
        return svg.text(
            content, x=x, y=y, text_anchor=anchor, font_size=size,
            font_weight=weight, fill=colour,
        )

    parts = [
        svg.element("title", escape(title)),
        svg.element("desc", escape(f"{said}.")),
        words(title, "0", 22, 17, 700),
        words(below, "0", 44, colour=scheme.soft),
    ]
    if possible:
        x = f"{LEFT + limit:.1f}"
        parts.append(
            svg.element("line", x1=x, x2=x, y1=TOP - 6, y2=bottom,
                        stroke=scheme.soft, stroke_dasharray="5 4")
            + words(f"possible: {possible:g}", x, bottom + 18, 12,
                    colour=scheme.soft, anchor="middle")
        )
    parts.append(
        svg.element("line", x1=LEFT, x2=LEFT, y1=TOP - 6, y2=bottom,
                    stroke=scheme.line)
    )
    for number, (server, _) in enumerate(points):
        y = TOP + number * ROW
        main = server.path.name == "server.py"
        width = rates[number] * scale
        # A number stands beside its bar, and not across the limit.
        end = limit if width + 40 > limit > width else width
        parts.append(
            words(server.name, "0", y + 16, 13, 700 if main else 400)
            + words(server.title, "92", y + 16)
            + svg.element("rect", x=LEFT, y=y + 3, width=f"{width:.1f}",
                          height=18,
                          fill=scheme.bar if main else scheme.variant)
            + words(rate(rates[number]), f"{LEFT + end + 7:.1f}", y + 16)
        )
    return svg.element(
        "svg", "\n".join(["", *parts, ""]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH, height=height, role="img",
        font_family="system-ui, -apple-system, 'Segoe UI', sans-serif",
    ) + "\n"


def drawn() -> dict[Path, str]:
    """The pictures of the reference as it is, by their files."""
    return {
        FOLDER / f"ladder-{name}.svg": draw(scheme)
        for name, scheme in SCHEMES.items()
    }


def write() -> list[Path]:
    """Draw both pictures anew."""
    pictures = drawn()
    for file, text in pictures.items():
        file.write_text(text, encoding="utf-8")
    return list(pictures)


def stale() -> list[Path]:
    """Pictures that do not show the reference as it is."""
    return [
        file for file, text in drawn().items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    ]
