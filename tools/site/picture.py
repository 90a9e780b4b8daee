"""The picture in the README: the ladder as an SVG file, light and dark.

Unlike the charts of the pages it stands alone, so it has a viewBox and
its colours are written in it. ``python -m tools.site.picture`` draws it.
"""

import sys
from pathlib import Path

from tools.servers import ROOT, SERVERS
from tools.site import data
from tools.site.errors import SiteError
from tools.site.figures import rate, required
from tools.site.template import ENVIRONMENT

FOLDER = ROOT / "docs" / "assets"
SUITE = "classic"
PLOT = 394  # px for the longest bar
SCHEMES = {  # name -> its colours
    "light": {
        "ink": "#1f2328", "soft": "#59636e", "bar": "#1d4f8c",
        "variant": "#7f9fc6", "line": "#d1d9e0",
    },
    "dark": {
        "ink": "#f0f6fc", "soft": "#9198a1", "bar": "#6cb2ff",
        "variant": "#3f648f", "line": "#3d444d",
    },
}


def draw(colours: dict[str, str]) -> str:
    """The reference's classic load as one picture."""
    rows = []  # server, point, requests/s
    for server in SERVERS:
        if not data.not_measured(server.name, SUITE):
            point = data.reference_point(server.name, SUITE)
            found = required(point, "requests_per_second")
            rows.append((server, point, found))
    first = rows[0][1]
    possible = first.possible or 0.0
    return ENVIRONMENT.get_template("picture.svg").render(
        rows=rows, first=first, possible=possible, run=data.reference(),
        scale=PLOT / max(possible, *(found for _, _, found in rows)),
        rate=rate, **colours,
    ) + "\n"


def drawn() -> dict[Path, str]:
    """The pictures of the reference as it is, by their files."""
    return {
        FOLDER / f"ladder-{name}.svg": draw(colours)
        for name, colours in SCHEMES.items()
    }


if __name__ == "__main__":
    try:
        for file, text in drawn().items():
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(ROOT)} written")
    except SiteError as error:
        sys.exit(str(error))
