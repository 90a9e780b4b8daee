"""The stepper in a browser: what it shows is what the kernel was in."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.site.browsing import Opened, needs_browser, visit
from tools.servers import ROOT, SKETCHES, Server
from tools.steps import show

pytestmark = [needs_browser, pytest.mark.thorough]

PANELS = """() => [...document.querySelectorAll(".step-kernel > div")].map(
  (e) => [e.querySelector("strong").textContent,
    [...e.querySelectorAll("li, p + p")].map((line) => line.textContent)])"""


def steps(page: Page) -> int:
    return int(page.locator(".step-controls input[type=range]")
               .get_attribute("max") or 0)


def go(page: Page, step: int) -> None:
    page.evaluate("""(step) => {
      const slider = document.querySelector("input[type=range]");
      slider.value = step;
      slider.oninput();
    }""", step)


@pytest.fixture
def stepper(tmp_path: Path, opened: Opened) -> Any:
    def stepped(file: Path, width: int = 1280, **options: Any) -> Page:
        made = tmp_path / "step.html"
        made.write_text(show.page(file, show.facts(file, **options)), "utf-8")
        page = opened("light", width)
        visit(page, made)
        return page

    return stepped


@pytest.mark.parametrize("each", SKETCHES, ids=lambda each: each.name)
def test_it_shows_the_kernel(each: Server, stepper: Any) -> None:
    file = ROOT / each.options[0]
    page = stepper(file, names=["three"])
    for step in range(1, steps(page) + 1, 7):
        go(page, step)
        real = show.traced(file, "three", last_step=step)["seen"]
        assert page.evaluate(PANELS) == real, step


@pytest.mark.parametrize("each", SKETCHES, ids=lambda each: each.name)
def test_every_step_has_its_sentence(each: Server, stepper: Any) -> None:
    page = stepper(ROOT / each.options[0])
    choice = page.locator("select")
    for scenario in range(len(show.EVERY) - 1):
        choice.select_option(str(scenario))
        for step in range(1, steps(page) + 1):
            go(page, step)
            text = page.locator(".step-says").inner_text()
            for wrong in ("undefined", "{", "NaN", "nothing has"):
                assert wrong not in text, text


def test_forward_and_back(stepper: Any) -> None:
    page = stepper(ROOT / "04_selectors" / "sketch.py", names=["three"])
    says = page.locator(".step-says")
    seen = []
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Next line").click()
        seen.append((says.inner_text(), page.evaluate(PANELS)))
    assert len({text for text, _ in seen}) > 5
    page.get_by_role("button", name="Next call").click()
    page.get_by_role("button", name="Back").click()
    slider = page.locator("input[type=range]")
    before = int(slider.input_value())
    page.get_by_role("button", name="Next event").click()
    assert int(slider.input_value()) > before


def test_predict(stepper: Any) -> None:
    page = stepper(ROOT / "04_selectors" / "sketch.py", names=["three"])
    question, says = page.locator(".step-question"), page.locator(".step-says")
    ahead = page.get_by_role("button", name="Next event")
    for reply in ("No: client 1.", "Yes."):
        page.get_by_label("Scenario").select_option("0")
        page.locator("select").dispatch_event("change")
        for _ in range(steps(page)):
            if not question.is_visible():
                ahead.click()
        assert "Which client receives" in question.inner_text()
        options = question.get_by_role("button").all_inner_texts()
        assert options == ["client 1", "client 2", "client 3"]
        question.get_by_role("button").nth(int(reply != "Yes.")).click()
        assert not question.is_visible()
        assert says.inner_text().startswith(f"{reply} Client 1 receives ")
        ahead.click()  # once is enough
        assert not question.is_visible()
    page.get_by_label("Ask me first").check()
    page.locator("figure").focus()
    for _ in range(steps(page)):
        if not question.is_visible():
            page.keyboard.press("ArrowRight")
    assert "Which line runs next?" in question.inner_text()


def test_keys(stepper: Any) -> None:
    page = stepper(ROOT / "04_selectors" / "sketch.py", names=["one"])
    slider, figure = page.locator("input[type=range]"), page.locator("figure")
    figure.focus()
    for key, step in (("End", steps(page)), ("Home", 0), ("ArrowLeft", 0)):
        page.keyboard.press(key)
        assert slider.input_value() == str(step)
    page.keyboard.press(" ")
    pause = page.get_by_role("button", name="Pause")
    pause.wait_for()
    pause.focus()
    page.keyboard.press(" ")  # the button's own
    page.get_by_role("button", name="Play").wait_for()


def test_on_paper(stepper: Any) -> None:
    page = stepper(ROOT / "05_timer" / "sketch.py", names=["three"])
    page.emulate_media(media="print")
    assert not page.locator(".step-controls").is_visible()
    box = page.locator(".step-code").evaluate(
        "(box) => [box.scrollHeight, box.clientHeight]"
    )
    assert box[0] == box[1]  # nothing is cut off


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_sticks_out(width: int, stepper: Any) -> None:
    page = stepper(ROOT / "05_timer" / "sketch.py", width, names=["three"])
    go(page, 60)
    assert page.evaluate(
        "document.documentElement.scrollWidth"
    ) <= width
