"""The page Compare in a browser: which servers it shows.

Only this page is built, for speed.
"""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.site import sample
from tests.site.browsing import Opened, faults, needs_browser
from tests.site.conftest import small
from tools.servers import ROOT, SERVERS

pytestmark = [needs_browser, pytest.mark.thorough]

EVERY = {server.name for server in SERVERS}
BARS = "#bars-many-p99-100"
PRESETS = {
    "the seven steps": {"01", "02", "03", "04", "05", "06", "07"},
    "the variants": {
        "03-pool", "05-threads", "06-executor", "06-protocol", "06-coroutines",
        "07-emulated",
    },
    "wait one at a time": {"01", "02", "04"},
    "threads": {"03", "03-pool", "05-threads", "06-executor"},
    "event loops": {"05", "06", "06-protocol", "06-coroutines"},
    "many cores": {"07", "07-emulated"},
}


@pytest.fixture(scope="module")
def compare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page Compare alone, with three runs beside the reference."""
    folder = tmp_path_factory.mktemp("compare")
    beside = [folder / "1", folder / "2", folder / "3"]
    for number, other in enumerate(beside, 1):
        sample.results(number / 2, tuple(sample.LOADS)).save(other)
    text = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    alone = re.sub(r"\]\([a-z][^:)]*\)", "](#compare)", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEVEN_BESIDE", os.pathsep.join(map(str, beside)))
        done = small(folder, compare=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site" / "compare.html"


@pytest.fixture
def window(opened: Opened, compare: Path) -> Page:
    """The page in a browser."""
    page = opened("light")
    settle(page, compare)
    return page


def settle(page: Page, file: Path, hash_: str = "") -> None:
    """Open a page and await our script and the theme's."""
    page.goto(file.as_uri() + hash_)
    page.wait_for_selector(".seven-compare-live", state="visible")
    page.wait_for_function(
        "![...document.querySelectorAll('.seven-table > table')].length"
    )


def shown(page: Page, selector: str) -> set[str]:
    """Whose parts are there to be seen."""
    found: list[str] = page.eval_on_selector_all(
        f"{selector} [data-server]",
        "all => all.filter(e => !e.closest('[hidden]'))"
        ".map(e => e.dataset.server)",
    )
    return set(found)


def boxes(page: Page) -> set[str]:
    found: list[str] = page.eval_on_selector_all(
        ".seven-choices input:checked", "all => all.map(e => e.value)"
    )
    return set(found)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_presets(window: Page) -> None:
    """Each hides rows of bars and tables and lines of sweeps, and is told."""
    height = f"document.querySelector('{BARS} > svg').getAttribute('height')"
    before = window.evaluate(height)
    for name, wanted in PRESETS.items():
        press(window, name)
        button = window.get_by_role("button", name=name, exact=True)
        assert button.get_attribute("aria-pressed") == "true"
        assert boxes(window) == wanted
        expect(window.locator(".seven-shown")).to_have_text(
            f"{len(wanted)} of {len(SERVERS)} servers are shown."
        )
        for where in (f"{BARS} svg", f"{BARS} table", "figure.seven-chart"):
            assert shown(window, where) == wanted, where
        assert shown(window, "#classic") <= wanted
        sweep = shown(window, "figure[id^=sweep] thead")
        assert sweep == shown(window, "figure[id^=sweep] svg") <= wanted
        assert window.evaluate("location.hash") == "#show=" + ",".join(
            server.name for server in SERVERS if server.name in wanted
        )
    press(window, "all")
    assert boxes(window) == EVERY
    assert window.evaluate("location.hash") == ""
    assert window.evaluate(height) == before


def test_boxes(window: Page) -> None:
    """One by one, down to none: then each chart says that it is empty."""
    grid = window.locator(f"{BARS} .seven-tick").all_text_contents()
    for server in SERVERS:
        window.locator(f".seven-choices [value='{server.name}']").uncheck()
    expect(window.locator(".seven-shown")).to_have_text(
        f"0 of {len(SERVERS)} servers are shown."
    )
    empty = window.get_by_text("None of the chosen servers is here.")
    charts = window.locator("figure.seven-chart")
    visible = empty.filter(visible=True)
    assert visible.count() >= charts.count()
    window.locator(".seven-choices input[value='06']").press("Space")
    expect(window.locator(".seven-shown")).to_have_text(
        f"1 of {len(SERVERS)} servers is shown."
    )
    drawn = window.locator(f"{BARS} > svg")
    row = drawn.locator("g[data-server='06']")
    place, around = row.bounding_box(), drawn.bounding_box()
    assert place and around
    assert place["y"] - around["y"] < 30  # it has moved to the top
    assert place["height"] < around["height"] < 100
    ticks = window.locator(f"{BARS} .seven-tick")
    assert ticks.all_text_contents() == grid  # the scale stays
    expect(window.locator(".seven-bar-note")).to_contain_text(
        f"1 of {len(SERVERS)} servers is shown. Change"
    )


def test_the_choice_stands_in_the_address(
    opened: Opened, compare: Path
) -> None:
    page = opened("light")
    settle(page, compare, "#show=03,07,nobody")
    assert boxes(page) == shown(page, "figure.seven-chart") == {"03", "07"}
    # Another link of the page keeps the choice.
    page.evaluate("location.hash = '#latency'")
    assert boxes(page) == {"03", "07"}
    page.evaluate("location.hash = '#show=01'")
    page.wait_for_function(
        "document.querySelectorAll('.seven-choices :checked').length === 1"
    )
    assert shown(page, "figure.seven-chart") == {"01"}


def test_without_a_script_all_is_there(opened: Opened, compare: Path) -> None:
    page = opened("light", script=False)
    page.goto(compare.as_uri())
    assert not page.locator(".seven-compare-live").is_visible()
    assert page.locator(".seven-compare-plain").is_visible()
    assert shown(page, f"{BARS} svg") == EVERY


def test_fit_and_accessible(opened: Opened, compare: Path) -> None:
    """On a phone nothing scrolls to the side; axe-core finds nothing."""
    page = opened("dark", width=375)
    settle(page, compare)
    press(page, "the seven steps")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert not faults(page)
