"""What a reader does on a page: answers, prints, chooses who is shown."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.site.browsing import Opened, needs_browser
from tests.site.conftest import Render
from tests.site.test_golden import GOLDEN
from tools.data.results import Results
from tools.servers import ROOT

pytestmark = [needs_browser, pytest.mark.thorough]

SHEET = ROOT / "docs" / "assets" / "quiz.css"
BARS = "#bars-many-p99-100"
LOOPS = {"05", "06", "06-protocol", "06-coroutines"}


def said(page: Page) -> list[str]:
    """What the live regions hold for a screen reader."""
    texts = page.get_by_role("status").all_inner_texts()
    return [text.strip() for text in texts if text.strip()]


def test_choosing_says_why(
    opened: Opened, reference: Results, render: Render
) -> None:
    page = opened("light", script=False)
    html = render((GOLDEN / "quiz.md").read_text("utf-8"))
    page.set_content(
        f"<style>{SHEET.read_text('utf-8')}</style>"
        f"<div class=md-typeset>{html}</div>"
    )
    assert said(page) == []
    page.get_by_label("Three seconds").check()
    right, because = said(page)
    assert right == "✓ Right. One after the other."
    page.get_by_text("For ever").click()  # the words are as good
    assert said(page) == ["✗ No. Each one ends.", because]
    page.keyboard.press("ArrowUp")  # and the keys; Enter sends nothing
    page.keyboard.press("Enter")
    # The other question has not moved; its answers add up.
    page.get_by_label("close").check()
    page.get_by_label("recv").check()
    assert said(page) == [
        right, because,
        "✗ No. It returns at once.", "✓ Right. It waits for bytes.",
    ]
    page.get_by_text("Start over").first.click()
    assert len(said(page)) == 2
    page.emulate_media(media="print")  # all of them
    assert len(said(page)) == 3 + 1 + 3


@pytest.mark.parametrize("address", ["", "without-answers", "only-questions"])
def test_a_step_can_be_printed_without_its_answers(
    opened: Opened, site: Path, address: str
) -> None:
    page = opened("light", width=700, script=False)
    page.emulate_media(media="print")
    path = site / "steps" / "03_threading.html"
    page.goto(f"{path.as_uri()}#{address}")

    def shown(what: str) -> int:
        return page.locator(f"article {what}").filter(visible=True).count()

    questions = page.locator("article .seven-quiz").count()
    assert questions and shown(".seven-quiz") == questions
    assert bool(shown(".seven-quiz__why")) == (not address)
    assert bool(shown("details:not(:has(.seven-quiz))")) == (not address)
    text = address != "only-questions"
    assert bool(shown("> p")) == bool(shown("> h2")) == text
    assert shown("> h1") == 1


def shown(page: Page, selector: str) -> set[str]:
    """Whose parts are there to be seen."""
    found: list[str] = page.eval_on_selector_all(
        f"{selector} [data-server]",
        "all => all.filter(e => !e.closest('[hidden]'))"
        ".map(e => e.dataset.server)",
    )
    return set(found)


def test_who_is_shown(opened: Opened, site: Path) -> None:
    """By a button, by boxes, by the address; rows move up."""
    page = opened("light")
    page.goto((site / "compare.html").as_uri())
    page.wait_for_selector(".seven-compare-live", state="visible")
    picture = page.locator(f"{BARS} > svg")
    full = int(picture.get_attribute("height") or 0)
    everyone = shown(page, f"{BARS} svg")
    assert everyone > LOOPS
    page.get_by_role("button", name="event loops", exact=True).click()
    for where in (f"{BARS} svg", f"{BARS} table", "figure.seven-chart"):
        assert shown(page, where) == LOOPS, where
    assert page.locator(".seven-choices :checked").count() == len(LOOPS)
    assert page.locator("[aria-pressed=true]").inner_text() == "event loops"
    assert int(picture.get_attribute("height") or 0) < full
    assert {*page.evaluate("location.hash")[6:].split(",")} == LOOPS
    for name in LOOPS:
        page.locator(f".seven-choices [value='{name}']").uncheck()
    expect(page.locator(".seven-shown")).to_have_text(
        f"0 of {len(everyone)} servers are shown."
    )
    page.evaluate("location.hash = '#show=03,07,nobody'")
    expect(page.locator(".seven-choices :checked")).to_have_count(2)
    page.evaluate("location.hash = '#latency'")  # another link keeps them
    assert shown(page, "figure.seven-chart") == {"03", "07"}
    page.get_by_role("button", name="all", exact=True).click()
    assert shown(page, f"{BARS} svg") == everyone
    assert page.evaluate("location.hash") == ""
    expect(picture).to_have_attribute("height", str(full))
