"""What every fence shares: its call, its id, its blocks of code.

A fence that cannot do its job raises SuperFencesException, which ends the
build, with or without --strict.
"""

import re
from collections.abc import Callable
from typing import Any

from pymdownx.superfences import (  # type: ignore[import-untyped]
    SuperFencesException,
)

from tools.site.errors import SiteError

Fence = Callable[..., str]
Render = Callable[[str, Any], str]


def fence(render: Render) -> Fence:
    """A fence as superfences calls it, from what makes its HTML."""

    def called(
        source: str, language: str, css_class: str,
        options: dict[str, Any], md: Any, **rest: Any,
    ) -> str:
        try:
            return render(source, md)
        except Exception as error:  # anything else, superfences swallows
            why = str(error) if isinstance(error, SiteError) else repr(error)
            raise SuperFencesException(
                f"the fence {language!r} cannot be made: {why}\n{source}"
            ) from error

    called.__doc__ = render.__doc__
    return called


def uid(md: Any, *words: str) -> str:
    """An id made from words, the same in every build, once on a page."""
    parts = re.findall(r"[a-z0-9]+", " ".join(words).lower())
    stem = "-".join(parts)
    used = md.__dict__.setdefault("seven_ids", {})
    used[stem] = used.get(stem, 0) + 1
    return stem if used[stem] == 1 else f"{stem}-{used[stem]}"


def code(md: Any, text: str, language: str, title: str) -> str:
    """A highlighted block of code like any other on the page."""
    blocks = md.preprocessors["fenced_code_block"]
    html: str = blocks.highlight(
        src=text, language=language, options={"title": title}, md=md,
        classes=[], id_value="", attrs={},
    )
    return html
