"""The site in a browser, served by step 07 of this very site."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page

from tests.process import Running, started, why_no_uring
from tests.site.browsing import needs_browser
from tests.site.conftest import pages
from tools.servers import by_name

pytestmark = needs_browser


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[Running]:
    """``python3 07_parallel/server.py --directory site``."""
    options = ("--directory", str(site), "--engine", "auto")
    with started(by_name("07"), *options) as process:
        yield process
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        if not why_no_uring():  # else it says what it uses instead
            assert process.complaints == ""


class Window(NamedTuple):
    """A browser window, and what it has seen."""

    page: Page
    trouble: list[str]  # what went wrong
    answers: dict[str, int]  # the status of each address


def open_window(browser: Browser, origin: str) -> Window:
    """A new window with an empty cache."""
    page = browser.new_context(reduced_motion="reduce").new_page()
    window = Window(page, [], {})
    trouble, answers = window.trouble, window.answers
    page.on(
        "console",
        lambda m: trouble.append(f"console: {m.text}")
        if m.type in ("error", "warning")
        else None,
    )
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "requestfailed",
        lambda r: trouble.append(f"{r.url} failed: {r.failure}"),
    )
    page.on("response", lambda r: answers.update({r.url: r.status}))
    page.on(
        "request",
        lambda r: None
        if r.url.startswith((origin, "data:", "blob:", "about:"))
        else trouble.append(f"it asked for {r.url}"),
    )
    return window


def origin_of(process: Running) -> str:
    return f"http://127.0.0.1:{process.port}/"


def wait_for_search(page: Page) -> None:
    """Until the search has its index: the last that a page loads.

    A page that is left before that breaks off these two requests, which
    looks like a server that does not answer. On a busy machine they
    begin late, after the network has been idle.
    """
    page.wait_for_function(
        """() => {
            const said = document.querySelector(".md-search-result__meta");
            return said && !/Initializing/.test(said.textContent);
        }""",
        timeout=30_000,
    )


def test_every_page_loads(
    browser: Browser, served: Running, site: Path
) -> None:
    origin = origin_of(served)
    window = open_window(browser, origin)
    for path in pages(site):
        answer = window.page.goto(
            origin + path.relative_to(site).as_posix(),
            wait_until="networkidle",
        )
        assert answer and answer.status == 200, path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.body() == path.read_bytes(), path
        wait_for_search(window.page)
    bad = {a: s for a, s in window.answers.items() if s not in (200, 304)}
    kinds = {Path(address).suffix for address in window.answers}
    window.page.context.close()
    assert not window.trouble, "\n".join(window.trouble)
    assert not bad
    assert {".html", ".css", ".js"} <= kinds, "more than pages came"


def test_the_start_page_has_no_name(
    browser: Browser, served: Running
) -> None:
    origin = origin_of(served)
    window = open_window(browser, origin)
    answer = window.page.goto(origin, wait_until="networkidle")
    assert answer and answer.status == 200
    wait_for_search(window.page)
    first = window.page.title()
    # Again, and the browser asks whether its copies are still good.
    answer = window.page.reload(wait_until="networkidle")
    assert answer and answer.status in (200, 304)
    assert window.page.title() == first
    wait_for_search(window.page)
    window.page.context.close()
    assert not window.trouble, "\n".join(window.trouble)


def test_search_finds_and_opens(browser: Browser, served: Running) -> None:
    origin = origin_of(served)
    window = open_window(browser, origin)
    page = window.page
    page.goto(origin, wait_until="networkidle")
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("SO_REUSEPORT")
    result = page.locator(".md-search-result__item a").first
    result.wait_for(timeout=15_000)
    place = result.get_attribute("href") or ""
    assert "07_parallel" in place
    result.click()
    page.wait_for_url("**/steps/07_parallel*", timeout=15_000)
    page.wait_for_load_state("networkidle")
    assert "SO_REUSEPORT" in page.locator("article").inner_text()
    wait_for_search(page)
    assert not [s for s in window.answers.values() if s not in (200, 304)]
    page.context.close()
    assert not window.trouble, "\n".join(window.trouble)


def test_a_missing_page_is_missing(
    browser: Browser, served: Running
) -> None:
    origin = origin_of(served)
    window = open_window(browser, origin)
    answer = window.page.goto(f"{origin}steps/08_missing.html")
    assert answer and answer.status == 404
    assert "404" in window.page.locator("body").inner_text()
    window.page.context.close()
