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


# === HTTP ============================================================
# About it.


def shared() -> None:
    """Shared."""


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


def test_files_are_named_by_server_or_by_path() -> None:
    for server in SERVERS:
        assert source.label(server.name) == server.file
    assert source.label("02_sockets/web.py") == "02_sockets/web.py"
    for name, why in (
        ("02_sockets/nothing.py", "no file"), ("../web.py", "not in this"),
    ):
        with pytest.raises(SiteError, match=why):
            source.read(name)


def test_diff_shows_all_of_both_files() -> None:
    new = FILE.replace("LIMIT = 3", "LIMIT = 5").replace(
        "    later()", "    main()"
    )
    new = new.replace("The top.", "The end.").replace("import os", "import re")
    found = source.changes(FILE, new)
    assert (found.added, found.removed) == (4, 4)
    for line in (
        '+"""The end.', "+import re", "+LIMIT = 5  # bytes", "+    main()"
    ):
        assert line in found.text.splitlines()
    assert "@@" not in found.text
    assert "Two lines." in found.text
    assert "Two lines." not in source.changes(FILE, new, context=0).text
    with pytest.raises(SiteError, match="do not differ"):
        source.changes(FILE, FILE)


def test_source_fence(render: Render) -> None:
    text = source.read("03_threading/web.py")
    main, page, head, line = (
        source.find(text, name)
        for name in ("main", "PAGE", "MAX_HEAD", "MAX_LINE")
    )
    for what, lines in (
        ("name: main", f"{main.first} to {main.last}"),
        # Neighbours are one run of lines.
        ("name: MAX_HEAD, MAX_FIELDS, PAGE, MAX_LINE",
         f"{head.first} to {head.last + 1}, {page.first} to {page.last}, "
         f"{line.first}"),
        ("whole: yes", f"1 to {len(text.splitlines())}"),
    ):  # fmt: skip
        html = render(f"```source\nfile: 03_threading/web.py\n{what}\n```")
        assert f">03_threading/web.py, lines {lines}</span>" in html
        assert "language-python" in html


def test_diff_fence(render: Render) -> None:
    html = render("```stepdiff\nfrom: 02\nto: 03\n```")
    assert "language-diff" in html
    assert "02_sockets/server.py → 03_threading/server.py: " in html
