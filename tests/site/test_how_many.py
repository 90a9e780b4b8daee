"""The page How many: its formulas against what was measured."""

import pytest
from playwright.sync_api import Page

from tests.site.browsing import Opened, needs_browser
from tests.site.conftest import Render
from tools.servers import ROOT
from tools.site import data, experiments, figures

pytestmark = [needs_browser, pytest.mark.thorough]
DOCS = ROOT / "docs"


@pytest.fixture
def form(
    opened: Opened, render: Render, monkeypatch: pytest.MonkeyPatch
) -> Page:
    """The page as it is, with the costs of the committed runs."""
    monkeypatch.setenv("SEVEN_OWN", "none")
    page = opened("light")
    page.set_content(render((DOCS / "how-many.md").read_text("utf-8")))
    script = DOCS / "assets" / "how-many.js"
    page.add_script_tag(content=script.read_text("utf-8"))
    return page


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


def test_the_example_of_the_text(form: Page) -> None:
    said = ask(form, 200, 5, 100)
    assert said["Requests at once"] == pytest.approx(20.5, rel=0.02)
    assert said["Threads"] == 30 and said["Processes"] == 1
    assert "√20.5" in form.locator("dl").inner_text()
    more = ask(form, 200, 50, 100)  # ten times the computing: five cores
    assert more["Processes"] == 8 and more["Threads"] % 8 == 0


def test_the_most_it_promises_is_what_a_pool_gives(form: Page) -> None:
    """With ten threads and 0.1 s each, in a sleep and in a database."""
    said = ask(form, 100, 0, 50)
    assert said["Threads"] == 10
    run, row = "labs-database", "03-pool[10 connections]"
    for point in (
        data.reference_point("03-pool", "many"),
        experiments.find(run, row, "db-sleep", 50),
    ):
        rate = figures.required(point, "requests_per_second")
        assert 0.7 < rate / said["Answers a second, at most"] < 1.1


def test_bad_input_gets_a_sentence(form: Page) -> None:
    for numbers in ((-1, 5, 100), (200, "", 100), (200, 5, 0)):
        assert ask(form, *numbers) == {}
        said = form.locator(".seven-wrong").inner_text()
        assert "must be a number from" in said
        assert form.locator("[aria-invalid=true]").count() == 1
    assert ask(form, 0, 0, 1)["Threads"] >= 1
    assert form.locator(".seven-wrong").text_content() == ""
