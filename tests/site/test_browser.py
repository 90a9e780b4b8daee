"""The site in a browser, from file://, as a reader without a net sees it."""

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
