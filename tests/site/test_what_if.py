"""The page What if: its model is tools/model, and its form tells it apart."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.site.browsing import Opened, needs_browser
from tests.site.conftest import Render
from tools.model import model
from tools.model.model import Shape
from tools.servers import ROOT

pytestmark = [needs_browser, pytest.mark.thorough]
DOCS = ROOT / "docs"
THEIRS = """(cases) => cases.map(([how, wait, compute, load, seed]) => [
  sevenModel.closed(how, wait, compute, 40, 1e-4),
  sevenModel.simulate(how, wait, compute, 1, { ...load, seed })
    .flatMap((each) => [each.client, each.sent, each.taken, each.done])
    .map((number) => (number === Infinity ? -1 : number)),
  sevenModel.mostRate(how, wait, compute),
  sevenModel.fullest(how, wait, compute, 50),
])"""


def scripts(page: Page, *names: str) -> None:
    for name in names:
        page.add_script_tag(path=DOCS / "assets" / f"{name}.js")


def case(draw: random.Random) -> list[Any]:
    """Threads and cores, wait, compute, the load, and a seed."""
    how = {"threads": draw.choice([0, 1, 3, 10]), "cores": draw.choice([1, 4])}
    compute = draw.choice([0.0005, 0.001, 0.05 * draw.random() + 1e-4])
    load: dict[str, float] = {"clients": draw.randint(1, 40)}
    if draw.random() < 0.5:
        load = {"rate": 200 * draw.random() + 1}
    return [how, draw.choice([0, 0.01, draw.random()]), compute, load,
            draw.randrange(3)]


def test_the_same_in_javascript(opened: Opened) -> None:
    draw = random.Random(1)
    cases = [case(draw) for _ in range(1000)]
    page = opened("light")
    scripts(page, "model")
    found = page.evaluate(THEIRS, cases)
    for (how, wait, compute, load, seed), their in zip(
        cases, found, strict=True
    ):
        shape = Shape(**how)
        requests = model.simulate(
            shape, wait, compute, 1, seed=seed, **load
        )
        numbers = [
            -1 if number == math.inf else number for each in requests
            for number in (each.client, each.sent, each.taken, each.done)
        ]
        rates = model.closed(shape, wait, compute, 40, 1e-4)
        most = model.most_rate(shape, wait, compute)
        assert their[0] == pytest.approx(rates, rel=1e-9)
        assert their[1] == pytest.approx(numbers, rel=1e-9, abs=1e-9)
        assert their[2] == pytest.approx(most, rel=1e-9)
        assert their[3] == model.fullest(shape, wait, compute, 50)


@pytest.fixture
def page(
    opened: Opened, render: Render, monkeypatch: pytest.MonkeyPatch
) -> Page:
    monkeypatch.setenv("SEVEN_OWN", "none")
    page = opened("light")
    page.set_content(render((DOCS / "what-if.md").read_text("utf-8")))
    scripts(page, "model", "what-if")
    return page


def test_a_link_chooses(
    opened: Opened, render: Render, tmp_path: Path
) -> None:
    page, file = opened("light"), tmp_path / "page.html"
    text = render((DOCS / "what-if.md").read_text("utf-8"))
    file.write_text(f"<!doctype html><title>x</title>{text}", "utf-8")
    page.goto(f"{file.as_uri()}?show=03,07&clients=1000&wait=50&cores=8")
    scripts(page, "model", "what-if")
    assert "03 a thread each" in said(page) and "07 workers" in said(page)
    assert "06" not in said(page)
    assert page.get_by_label("Cores", exact=True).input_value() == "8"
    assert "1,000 clients" in page.locator(".what-if-form").inner_text()


def said(page: Page) -> str:
    return page.locator("[role=status]").inner_text()


def fill(page: Page, label: str, value: object) -> None:
    page.get_by_label(label).fill(f"{value}")


def test_the_form(page: Page) -> None:
    assert "03-pool a pool: 99.7 requests/s" in said(page)
    assert "Its 10 threads are full" in said(page)
    marks = page.locator(".seven-line path")
    measured = marks.count()
    assert measured > 20
    fill(page, "Threads of the pool", 50)
    assert "03-pool a pool: 498 requests/s" in said(page)
    assert marks.count() < measured  # no pool of 50 was measured
    fill(page, "and computes", 20)
    assert "06 asyncio: 49" in said(page)
    assert "A core is full" in said(page)
    assert marks.count() == 0
    fill(page, "A request waits", -1)
    assert "must be from 0 to 60000" in page.locator(
        ".what-if-form .seven-wrong").inner_text()
    fill(page, "A request waits", 0)
    assert page.get_by_label("03 a thread each").is_disabled()
    page.get_by_label("02 one").uncheck()
    page.get_by_label("07 workers").check()
    page.get_by_label("Cores", exact=True).fill("8")
    assert "All 8 cores are full" in said(page)


def test_how_long_a_request_takes(page: Page) -> None:
    slow = page.locator(".what-if-slow")
    titles = slow.locator("title").all_text_contents()
    assert titles == ["02: 10 s", "03-pool: 1 s", "06: 100 ms"]
    page.get_by_label("Kind of load").select_option("open")
    assert slow.inner_text() == ""


def test_requests_that_do_not_wait_for_a_response(page: Page) -> None:
    page.get_by_label("Kind of load").select_option("open")
    many = page.get_by_label("How many")
    many.evaluate("(box) => { box.value = 1; }")
    many.dispatch_event("input")
    assert "Nothing is full" in said(page)
    assert said(page).count("grows without end") == 1  # of step 02
    many.evaluate("(box) => { box.value = 2.3; }")
    many.dispatch_event("input")
    assert said(page).count("grows without end") == 2


def test_a_plan(page: Page) -> None:
    """The example of the page How many threads: 20.5 + 2 * 4.5, in one."""
    page.get_by_label("02 one").uncheck()
    assert "A plan" not in said(page)  # they wait for each response
    for number, ms, words in (
        (1, 5, "1 process with 30 threads"),
        (1, 50, "processes with 5 threads each"),
        (2, 0, "1 process with 17 threads"),
    ):
        page.get_by_label("Kind of load").select_option("open")
        many = page.get_by_label("How many")
        many.evaluate("(box) => { box.value = 2; }")
        many.dispatch_event("input")
        fill(page, "A request waits", 200 / number)
        fill(page, "and computes", ms)
        assert words in said(page), said(page)
    assert said(page).count("1 process.") == 1  # of asyncio


def test_a_guess_comes_first(page: Page) -> None:
    page.get_by_label("I want to guess first").check()
    assert said(page) == ""
    assert page.locator(".seven-line").count() == 0
    assert page.locator(".seven-end").count() == 1  # the guess
    guess = page.get_by_label("I expect")
    guess.evaluate("(box) => { box.value = 1; }")
    guess.dispatch_event("input")
    assert page.locator(".seven-line").count() == 0
    page.get_by_role("button", name="Show").click()
    assert "You expected 10, the model has 9.95: well guessed." in said(page)
    fill(page, "A request waits", 1000)
    assert said(page) == ""
    page.get_by_role("button", name="Show").click()
    assert "what did you not think of?" in said(page)


def test_the_first_second(page: Page) -> None:
    race = page.locator(".what-if-race")
    assert "03-pool: 90 responses in the first second" in race.inner_text()
    assert race.locator("svg").count() == 3
    assert race.locator("svg").nth(1).locator(".what-if-works").count() == 20
