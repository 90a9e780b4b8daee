"""The page How many: its form follows its formulas."""

import pytest
from playwright.sync_api import Page

from tests.site.browsing import Opened, needs_browser
from tests.site.conftest import Render
from tools.servers import ROOT

pytestmark = [needs_browser, pytest.mark.thorough]
DOCS = ROOT / "docs"
ASK = """(numbers) => {
  const boxes = [...document.querySelectorAll("#how-many input")];
  boxes.forEach((box, i) => { box.value = numbers[i]; });
  boxes[0].dispatchEvent(new Event("input", {bubbles: true}));
  return Object.fromEntries([...document.querySelectorAll("dt")].map(
    e => [e.textContent, +e.nextElementSibling.dataset.value]));
}"""


def ask(page: Page, *numbers: object) -> dict[str, float]:
    """Enter wait, compute (ms) and rate (/s): what it says, by its name."""
    found: dict[str, float] = page.evaluate(ASK, list(numbers))
    return found


def test_the_form(
    opened: Opened, render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of the text, a pool of ten, and bad input."""
    monkeypatch.setenv("SEVEN_OWN", "none")
    page = opened("light")
    page.set_content(render((DOCS / "how-many.md").read_text("utf-8")))
    script = DOCS / "assets" / "how-many.js"
    page.add_script_tag(content=script.read_text("utf-8"))
    said = ask(page, 200, 5, 100)
    assert said["Requests at once"] == pytest.approx(20.5, rel=0.02)
    assert said["Threads"] == 30 and said["Processes"] == 1
    more = ask(page, 200, 50, 100)  # ten times the computing: five cores
    assert more["Processes"] == 8 and more["Threads"] % 8 == 0
    ten = ask(page, 100, 0, 50)
    assert ten["Threads"] == 10
    assert ten["Answers a second, at most"] == pytest.approx(100, rel=0.1)
    for numbers in ((-1, 5, 100), (200, "", 100), (200, 5, 0)):
        assert ask(page, *numbers) == {}
        wrong = page.locator(".seven-wrong").inner_text()
        assert "must be a number from" in wrong
        assert page.locator("[aria-invalid=true]").count() == 1
    assert ask(page, 0, 0, 1)["Threads"] >= 1
    assert page.locator(".seven-wrong").text_content() == ""
