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
        ("Thing", 13, 20, "class Thing"),
        ("Thing.name", 16, 20, "# Above it.\n@property\ndef name"),
        ("later", 23, 24, "async def later"),
        ("shared", 31, 32, "def shared"),
    ],
)
def test_finds_by_name(name: str, first: int, last: int, begins: str) -> None:
    piece = source.find(FILE, name)
    assert (piece.first, piece.last) == (first, last)
    assert piece.text.startswith(begins)
    assert len(piece.text.splitlines()) == last - first + 1


def test_finds_one_of_two_names() -> None:
    text = "a = 1\none, two = 2, 3\n"
    assert source.find(text, "two").text == "one, two = 2, 3"


def test_a_missing_name_is_an_error() -> None:
    for name in ("nobody", "Thing.nobody", "nobody.at_all"):
        with pytest.raises(SiteError, match="nobody"):
            source.find(FILE, name)


def test_section_and_idea() -> None:
    assert source.section(FILE, "HTTP").first == 27
    assert source.section(FILE, "HTTP").last == 32
    assert "__main__" in source.section(FILE, "Command line").text
    with pytest.raises(SiteError, match="HTTP, the same"):
        source.section(FILE, "Nothing")
    idea = source.idea(FILE)
    assert (idea.first, idea.last) == (6, 24)


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
    html = render("```source\nfile: 02\nname: serve\n```")
    piece = source.find(source.read("02"), "serve")
    title = f"02_sockets/server.py, lines {piece.first} to {piece.last}"
    assert f">{title}</span>" in html
    assert "language-python" in html
    for part in ("section: HTTP", "idea: yes", "whole: yes"):
        html = render(f"```source\nfile: 02\n{part}\n```")
        assert "language-python" in html
    html = render("```source\nfile: 03-pool\nname: PAGE, MAX_LINE\n```")
    assert "03_threading/pool.py, lines" in html


def test_neighbours_are_one_run_of_lines() -> None:
    found = [source.Piece(a, b, "") for a, b in ((5, 7), (8, 8), (10, 12))]
    assert source._runs(found) == [(5, 8), (10, 12)]


def test_diff_fence(render: Render) -> None:
    html = render("```stepdiff\nfrom: 02\nto: 03\n```")
    assert "language-diff" in html
    assert "02_sockets/server.py → 03_threading/server.py: " in html
