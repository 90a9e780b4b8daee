"""The site in a browser, from file://, as a reader without a net sees it."""

import itertools
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]
    Axe,
)
from playwright.sync_api import Browser

from tests.site.browsing import Scheme, needs_browser, open_page, visit
from tests.site.conftest import pages

pytestmark = needs_browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_and_quiet(
    browser: Browser, site: Path, scheme: Scheme
) -> None:
    """axe-core finds nothing, the console is empty, all stays here."""
    page, trouble = open_page(browser, scheme)
    axe = Axe()
    for path in pages(site):
        visit(page, path)
        shown = page.evaluate(
            "document.body.getAttribute('data-md-color-scheme')"
        )
        assert shown == {"light": "default", "dark": "slate"}[scheme]
        # What is folded is read too.
        page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        page.wait_for_timeout(150)
        # Without preload: axe itself would fetch the style sheets.
        done = axe.run(page, options={"preload": False})
        for found in done.response["violations"]:
            for node in found["nodes"]:
                trouble.append(
                    f"{path.name}: {found['id']}: {node['html'][:200]}"
                    f" {node.get('failureSummary', '')[:300]}"
                )
    page.context.close()
    assert not trouble, "\n".join(trouble)


@pytest.mark.parametrize("which", ["site", "own_site"])
def test_no_sideways_scrolling_on_a_phone(
    browser: Browser, which: str, request: pytest.FixtureRequest
) -> None:
    page, trouble = open_page(browser, "light", width=375)
    for path in pages(request.getfixturevalue(which)):
        visit(page, path)
        page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, path.name
    page.context.close()
    assert not trouble


def test_search_without_a_server(browser: Browser, site: Path) -> None:
    page, trouble = open_page(browser, "light")
    visit(page, site / "index.html")
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("SO_REUSEPORT")
    result = page.locator(".md-search-result__item a").first
    result.wait_for(timeout=15_000)
    assert "07_parallel" in (result.get_attribute("href") or "")
    page.context.close()
    assert not trouble


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
  return found;
}"""


@pytest.mark.parametrize("script", [True, False], ids=["script", "none"])
def test_on_paper_nothing_is_cut_or_folded(
    browser: Browser, site: Path, script: bool
) -> None:
    page, trouble = open_page(browser, "dark", width=700, script=script)
    page.emulate_media(media="print", color_scheme="dark")
    for path in pages(site):
        visit(page, path)
        trouble += [
            f"{path.name} {what}" for what in page.evaluate(NOT_ON_PAPER)
        ]
        sheet = page.evaluate(
            "[...document.querySelectorAll('header, nav, .md-footer')]"
            ".filter(e => e.checkVisibility() && !e.closest('article'))"
            ".length"
        )
        assert not sheet, f"{path.name}: menus on paper"
    page.context.close()
    assert not trouble, "\n".join(trouble)


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


def test_everything_is_there_without_scripts(
    browser: Browser, site: Path
) -> None:
    page, trouble = open_page(browser, "light", width=375, script=False)
    for path in pages(site):
        visit(page, path)
        assert len(page.locator("article").inner_text()) > 500, path.name
        trouble += [
            f"{path.name}: {what}" for what in page.evaluate(NOT_SHOWN)
        ]
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, path.name
    page.context.close()
    assert not trouble, "\n".join(trouble)


def test_headings_titles_and_descriptions(
    browser: Browser, site: Path
) -> None:
    page, trouble = open_page(browser, "light", script=False)
    titles, descriptions = [], []
    for path in pages(site):
        visit(page, path)
        levels = page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]"
            ".map(e => Number(e.tagName[1]))"
        )
        assert levels.count(1) == 1 and levels[0] == 1, path.name
        for last, level in itertools.pairwise(levels):
            assert level <= last + 1, f"{path.name}: h{last}, then h{level}"
        titles.append(page.title())
        descriptions.append(
            page.locator("meta[name=description]").get_attribute("content")
        )
    page.context.close()
    assert not trouble
    assert all(titles) and len(set(titles)) == len(titles)
    assert all(len(words or "") >= 40 for words in descriptions)
    assert len(set(descriptions)) == len(descriptions)


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


@pytest.mark.parametrize("name", [
    "index.html", "compare.html", "reference/contract.html",
    "steps/02_sockets.html",
])  # fmt: skip
def test_the_keyboard_reaches_everything(
    browser: Browser, site: Path, name: str
) -> None:
    page, trouble = open_page(browser, "light")
    visit(page, site / name)
    page.keyboard.press("Tab")
    focus = page.evaluate_handle("document.activeElement")
    assert "md-skip" in (focus.get_property("className").json_value())
    passed = set()
    left = page.evaluate(TO_REACH)
    assert left, "something to reach"
    for _ in range(3 * left + 100):  # the menus too
        page.keyboard.press("Tab")
        passed.add(page.evaluate(
            "(() => { const e = document.activeElement;"
            " delete e.dataset.toReach; return e.className; })()"
        ))
        if not page.evaluate(
            "document.querySelector('[data-to-reach]') !== null"
        ):
            break
    unseen = page.evaluate(
        "[...document.querySelectorAll('[data-to-reach]')]"
        ".map(e => e.outerHTML.slice(0, 120))"
    )
    assert not unseen, "\n".join(unseen)
    assert any("md-search__input" in classes for classes in passed)
    assert any("md-option" in classes for classes in passed), "light or dark"
    page.context.close()
    assert not trouble


def test_the_skip_link_skips(browser: Browser, site: Path) -> None:
    page, trouble = open_page(browser, "light")
    visit(page, site / "reference" / "contract.html")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = page.evaluate("!!document.activeElement.closest('article')")
    page.context.close()
    assert inside and not trouble
