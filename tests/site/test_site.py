"""The built site: it builds strictly, and every link leads somewhere."""

import difflib
import functools
import http.client
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from tests.site.conftest import pages, small
from tools.common.launch import Launched
from tools.servers import ROOT, by_name
from tools.site import picture
from tools.site.drawing import FOLDER

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


def test_a_dead_link_in_a_fence_fails_the_strict_build(
    tmp_path: Path,
) -> None:
    links = "[page](nowhere.md), [anchor](other.md#not)"
    quiz = f"```quiz\nquestion: q?\n- [x] a | {links}\n- [ ] b | c\n```\n"
    done = small(tmp_path, index=f"# One\n\n{quiz}", other="# Two\n")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr and "#not" in done.stderr


def test_nobody_finds_an_answer_by_searching(site: Path) -> None:
    """Neither a quiz's, nor an exercise's, nor the exam's."""
    leading = {
        page.relative_to(site).as_posix()
        for page, read_ in read(site).items()
        if any("exam-answers.html" in link for link in read_.links)
        and page.name != "exam-answers.html"
    }
    assert leading == {"teach/index.html"}
    index = (site / "search" / "search_index.json").read_text("utf-8")
    for told in ("teach/exam.html", "Before you run the last line"):
        assert told in index, told
    for hidden in ("exam-answers", "the reason appears"):
        assert hidden not in index, hidden
    text = (site / "exercises" / "02_sockets.html").read_text("utf-8")
    assert "received += data" not in text


def test_no_measured_number_is_typed() -> None:
    """Tables may quote others; sentences must not hold measurements."""
    for page in DOCS.rglob("*.md"):
        text = re.sub(r"(?s)```.*?```|`[^`]*`", "", page.read_text("utf-8"))
        typed = re.findall(
            r"(?m)^(?!\|).*?\b\d+\.\d+ (?:requests|ms|MB)\b", text
        )
        assert not typed, page


def test_a_drawing_has_classes_of_the_sheet_and_no_colours() -> None:
    """So it can be read in the dark, and by print; words say what it shows."""
    sheet = (DOCS / "assets" / "drawings.css").read_text("utf-8")
    sheet = re.sub(r"(?s)/\*.*?\*/", "", sheet)
    for colour in re.findall(r"(?:fill|stroke|color):([^;]+);", sheet):
        assert re.fullmatch(r" (var\(--[a-z0-9-]+\)|none|Canvas\w*)", colour)
    known = set(re.findall(r"\.([a-z]+)", sheet))
    for path in FOLDER.glob("*.svg"):
        root = ElementTree.parse(path).getroot()
        assert len((root[1].text or "").split()) > 40, path
        for element in root.iter():
            own = {"fill", "stroke", "style", "font-size"} & {*element.attrib}
            assert not own, (path, element.attrib)
            assert {*element.get("class", "").split()} <= known, path


def test_the_picture_of_the_readme_shows_the_reference() -> None:
    old = [
        file.name for file, text in picture.drawn().items()
        if file.read_text("utf-8") != text
    ]
    assert not old, f"run python -m tools.site picture: {old} are old"


@pytest.mark.thorough
def test_step_07_serves_the_site(site: Path) -> None:
    """Every file as it is, on one connection, as a browser would ask."""
    with Launched([
        sys.executable, str(by_name("07").path), "--port", "0",
        "--directory", str(site), "--engine", "auto",
    ]) as process:
        port = process.wait_until_ready(60)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for path in site.rglob("*.*"):
            connection.request("GET", f"/{path.relative_to(site).as_posix()}")
            response = connection.getresponse()
            assert response.read() == path.read_bytes(), path
            assert response.status == 200, path
        connection.close()
