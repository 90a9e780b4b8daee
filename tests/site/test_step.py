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
    page.get_by_label("Ask me first").check()
    question = page.get_by_text("Which line runs next?")
    for _ in range(60):
        if question.is_visible():
            break
        page.get_by_role("button", name="Next line").click()
    options = page.locator(".step-question button")
    assert options.count() == 3
    options.first.click()
    assert page.locator(".step-says").inner_text().startswith(("Yes", "No:"))
    assert not question.is_visible()


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_sticks_out(width: int, stepper: Any) -> None:
    page = stepper(ROOT / "05_timer" / "sketch.py", width, names=["three"])
    go(page, 60)
    assert page.evaluate(
        "document.documentElement.scrollWidth"
    ) <= width
