"""The built site: it builds strictly, and every link leads somewhere."""

import difflib
import functools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.site.conftest import pages, small
from tools.servers import ROOT

DOCS = ROOT / "docs"
# What a browser fetches by itself.
LOADING = {"src", "srcset"}
LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect"}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page(HTMLParser):
    """What one page links to, loads, and can be linked to."""

    text: str
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        rel = set(given.get("rel", "").split())
        if tag == "link" and rel & LOADING_LINKS:
            self.loads.append(given["href"])
        if tag == "object":
            self.loads.append(given["data"])
        self.loads += [given[name] for name in LOADING & given.keys()]


@functools.cache
def read(folder: Path) -> dict[Path, Page]:
    return {p: Page(p.read_text(encoding="utf-8")) for p in pages(folder)}


def test_every_page_is_there(built: Path) -> None:
    names = {p.relative_to(built).with_suffix("") for p in pages(built)}
    sources = DOCS.rglob("*.md")
    assert names == {p.relative_to(DOCS).with_suffix("") for p in sources}


def test_links_and_anchors_lead_somewhere(built: Path) -> None:
    found = read(built)
    dead = []
    for path, page in found.items():
        twice = {i for i in page.ids if page.ids.count(i) > 1}
        assert not twice, path
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert parts.scheme == "https", f"{path.name}: {link}"
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            anchor = unquote(parts.fragment)
            if not target.is_file() or (
                anchor and anchor not in found[target].ids
            ):
                dead.append(f"{path.name}: {link}")
    assert not dead


def test_nothing_is_loaded_from_outside(built: Path) -> None:
    for path, page in read(built).items():
        for address in page.loads:
            if address.startswith("data:"):
                continue
            parts = urlsplit(address)
            assert not parts.scheme and not parts.netloc, (path, address)
            assert (path.parent / parts.path).resolve().is_file(), address
    for sheet in built.rglob("*.css"):
        for match in CSS_URL.finditer(sheet.read_text(encoding="utf-8")):
            address = match[1] or match[2]
            assert address.startswith("data:"), (sheet, address)


@pytest.mark.thorough
def test_both_builders_make_the_same_pages(
    site: Path, zensical_site: Path
) -> None:
    """What the page says, and every element a fence has made."""
    for path in pages(site):
        name = path.relative_to(site)
        ours, theirs = content(path), content(zensical_site / name)
        assert len(ours) > 20, name
        other = difflib.unified_diff(ours, theirs, lineterm="", n=0)
        assert ours == theirs, f"{name}: {list(other)[:20]}"


def content(page: Path) -> list[str]:
    """A page without menus: tags and texts, but what is the builder's.

    One takes away what says "not for the search" when it has heeded it,
    the other adds an anchor that the link to skip the menus leads to.
    """
    text = re.split("</?article[^>]*>", page.read_text("utf-8"))[1]
    text = text.replace(" data-search-exclude", "")
    text = text.replace('<a id="__skip" tabindex="-1"></a>', "")
    parts = re.findall(r"<[^>]+>|[^<]+", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


@pytest.mark.thorough
def test_the_readers_numbers_are_on_the_site(own_site: Path) -> None:
    home = (own_site / "index.html").read_text(encoding="utf-8")
    assert 'class="seven-own"' in home
    assert "(yours " in home


def test_a_missing_name_fails_the_strict_build(tmp_path: Path) -> None:
    page = "# Page\n\n```source\nfile: 02\nname: nobody\n```\n"
    done = small(tmp_path, index=page)
    assert done.returncode != 0
    assert "there is no 'nobody' in it" in done.stderr


def test_no_measured_number_is_typed() -> None:
    """Tables may quote others; sentences must not hold measurements."""
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"(?s)```.*?```|`[^`]*`", "", page.read_text("utf-8"))
        typed = re.findall(
            r"(?m)^(?!\|).*?\b\d+\.\d+ (?:requests|ms|MB)\b", text
        )
        assert not typed, page
