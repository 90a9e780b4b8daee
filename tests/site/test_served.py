"""The site, served by step 07 of this very site."""

import http.client
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.browsing import Opened, needs_browser, settle
from tools.common.launch import Launched, why_no_uring
from tools.servers import by_name

pytestmark = pytest.mark.thorough
KINDS = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
}  # fmt: skip


@pytest.fixture(scope="module")
def port(site: Path) -> Iterator[int]:
    """``python3 07_parallel/server.py --directory site``."""
    with Launched([
        sys.executable, str(by_name("07").path), "--port", "0",
        "--directory", str(site), "--engine", "auto",
    ]) as process:
        yield process.wait_until_ready(60)
        if not why_no_uring():  # else it says what it uses instead
            assert process.complaints == ""


def test_every_file_comes_as_it_is(port: int, site: Path) -> None:
    """All on one connection, as a browser would."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for path in site.rglob("*.*"):
        connection.request("GET", f"/{path.relative_to(site).as_posix()}")
        response = connection.getresponse()
        assert response.read() == path.read_bytes(), path
        assert response.status == 200, path
        if expected := KINDS.get(path.suffix):
            assert response.headers["content-type"] == expected
    connection.close()


@needs_browser
def test_a_browser_finds_its_way(opened: Opened, port: int) -> None:
    """From the page without a name through the search to another."""
    origin = f"http://127.0.0.1:{port}/"
    page = opened("light", may_ask=(origin, "data:", "blob:", "about:"))
    bad: list[str] = []
    page.on("response", lambda response: bad.append(response.url)
            if response.status not in (200, 304) else None)
    page.on("requestfailed", lambda request: bad.append(request.url))
    for _ in range(2):  # again: it asks whether its copies are still good
        response = page.goto(origin)
        assert response and response.status in (200, 304)
        settle(page)
        page.locator(".md-search__input").click()
        page.keyboard.type("SO_REUSEPORT")  # its index comes when needed
        result = page.locator(".md-search-result a[href*='07_parallel']")
        result.first.wait_for()
    result.first.click()
    page.wait_for_url("**/steps/07_parallel*")
    assert "SO_REUSEPORT" in page.locator("article").inner_text()
    settle(page)
    assert not bad
    missing = page.request.get(f"{origin}steps/08_missing.html")
    assert missing.status == 404 and "404" in missing.text()
