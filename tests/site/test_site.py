"""The built site: it builds strictly, and every link leads somewhere."""

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.site.conftest import pages
from tools.servers import ROOT, SERVERS

LOADS = {  # what a browser fetches by itself
    ("script", "src"), ("img", "src"), ("source", "src"),
    ("source", "srcset"), ("img", "srcset"), ("iframe", "src"),
    ("video", "src"), ("audio", "src"), ("embed", "src"), ("object", "data"),
}  # fmt: skip
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
        for name, value in given.items():
            if (tag, name) in LOADS:
                self.loads.append(value)


def read(folder: Path) -> dict[Path, Page]:
    return {p: Page(p.read_text(encoding="utf-8")) for p in pages(folder)}


def test_every_page_is_there(site: Path) -> None:
    names = {p.relative_to(site).as_posix() for p in pages(site)}
    steps = {Path(server.file).parts[0] for server in SERVERS}
    assert {f"steps/{step}.html" for step in steps} <= names
    assert {"index.html", "compare.html", "measuring.html"} <= names


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    found = read(site)
    dead = []
    for path, page in found.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert parts.scheme == "https", f"{path.name}: {link}"
                continue
            target = path
            if parts.path:
                target = (path.parent / unquote(parts.path)).resolve()
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
        text = sheet.read_text(encoding="utf-8")
        for match in CSS_URL.finditer(text):
            address = match[1] or match[2]
            assert address.startswith("data:"), (sheet, address)


def test_ids_are_there_once(site: Path) -> None:
    for path, page in read(site).items():
        twice = {i for i in page.ids if page.ids.count(i) > 1}
        assert not twice, path


def test_the_readers_numbers_are_on_the_site(own_site: Path) -> None:
    home = (own_site / "index.html").read_text(encoding="utf-8")
    assert 'class="seven-own"' in home
    assert "(yours " in home


def test_a_missing_name_fails_the_strict_build(tmp_path: Path) -> None:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    config = (tmp_path / "mkdocs.yml").read_text(encoding="utf-8")
    config = re.sub(r"(?s)\nnav:.*?\nvalidation:", "\nvalidation:", config)
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(
        "# Page\n\n```source\nfile: 02\nname: nobody\n```\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict",
         "-f", tmp_path / "mkdocs.yml", "-d", tmp_path / "site"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert "there is no 'nobody' in it" in done.stderr


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")))
def test_no_measured_number_is_typed(page: Path) -> None:
    """Tables may quote others; sentences must not hold measurements."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"(?s)```.*?```|`[^`]*`", "", text)
    typed = re.findall(r"(?m)^(?!\|).*?\b\d+\.\d+ (?:requests|ms|MB)\b", text)
    assert not typed
