"""HTML that page elements share: a table, a legend, a figure around both."""

from html import escape


def table(
    head: list[str],
    body: list[list[str]],
    label: str = "",
    servers: list[str] | None = None,
    columns: list[str] | None = None,
) -> str:
    """A table that scrolls by itself where the page is too narrow.

    The first cell of a row is its heading. Cells are HTML, the head is
    plain text. servers: the server of each row, and columns that of each
    column ("" for none), for what hides servers.
    """
    names = servers or [""] * len(body)
    above = columns or [""] * len(head)
    top = "".join(
        f'<th scope="col"{_of(name)}>{escape(cell)}</th>'
        for name, cell in zip(above, head, strict=True)
    )
    rows = "".join(
        f'<tr{_of(name)}><th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for name, row in zip(names, body, strict=True)
    )
    return (
        f'<div class="seven-table" role="group" tabindex="0" '
        f'aria-label="{escape(label or "Table")}"><table><thead><tr>{top}'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _of(server: str) -> str:
    return f' data-server="{escape(server)}"' if server else ""


def legend(keys: list[tuple[str, str]]) -> str:
    """Swatches with their meaning: of each the kind, and what it says."""
    items = "".join(
        f'<span><span class="seven-key seven-key--{kind}"></span>'
        f"{escape(text)}</span>"
        for kind, text in keys
    )
    return f'<p class="seven-legend">{items}</p>'


def folded(summary: str, content: str) -> str:
    """What opens with a click. HTML inside."""
    return (
        f'<details class="seven-data"><summary>{escape(summary)}</summary>'
        f"{content}</details>"
    )


def figure(
    uid: str, kind: str, content: str, caption: str, title: str = ""
) -> str:
    """A figure with its caption. HTML inside; the title is plain text."""
    heading = f'<p class="seven-title">{escape(title)}</p>' if title else ""
    return (
        f'<figure class="seven-{kind}" id="{uid}" data-search-exclude>'
        f"{heading}{content}<figcaption>{caption}</figcaption></figure>"
    )


def preformatted(text: str) -> str:
    """Lines of plain text as they are."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
