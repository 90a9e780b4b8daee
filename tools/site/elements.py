"""HTML that page elements share: a table, and a figure around it.

What is called HTML is put in as it is; all else is text.
"""

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

from tools.site.template import html


def table(
    head: Sequence[str], body: Sequence[Sequence[str]], label: str = "",
    servers: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> str:
    """A table that scrolls by itself where the page is too narrow.

    The first cell of a row is its heading; cells are HTML. servers: the
    server of each row, and columns that of each column ("" for none), for
    what hides servers.
    """
    rows = [[Markup(cell) for cell in row] for row in body]
    return html(
        "table", label=label or "Table",
        head=list(zip(columns or [""] * len(head), head, strict=True)),
        body=list(zip(servers or [""] * len(body), rows, strict=True)),
    )


def figure(
    uid: str, kind: str, content: str, caption: str, title: str = ""
) -> str:
    """A figure with its caption. The content and the caption are HTML."""
    heading = f'<p class="seven-title">{escape(title)}</p>' if title else ""
    return (
        f'<figure class="seven-{kind}" id="{uid}" data-search-exclude>'
        f"{heading}{content}<figcaption>{caption}</figcaption></figure>"
    )


def folded(kind: str, summary: str, text: str) -> str:
    """Lines of plain text that open with a click."""
    return (
        f'<details class="seven-{kind}"><summary>{escape(summary)}</summary>'
        f"{preformatted(text)}</details>"
    )


def preformatted(text: str) -> str:
    """Lines of plain text as they are."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
