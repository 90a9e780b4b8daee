"""The site in a browser, from file://, as a reader without a net sees it.

Each page is loaded twice: without scripts, then with them on paper, dark and
light, on a desk and a phone.
"""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.site.browsing import (
    Opened,
    bad_colours,
    faults,
    needs_browser,
    visit,
)
from tests.site.conftest import small
from tools.data.results import REFERENCE
from tools.servers import ROOT

pytestmark = [needs_browser, pytest.mark.thorough]

DOCS = ROOT / "docs"
PAGES = sorted(
    page.relative_to(DOCS).with_suffix(".html").as_posix()
    for page in DOCS.rglob("*.md")
)
PHONE, DESK = 375, 1280  # px

# What sticks out of a printed page, scrolls where nobody can, or is folded
# though nobody can open it. Tables of data behind a chart may be left out.
NOT_ON_PAPER = """() => {
  const seen = (e) => e.checkVisibility({contentVisibilityAuto: true});
  const wrong = (e) => {
    const box = e.getBoundingClientRect();
    if (box.width > 1 && box.right > innerWidth + 1) return "sticks out";
    if (getComputedStyle(e).overflowX !== "visible"
        && e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1)
      return "is cut off";
    return e.tagName === "DETAILS" && ![...e.children].every(seen)
      && "is folded";
  };
  return [...document.querySelectorAll("article *")]
    .filter(e => e instanceof HTMLElement && seen(e) && wrong(e))
    .concat([...document.querySelectorAll("header, nav, .md-footer")]
      .filter(e => seen(e) && !e.closest("article")))
    .map(e => `${e.outerHTML.slice(0, 120)}: ${wrong(e) || "a menu"}`);
}"""

# What a page has to show without scripts: all of its text, charts, tables,
# but what a details or a radio button of its own opens.
NOT_SHOWN = """() => [...document.querySelectorAll(
  "article :is(h1, h2, h3, p, li, table, figure, svg, pre, fieldset)"
)].filter(e => {
  const box = e.getBoundingClientRect();
  return e.textContent.trim() && (!box.width || !box.height)
    && !e.closest("details:not([open]), [hidden], noscript")
    && !e.closest(".tabbed-block, .seven-quiz__why, .seven-quiz__said");
}).map(e => `does not show: ${e.outerHTML.slice(0, 120)}`)"""

# What is wider than the window, or stands in a chart beyond its edge.
SIDEWAYS = """() => {
  const wide = document.documentElement.scrollWidth;
  const texts = document.querySelectorAll("figure .seven-svg--bars text");
  const cut = [...texts].filter(e => e.checkVisibility()).filter(e => {
    const box = e.getBoundingClientRect();
    return box.right > innerWidth + 1 || box.left < 0;
  });
  return [...wide > innerWidth ? [`${wide} px wide`] : [],
          ...cut.map(e => `${e.textContent} is cut off`)];
}"""

# Tab reaches all of these by itself, unless a page says otherwise (as the
# theme's tabs do, which the arrow keys choose).
PASSED_OVER = """() => [...document.querySelectorAll(
  "article :is(a[href], button, input, select, summary)[tabindex^='-']"
)].filter(e => !e.closest(".tabbed-labels, .tabbed-control"))
  .map(e => `Tab passes over ${e.outerHTML.slice(0, 120)}`)"""

# Whatever can be opened or chosen is, and drawn: that is read too.
UNFOLD = """() => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  document.querySelectorAll(".seven-quiz input").forEach(i => i.click());
  return new Promise(done =>
    requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def resize(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})


def check_plain(page: Page) -> None:
    """On a phone without scripts: everything is there and fits."""
    resize(page, PHONE)
    assert len(page.locator("article").inner_text()) > 500
    assert not [*page.evaluate(NOT_SHOWN), *page.evaluate(SIDEWAYS)]


def check(page: Page) -> None:
    """All that one visit can show; the console stays empty meanwhile."""
    body = page.locator("body[data-md-color-scheme=slate]")
    page.get_by_title("Switch to dark").click()
    body.wait_for()
    resize(page, 700)  # what is left of A4
    page.emulate_media(media="print")
    assert not page.evaluate(NOT_ON_PAPER)
    page.emulate_media(media="screen")
    resize(page, DESK)
    page.evaluate(UNFOLD)
    assert not [*page.evaluate(SIDEWAYS), *page.evaluate(PASSED_OVER)]
    assert not faults(page)
    page.get_by_title("Switch to light").click()
    body.wait_for(state="detached")
    assert not bad_colours(page)
    resize(page, PHONE)
    assert not page.evaluate(SIDEWAYS)


@pytest.mark.parametrize("name", PAGES)
def test_a_page(opened: Opened, site: Path, name: str) -> None:
    plain = opened("light", script=False)
    visit(plain, site / name)
    check_plain(plain)
    page = opened("light")
    visit(page, site / name)
    check(page)


def test_numbers_beside_the_reference(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class's: they need more room than the reader's own."""
    monkeypatch.setenv("SEVEN_BESIDE", os.pathsep.join([str(REFERENCE)] * 3))
    text = (DOCS / "compare.md").read_text("utf-8")
    fences = re.findall(r"(?ms)^```(?:bars|sweep|abtable)\n.*?^```$", text)
    kinds = "\n\n".join({fence.split()[0]: fence for fence in fences}.values())
    done = small(tmp_path, index=f"# Compare\n\n{kinds}")
    assert not done.returncode, done.stderr
    page = opened("light")
    visit(page, tmp_path / "site" / "index.html")
    check(page)


def test_search_without_a_server(opened: Opened, site: Path) -> None:
    page = opened("light")
    visit(page, site / "index.html")
    page.locator(".md-search__input, .md-search__button").first.click()
    page.keyboard.type("SO_REUSEPORT")
    page.locator("a[href*='07_parallel.html?h=']").first.wait_for()


def test_the_skip_link_skips(opened: Opened, site: Path) -> None:
    page = opened("light")
    visit(page, site / "reference" / "contract.html")
    for key in ("Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    inside = page.evaluate("!!document.activeElement.closest('article')")
    assert inside
