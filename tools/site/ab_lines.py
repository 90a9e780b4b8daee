"""A few lines of what ab printed, to be explained below them."""

from typing import Any

from tools.site import data, options
from tools.site.errors import SiteError
from tools.site.fence_call import code, fence


def cut(text: str, first: str, last: str) -> str:
    """The lines from the one that begins with ``first`` to ``last``.

    Both words stand behind any white space. A missing one is an error:
    another version of ab would print something else, and the page has to
    follow it.
    """
    lines = text.splitlines()
    begin = _line(lines, first)
    end = begin + _line(lines[begin:], last)
    return "\n".join(lines[begin : end + 1])


def _line(lines: list[str], word: str) -> int:
    for number, line in enumerate(lines):
        if line.lstrip().startswith(word):
            return number
    raise SiteError(f"ab printed no line that begins with {word!r}")


def _render(chosen: dict[str, str], md: Any) -> str:
    """Lines of ab's first output for a server, unchanged."""
    server, suite = chosen["server"], chosen["suite"]
    options.server(server)
    output = data.printed(server, suite, options.whole(chosen, "clients"))
    return code(md, cut(output, chosen["from"], chosen["to"]), "text", "")


ab_lines = fence(_render, "server suite from to", "clients")
