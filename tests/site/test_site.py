"""The built site: it builds strictly, and every link leads somewhere."""

import difflib
import functools
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.site.conftest import pages, small
from tools.learn.exercises import everything
from tools.rules import RULES
from tools.servers import ROOT
from tools.site import picture
from tools.site.drawing import FOLDER
from tools.site.exercise import anchor, page_of

DOCS = ROOT / "docs"
# What a browser fetches by itself.
LOADING = {"src", "srcset", "data"}
LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect"}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """What one page links to, loads, and can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        given = {name: value or "" for name, value in attrs}
        rel = set(given.get("rel", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and rel & LOADING_LINKS:
            self.loads.append(given["href"])
        self.loads += [given[name] for name in LOADING & given.keys()]
        if "id" in given:
            self.ids.append(given["id"])


@functools.cache
def read(folder: Path) -> dict[Path, Page]:
    return {p: Page(p.read_text(encoding="utf-8")) for p in pages(folder)}


def test_every_page_is_there(site: Path) -> None:
    names = {p.relative_to(site).with_suffix("") for p in pages(site)}
    sources = DOCS.rglob("*.md")
    assert names == {p.relative_to(DOCS).with_suffix("") for p in sources}


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    found = read(site)
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


def test_nothing_is_loaded_from_outside(site: Path) -> None:
    for path, page in read(site).items():
        for address in page.loads:
            if address.startswith("data:"):
                continue
            parts = urlsplit(address)
            assert not parts.scheme and not parts.netloc, (path, address)
            assert (path.parent / parts.path).resolve().is_file(), address
    for sheet in site.rglob("*.css"):
        for match in CSS_URL.finditer(sheet.read_text(encoding="utf-8")):
            address = match[1] or match[2]
            assert address.startswith("data:"), (sheet, address)


def test_each_rule_and_each_exercise_has_its_place(site: Path) -> None:
    """An exercise: below its heading, and in the list of its step alone."""
    found = read(site)
    contract = found[site / "reference" / "contract.html"]
    assert {f"rule-{name}" for name in RULES} <= {*contract.ids}
    exercises = everything()
    for page in {page_of(e.step) for e in exercises}:
        there = [e for e in exercises if page_of(e.step) == page]
        places = [
            place for e in there
            for place in (anchor(e), f"exercise-{e.id.replace('.', '-')}")
        ]
        ids = found[site / f"{page}.html"].ids
        assert [place for place in ids if place in places] == places
        links = found[site / f"steps/{Path(page).name}.html"].links
        listed = {link for link in links if re.search("exercises/0.*#", link)}
        assert listed == {f"../{page}.html#{anchor(e)}" for e in there}


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
        path.relative_to(site).as_posix() for path, page in read(site).items()
        if "exam-answers.html" in page.links
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
    """So it can be read in the dark and on paper."""
    sheet = (DOCS / "assets" / "drawings.css").read_text("utf-8")
    sheet = re.sub(r"(?s)/\*.*?\*/", "", sheet)
    for colour in re.findall(r"(?:fill|stroke|color):([^;]+);", sheet):
        assert re.fullmatch(r" (var\(--[a-z0-9-]+\)|none|Canvas\w*)", colour)
    known = {*re.findall(r"\.([a-z]+)", sheet)}
    for path in FOLDER.glob("*.svg"):
        text = path.read_text("utf-8")
        assert not re.search(r' (fill|stroke|style|font-size)="', text), path
        classes = " ".join(re.findall(r' class="([^"]*)"', text))
        assert {*classes.split()} <= known, path


def test_the_picture_of_the_readme_shows_the_reference() -> None:
    old = [
        file.name for file, text in picture.drawn().items()
        if file.read_text("utf-8") != text
    ]
    assert not old, f"run python -m tools.site.picture: {old} are old"
