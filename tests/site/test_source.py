"""Pieces of files by name, and what changed between two."""

import pytest

from tests.site.conftest import Render
from tools.servers import SERVERS
from tools.site import source
from tools.site.errors import SiteError

FILE = '''\
"""The top.

Two lines.
"""

import os

# One limit.
LIMIT = 3  # bytes
TYPED: int = 4
one, two = 2, 3


class Thing:
    """A thing."""

    # Above it.
    @property
    def name(self) -> str:
        """Its name."""
        return "x"


async def later() -> None:
    """Later."""


# === HTTP, the same in every step ===================================
# About it.


def shared() -> None:
    """Shared."""


# === Command line, the same in every step ===========================


if __name__ == "__main__":
    later()
'''


@pytest.mark.parametrize(
    ("name", "first", "last", "begins"),
    [
        ("docstring", 1, 4, '"""The top.'),
        ("LIMIT", 8, 9, "# One limit.\nLIMIT = 3"),
        ("TYPED", 10, 10, "TYPED: int"),
        ("two", 11, 11, "one, two = 2, 3"),
        ("Thing", 14, 21, "class Thing"),
        ("Thing.name", 17, 21, "# Above it.\n@property\ndef name"),
        ("later", 24, 25, "async def later"),
        ("shared", 32, 33, "def shared"),
    ],
)
def test_finds_by_name(name: str, first: int, last: int, begins: str) -> None:
    piece = source.find(FILE, name)
    assert (piece.first, piece.last) == (first, last)
    assert piece.text.startswith(begins)
    assert len(piece.text.splitlines()) == last - first + 1


def test_a_missing_name_is_an_error() -> None:
    for name in ("nobody", "Thing.nobody", "nobody.at_all"):
        with pytest.raises(SiteError, match="nobody"):
            source.find(FILE, name)


def test_the_idea_stands_between_docstring_and_banner() -> None:
    idea = source.idea(FILE)
    assert (idea.first, idea.last) == (6, 25)


def test_every_server_has_an_idea() -> None:
    for one in SERVERS:
        idea = source.idea(source.read(one.name)).text
        assert "def " in idea
        assert "# ===" not in idea
        assert "def between(" not in idea  # of the command line section


def test_diff_leaves_the_shared_sections_out() -> None:
    new = FILE.replace("LIMIT = 3", "LIMIT = 5").replace(
        "    later()", "    main()"
    )
    new = new.replace('"""Shared."""', '"""Changed, not shown."""')
    found = source.changes(FILE, new)
    assert (found.added, found.removed) == (2, 2)
    assert "+LIMIT = 5  # bytes" in found.text
    assert "+    main()" in found.text
    assert "shown" not in found.text
    assert "@@" not in found.text
    with pytest.raises(SiteError, match="do not differ"):
        source.changes(FILE, FILE)


def test_source_fence(render: Render) -> None:
    text = source.read("03-pool")
    serve, page, head, line = (
        source.find(text, name)
        for name in ("serve", "PAGE", "MAX_HEAD", "MAX_LINE")
    )
    for what, lines in (
        ("name: serve", f"{serve.first} to {serve.last}"),
        # Neighbours are one run of lines.
        ("name: MAX_HEAD, MAX_FIELDS, PAGE, MAX_LINE",
         f"{head.first} to {head.last + 1}, {page.first} to {page.last}, "
         f"{line.first}"),
        ("whole: yes", f"1 to {len(text.splitlines())}"),
    ):  # fmt: skip
        html = render(f"```source\nfile: 03-pool\n{what}\n```")
        assert f">03_threading/pool.py, lines {lines}</span>" in html
        assert "language-python" in html


def test_diff_fence(render: Render) -> None:
    html = render("```stepdiff\nfrom: 02\nto: 03\n```")
    assert "language-diff" in html
    assert "02_sockets/server.py → 03_threading/server.py: " in html
