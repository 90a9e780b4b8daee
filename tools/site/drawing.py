"""A drawing as a figure: docs/assets/drawings/NAME.svg, inline.

::

    name: loop-turn

A drawing begins with its title and its description, is 340 units wide as a
phone is, and has classes only: docs/assets/drawings.css has the colours.
``#tip`` is the head of an arrow.
"""

import re
from typing import Any

from tools.servers import ROOT
from tools.site import elements
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.prose import line as prose

FOLDER = ROOT / "docs" / "assets" / "drawings"
HEAD = re.compile(
    r'<svg (?P<box>viewBox="0 0 340 \d+")[^>]*>\s*'
    r"<title>(?P<title>[^<]+)</title>\s*<desc>(?P<desc>[^<]+)</desc>"
)
TIP = (
    '<defs><marker id="{}-tip" class="tip" viewBox="0 0 6 6" refX="5" '
    'refY="3" markerWidth="6" markerHeight="6" orient="auto-start-reverse">'
    '<path d="M0 0l6 3-6 3z"/></marker></defs>'
)


def _render(chosen: dict[str, str], md: Any) -> str:
    """The drawing with its caption, its ids its own on the page."""
    name = chosen["name"]
    known = sorted(path.stem for path in FOLDER.glob("*.svg"))
    if name not in known:
        raise SiteError(f"no drawing {name!r}; there are {', '.join(known)}")
    source = (FOLDER / f"{name}.svg").read_text("utf-8")
    head = HEAD.match(source)
    if head is None:
        raise SiteError(f"{name}.svg begins without viewBox, title and desc")
    ident = uid(md, "drawing", name)
    start = (
        f'<svg {head["box"]} role="img" '
        f'aria-labelledby="{ident}-title {ident}-desc">'
        f'<title id="{ident}-title">{head["title"]}</title>'
        f'<desc id="{ident}-desc">{head["desc"]}</desc>{TIP.format(ident)}'
    )
    rest = source[head.end():].replace("url(#tip)", f"url(#{ident}-tip)")
    content = start + rest.strip()
    return elements.figure(ident, "drawing", content, prose(md, head["title"]))


drawing = fence(_render, "name")
