"""The site in a browser, from file://, as a reader without a net sees it.

Each page is loaded twice, and all is checked on the way: dark and light, as
on paper and on a phone; and the last two without scripts.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.site.browsing import (
    Opened,
    bad_colours,
    faults,
    needs_browser,
    open_page,
    visit,
)
from tools.servers import ROOT

pytestmark = [needs_browser, pytest.mark.thorough]

DOCS = ROOT / "docs"
PAGES = sorted(
    page.relative_to(DOCS).with_suffix(".html").as_posix()
    for page in DOCS.rglob("*.md")
)
every_page = pytest.mark.parametrize("name", PAGES)
Windows = dict[bool, tuple[Page, list[str]]]  # with scripts or without
Window = Callable[[Path, int, bool], Page]

# What sticks out of a printed page, scrolls where nobody can, or is folded
# though nobody can open it. Tables of data behind a chart may be left out.
NOT_ON_PAPER = """() => {
  const seen = (e) => e.checkVisibility({contentVisibilityAuto: true});
  const name = (e) => `${e.tagName} ${e.className} `
    + `${e.textContent.trim().slice(0, 60)}`;
  const found = [];
  for (const e of document.querySelectorAll("article *")) {
    if (!(e instanceof HTMLElement) || !seen(e)) continue;
    const box = e.getBoundingClientRect();
    if (box.width > 1 && box.right > innerWidth + 1) {
      found.push(`sticks out: ${name(e)}`);
    }
    if (getComputedStyle(e).overflowX !== "visible"
        && e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1) {
      found.push(`is cut off: ${name(e)}`);
    }
    if (e.tagName === "DETAILS" && ![...e.children].every(seen)) {
      found.push(`is folded: ${name(e)}`);
    }
  }
  for (const e of document.querySelectorAll("header, nav, .md-footer")) {
    if (seen(e) && !e.closest("article")) found.push(`menu: ${name(e)}`);
  }
  return found;
}"""

# What a page has to show without scripts: all of its text, charts, tables.
NOT_SHOWN = """() => {
  const found = [];
  const parts = "h1, h2, h3, p, li, table, figure, svg, pre, fieldset";
  for (const e of document.querySelectorAll(`article :is(${parts})`)) {
    if (e.closest("details:not([open]), [hidden], noscript")) continue;
    // Behind a radio button of its own, which needs no script.
    if (e.closest(".tabbed-block, .seven-quiz__why, .seven-quiz__said")) {
      continue;
    }
    const box = e.getBoundingClientRect();
    if (e.textContent.trim() && (!box.width || !box.height)) {
      found.push(`${e.tagName} ${e.className} ${e.textContent.trim()
        .slice(0, 60)}`);
    }
  }
  return found;
}"""


def check_scheme(page: Page, expected: str) -> None:
    body = page.locator("body")
    assert body.get_attribute("data-md-color-scheme") == expected


def unfold(page: Page) -> None:
    """Open all that is folded, and wait until it is drawn."""
    page.evaluate("""() => {
      document.querySelectorAll('details').forEach(d => d.open = true);
      return new Promise(done =>
        requestAnimationFrame(() => requestAnimationFrame(done)));
    }""")


def sideways(page: Page) -> list[str]:
    """Does a phone have to scroll sideways? Which text of a chart is cut?"""
    width = page.evaluate("document.documentElement.scrollWidth")
    cut: list[str] = page.evaluate("""() =>
      [...document.querySelectorAll("figure .seven-svg--bars text")]
        .filter(e => e.checkVisibility()).filter(e => {
          const box = e.getBoundingClientRect();
          return box.right > innerWidth + 1 || box.left < 0;
        }).map(e => `${e.textContent} is cut off`)""")
    return [f"{width} px wide"] * (width > 375) + cut


# Tab reaches all of these by itself, unless a page says otherwise (as the
# theme's tabs do, which the arrow keys choose). Where Tab leads, two pages
# are walked for (below), since each key takes its time.
PASSED_OVER = """() => [...document.querySelectorAll(
  "article :is(a[href], button, input, select, summary)[tabindex^='-']"
)].filter(e => !e.closest(".tabbed-labels, .tabbed-control"))
  .map(e => `Tab passes over ${e.outerHTML.slice(0, 120)}`)"""


def check_headings(page: Page) -> None:
    """One h1, first; below it no level is left out."""
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]"
        ".map(e => Number(e.tagName[1]))"
    )
    assert levels.count(1) == 1 and levels[0] == 1
    for last, level in itertools.pairwise(levels):
        assert level <= last + 1, f"h{last}, then h{level}"


def check(page: Page) -> None:
    """All that one visit can show: paper, dark, light, a phone.

    axe-core finds nothing, the console is empty, nothing comes from outside.
    """
    check_scheme(page, "default")
    page.get_by_title("Switch to dark").click()
    check_scheme(page, "slate")
    page.emulate_media(media="print")
    assert not page.evaluate(NOT_ON_PAPER)
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})
    check_headings(page)
    assert not page.evaluate(PASSED_OVER)
    unfold(page)  # what is folded is read too
    assert not faults(page)
    page.get_by_title("Switch to light").click()
    check_scheme(page, "default")
    assert not bad_colours(page)
    page.set_viewport_size({"width": 375, "height": 900})
    assert not sideways(page)


@pytest.fixture(scope="module")
def windows() -> Windows:
    """With scripts and without: one for all pages, since each is dear."""
    return {}


@pytest.fixture
def window(
    browser: Browser, windows: Windows
) -> Iterator[Window]:
    """Shows a page to a reader who has not chosen dark or light yet."""
    went_wrong: list[list[str]] = []

    def show(path: Path, width: int, script: bool) -> Page:
        if script in windows:
            windows[script][0].evaluate("localStorage.clear()")
        else:
            windows[script] = open_page(browser, "light", script=script)
        page, trouble = windows[script]
        trouble.clear()
        went_wrong.append(trouble)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="screen", color_scheme="light")
        visit(page, path)
        return page

    yield show
    for trouble in went_wrong:
        assert not trouble, "\n".join(trouble)


@every_page
def test_with_scripts(window: Window, site: Path, name: str) -> None:
    check(window(site / name, 700, True))


@every_page
def test_without_scripts(window: Window, site: Path, name: str) -> None:
    page = window(site / name, 375, False)
    assert len(page.locator("article").inner_text()) > 500
    assert not [*page.evaluate(NOT_SHOWN), *sideways(page)]
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.evaluate(NOT_ON_PAPER)


def test_the_readers_numbers_fit_on_a_phone(
    opened: Opened, own_site: Path
) -> None:
    page = opened("light", width=375)
    for path in own_site.rglob("*.html"):
        if "seven-own" in path.read_text("utf-8"):
            visit(page, path)
            unfold(page)
            assert not [f"{path.name}: {what}" for what in sideways(page)]


@pytest.mark.parametrize("name", [
    "index.html", "steps/05_timer.html", "reference/http.html",
])  # fmt: skip
def test_zensicals_pages_are_as_good(
    opened: Opened, zensical_site: Path, name: str
) -> None:
    page = opened("light", width=700)
    visit(page, zensical_site / name)
    check(page)


def test_search_without_a_server(opened: Opened, built: Path) -> None:
    page = opened("light")
    visit(page, built / "index.html")
    page.locator(".md-search__input, .md-search__button").first.click()
    page.keyboard.type("SO_REUSEPORT")
    page.locator("a[href*='07_parallel.html?h=']").first.wait_for()


# Marks all that Tab should reach (of radio buttons, one of each group), and
# tells what is left unmarked after a walk.
TO_REACH = """() => {
  const groups = new Set();
  const all = "a[href], button, input, select, textarea, summary, "
    + "[tabindex='0']";
  for (const e of document.querySelectorAll(all)) {
    if (e.disabled || e.tabIndex < 0 || e.closest("[inert]")) continue;
    if (!e.checkVisibility({visibilityProperty: true})) continue;
    if (!e.closest("article")) continue;
    if (e.type === "radio") {
      const group = e.form?.id + e.name;
      const chosen = document.querySelector(
        `input[name="${CSS.escape(e.name)}"]:checked`);
      if (groups.has(group) || (chosen && chosen !== e)) continue;
      groups.add(group);
    }
    e.dataset.toReach = "";
  }
  return document.querySelectorAll("[data-to-reach]").length;
}"""
REACHED = """() => {
  const now = document.activeElement;
  delete now.dataset.toReach;
  return [now.className, !document.querySelector("[data-to-reach]")];
}"""


@pytest.mark.parametrize("name", ["index.html", "compare.html"])
def test_the_keyboard_reaches_everything(
    opened: Opened, site: Path, name: str
) -> None:
    page = opened("dark")  # as the reader's system is
    visit(page, site / name)
    check_scheme(page, "slate")
    page.keyboard.press("Tab")
    first, _ = page.evaluate(REACHED)
    assert "md-skip" in first
    passed = ""
    left = page.evaluate(TO_REACH)
    assert left, "something to reach"
    for _ in range(3 * left + 100):  # the menus too
        page.keyboard.press("Tab")
        at, done = page.evaluate(REACHED)
        passed += f" {at}"
        if done:
            break
    unseen = page.evaluate(
        "[...document.querySelectorAll('[data-to-reach]')]"
        ".map(e => e.outerHTML.slice(0, 120))"
    )
    assert not unseen, "\n".join(unseen)
    assert "md-search__input" in passed
    assert "md-option" in passed, "light or dark"


def test_the_skip_link_skips(opened: Opened, built: Path) -> None:
    page = opened("light")
    visit(page, built / "reference" / "contract.html")
    for key in ("Tab", "Enter", "Tab"):
        page.keyboard.press(key)
    inside = page.evaluate("!!document.activeElement.closest('article')")
    assert inside
