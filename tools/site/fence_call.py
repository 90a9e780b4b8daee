"""How a page calls a fence, and what it may ask of the page.

A fence that cannot do its job raises SuperFencesException, which ends the
build, with or without --strict.
"""

import functools
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from pymdownx.superfences import (  # type: ignore[import-untyped]
    SuperFencesException,
)

from tools.site import options
from tools.site.errors import SiteError

# What stands in a fence, as it was read, and the page: HTML.
Render = Callable[[Any, Any], str]


def fence(
    render: Render, required: str = "", optional: str = ""
) -> Callable[..., str]:
    """A fence as superfences calls it; its options, by their names.

    render gets them as a dictionary.
    """
    return fence_of(render, functools.partial(
        options.parse, required=required.split(), optional=optional.split()
    ))


def fence_of(
    render: Render, read: Callable[[str], Any]
) -> Callable[..., str]:
    """A fence whose body is read in its own way.

    Zensical pickles the settings, so this is no function inside another.
    """
    return functools.partial(_called, render, read)


def _called(
    render: Render, read: Callable[[str], Any], source: str, language: str,
    css_class: str, settings: dict[str, Any], md: Any, **rest: Any,
) -> str:
    try:
        return render(read(source), md)
    except Exception as error:  # anything else, superfences swallows
        why = str(error) if isinstance(error, SiteError) else repr(error)
        raise SuperFencesException(
            f"the fence {language!r} cannot be made: {why}\n{source}"
        ) from error


def up(md: Any) -> str | None:
    """From the page to the top of the site; None if no builder tells.

    MkDocs and Zensical each have their own way of saying which page it is.
    """
    url = None
    if "relpath" in md.treeprocessors:
        url = md.treeprocessors["relpath"].file.url
    elif "rendering_context" in md.preprocessors:
        url = md.preprocessors["rendering_context"].page.url
    return None if url is None else "../" * url.count("/")


def uid(md: Any, *words: str) -> str:
    """An id made from words, the same in every build, once on a page."""
    parts = re.findall(r"[a-z0-9]+", " ".join(words).lower())
    stem = "-".join(parts)
    used = md.__dict__.setdefault("seven_ids", {})
    used[stem] = used.get(stem, 0) + 1
    return stem if used[stem] == 1 else f"{stem}-{used[stem]}"


def code(
    md: Any, text: str, language: str, title: str, file: str = "",
    numbers: Sequence[int | None] = (),
) -> str:
    """A highlighted block of code like any other on the page.

    file and numbers: where its lines come from, one number a line (None:
    from nowhere), so that the player of recordings finds them.
    """
    blocks = md.preprocessors["fenced_code_block"]
    html: str = blocks.highlight(
        src=text, language=language, options={"title": title}, md=md,
        classes=[], id_value="", attrs={},
    )
    return _numbered(html, file, numbers) if file else html


def _numbered(
    html: str, file: str, numbers: Sequence[int | None]
) -> str:
    """The same block, each line in an element that says where it is from.

    Tags never go over the end of a line: Pygments sees to that.
    """
    before, opening, rest = html.partition("<code>")
    content, closing, after = rest.rpartition("</code>")
    lines = [f"{line}\n" for line in content.rstrip("\n").split("\n")]
    if not opening or not closing or len(lines) != len(numbers):
        raise SiteError(f"the lines of {file} cannot be told apart")
    marked = "".join(
        line if number is None
        else f'<span data-line="{number}">{line}</span>'
        for line, number in zip(lines, numbers, strict=True)
    )
    return f'{before}<code data-file="{escape(file)}">{marked}</code>{after}'
