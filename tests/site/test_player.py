"""The player of recordings in a browser: mouse, keyboard, no script, paper.

A small site with the committed recordings is built; what the browser
shows is compared with the recordings, never with what the script computes.
"""

from collections.abc import Iterator
from datetime import datetime as Date
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.site.browsing import (
    Motion,
    Opened,
    Scheme,
    faults,
    needs_browser,
    open_page,
    visit,
)
from tests.site.conftest import small as site_of
from tools.data import recording
from tools.site import source as pieces

pytestmark = [needs_browser, pytest.mark.thorough]

SLEEP = "time.sleep(options.delay)"
RUNS = ONE, MANY = [
    recording.load(recording.REFERENCE / f"{name}.json")
    for name in ("02", "03")
]
END = ONE.length  # µs of the race of both
# All of 03 sleep, and one of 02.
ASLEEP = (
    max(c.read for c in MANY.clients) + min(c.answered for c in MANY.clients)
) // 2
FENCE = "```race\nservers: {}\ntitle: Some clients\n```\n\n"
SOURCE = "```source\nfile: {}\nname: {}\n```\n\n"
PAGE = (
    "# Page\n\n" + SOURCE.format("02", "handle_client, wait")
    + SOURCE.format("03", "handle_client")
    + FENCE.format("02, 03") + FENCE.format("06-executor, 07")
)


@pytest.fixture(scope="module")
def page_with_races(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with two races, one folder below the top of its site."""
    folder = tmp_path_factory.mktemp("race")
    pages = {"index": "# Top", "steps/races": PAGE}
    done = site_of(folder, **pages)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site" / "steps" / "races.html"


class Player:
    """The first race of a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.figure = page.locator("figure.seven-race").first
        self.play = self.figure.locator(".race-play")
        self.back, self.forth = self.figure.locator(".race-step").all() or (
            self.play, self.play  # without a script there are none
        )
        self.slider = self.figure.locator("input[type=range]")
        self.time = self.figure.locator(".race-time")

    def count(self, name: str, run: int) -> Locator:
        return self.figure.locator(f"[data-count={name}]").nth(run)

    def box(self, name: str, run: int) -> Locator:
        """The dots in a box."""
        board = self.figure.locator(".race-run").nth(run)
        return board.locator(f".race-box--{name} .race-dot")

    def seek(self, time: int) -> None:
        """Move the slider as the mouse does, to a time in µs."""
        self.slider.evaluate(
            "(slider, part) => { slider.value = slider.max * part;"
            " for (const name of ['input', 'change'])"
            " slider.dispatchEvent(new Event(name)); }",
            time / END,
        )

    def lit(self) -> dict[str, str]:
        """The lines that are lit, as in their files: how many threads."""
        found = self.page.evaluate(
            "[...document.querySelectorAll('.race-lit')].map(line => ["
            "line.closest('code').dataset.file, line.dataset.line,"
            "line.innerText.trim(), line.dataset.times || ''])"
        )
        for file, number, text, _ in found:
            line = pieces.read(file).splitlines()[int(number) - 1]
            assert line.strip() == text
        return {f"{file[:2]} {text}": many for file, _, text, many in found}

    def is_at(self, now: int) -> None:
        """Boxes and counters are as the recordings say; now: in µs."""
        for run, made in enumerate(RUNS):
            done = [c for c in made.clients if c.done <= now]
            work = {
                f"{at}" for at, c in enumerate(made.clients, 1)
                if c.read <= now < c.done
            }
            calls = made.count if now == END else max(
                (n for at, n in made.calls if at <= now), default=0
            )
            for name, words in (
                ("answered", f"{len(done)} of 20"), ("work", f"{len(work)}"),
                ("calls", f"{calls:,}"),
            ):
                expect(self.count(name, run)).to_have_text(words)
            expect(self.box("answered", run)).to_have_count(len(done))
            left = 20 - len(done) - len(work)
            expect(self.box("waiting", run)).to_have_count(left)
            # The number in a ring is the client's.
            assert {*self.box("work", run).all_inner_texts()} == work


@pytest.fixture(scope="module")
def player(browser: Browser, page_with_races: Path) -> Iterator[Player]:
    """One visit of a reader who likes it calm, for most of the tests."""
    page, trouble = open_page(browser, "light")
    visit(page, page_with_races)
    yield Player(page)
    page.context.close()
    assert not trouble, "\n".join(trouble)


def test_nothing_is_told_before_play(player: Player) -> None:
    player.page.reload()
    player.is_at(0)
    expect(player.play).to_have_text("Play")
    expect(player.figure.locator(".race-guess")).to_be_visible()
    expect(player.figure.locator("details")).to_be_hidden()
    for curtain in player.figure.locator(".race-curtain").all():
        assert curtain.get_attribute("width") == "100%"
    # A screen reader does not get the result from the charts either.
    tree = player.figure.aria_snapshot()
    assert "ms, the last" not in tree
    assert "Waiting: 1 to 20. At work: none. Answered: none." in tree
    assert player.lit() == {}


def test_by_keyboard(player: Player) -> None:
    player.page.reload()
    player.play.focus()
    player.page.keyboard.press("Tab")  # the button for back is off
    expect(player.forth).to_be_focused()
    player.page.keyboard.press("Tab")
    expect(player.slider).to_be_focused()
    player.page.keyboard.press("ArrowRight")
    expect(player.time).not_to_have_text("0 ms")
    expect(player.figure.locator(".race-guess")).to_be_hidden()
    early = player.time.text_content() or ""
    expect(player.slider).to_have_attribute("aria-valuetext", early)
    player.page.keyboard.press("End")
    player.is_at(END)
    expect(player.play).to_have_text("Play again")
    player.page.keyboard.press("Home")
    player.is_at(0)
    player.play.focus()
    player.page.keyboard.press("Enter")
    expect(player.play).to_have_text("Pause")
    player.page.keyboard.press("Space")
    expect(player.play).to_have_text("Play")


def test_step_buttons_of_one_race(player: Player) -> None:
    """They go from change to change, and leave the other race alone."""
    player.seek(0)
    expect(player.back).to_be_disabled()
    player.forth.click()
    first = player.time.text_content() or ""
    assert first != "0 ms"
    player.forth.click()
    expect(player.time).not_to_have_text(first)
    player.back.click()
    expect(player.time).to_have_text(first)
    other = player.page.locator("figure.seven-race").nth(1)
    expect(other.locator(".race-time")).to_have_text("0 ms")
    player.seek(END - 1)
    player.forth.click()
    player.is_at(END)
    expect(player.forth).to_be_disabled()
    expect(player.play).to_be_focused()


def test_the_middle_of_a_race(player: Player) -> None:
    player.seek(END // 2)
    player.is_at(END // 2)
    assert player.lit() == {f"02 {SLEEP}": ""}
    player.seek(ASLEEP)
    player.is_at(ASLEEP)
    label = player.figure.locator(".race-stage").nth(1)
    expect(label).to_have_attribute("aria-label", (
        "Where each request is. Waiting: none. At work: 1 to 20. "
        "Answered: none."
    ))
    # The playhead hides what is to come.
    for chart in player.figure.locator(".race-view svg").all():
        x = chart.locator(".race-head").get_attribute("x1") or ""
        assert 0 < float(x.rstrip("%")) < 100
        assert chart.locator(".race-curtain").get_attribute("x") == x
    assert player.lit() == {f"02 {SLEEP}": "", f"03 {SLEEP}": "\u00d720"}
    words = player.figure.locator(".race-line").nth(1)
    expect(words).to_contain_text(f"\u00d720 {SLEEP}")
    # What is copied is the code and nothing else.
    copied = player.page.evaluate(
        "(() => { const code = document.querySelector('code[data-file]');"
        " code.setAttribute('data-md-copying', '');"
        " const text = code.innerText;"
        " code.removeAttribute('data-md-copying'); return text; })()"
    )
    text = pieces.read("02")
    assert copied.rstrip() == "\n\n\n".join(
        pieces.find(text, name).text for name in ("handle_client", "wait")
    )


def test_two_views_and_paper(player: Player) -> None:
    views = player.figure.locator(".race-view").all()
    tabs = player.figure.locator(".race-tab").all()
    for chosen in (0, 1):
        tabs[chosen].click()
        for at in (0, 1):
            expect(views[at]).to_be_visible(visible=at == chosen)
            pressed = str(at == chosen).lower()
            expect(tabs[at]).to_have_attribute("aria-pressed", pressed)
    player.seek(ASLEEP)
    player.page.emulate_media(media="print")
    player.is_at(END)
    for view in views:
        expect(view).to_be_visible()
    hidden = player.figure.locator(".race-curtain, .race-head, .race-controls")
    for found in hidden.all():
        expect(found).to_be_hidden()
    expect(player.figure.locator("table").first).to_be_visible()
    player.page.emulate_media(media="screen")
    expect(player.box("work", 1)).to_have_count(20)


WATCH = """() => {
    const animate = Element.prototype.animate;
    window.moved = false;
    Element.prototype.animate = function (...how) {
      window.moved = true; return animate.apply(this, how); } }"""


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_play_and_pause(
    opened: Opened, page_with_races: Path, motion: Motion
) -> None:
    """By mouse; the clock of the page is ours."""
    page = opened("light", motion=motion)
    page.clock.install()
    visit(page, page_with_races)
    page.clock.pause_at(Date.now() + timedelta(hours=1))
    page.evaluate(WATCH)
    player = Player(page)
    player.figure.locator("select").select_option("fast")
    player.play.click()
    expect(player.play).to_have_text("Pause")
    page.clock.run_for(2_000)
    player.play.click()
    expect(player.play).to_have_text("Play")
    frozen = player.time.text_content() or ""
    assert frozen != "0 ms"
    said = player.figure.locator(".race-said")
    expect(said).to_contain_text(f"{frozen}. Server 02: ")
    page.clock.run_for(2_000)
    expect(player.time).to_have_text(frozen)
    player.play.click()
    page.clock.run_for(60_000)
    expect(player.play).to_have_text("Play again")
    player.is_at(END)
    expect(player.figure.locator("details")).to_be_visible()
    assert page.evaluate("window.moved") == (motion != "reduce")
    player.play.click()  # once more from the beginning
    page.clock.run_for(1_000)
    expect(player.box("answered", 0)).not_to_have_count(20)


def test_without_a_script(opened: Opened, page_with_races: Path) -> None:
    page = opened("light", script=False)
    page.goto(page_with_races.as_uri())
    player = Player(page)
    figure = player.figure
    expect(figure.locator("button, input, select")).to_have_count(0)
    player.is_at(END)
    for found in figure.locator(".race-view").all():
        expect(found).to_be_visible()
    for curtain in figure.locator(".race-curtain").all():
        assert curtain.get_attribute("width") == "0"
    for found in figure.locator(".race-head").all():
        expect(found).to_be_hidden()
    figure.locator("summary").click()
    expect(figure.locator("table").first).to_be_visible()
    links = figure.locator("figcaption a").all()
    assert [link.get_attribute("href") for link in links] == [
        f"../data/recordings/{name}.json" for name in ("02", "03")
    ]


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 375), ("dark", 1280)]
)
def test_it_is_accessible_and_not_too_wide(
    opened: Opened, page_with_races: Path, scheme: Scheme, width: int
) -> None:
    page = opened(scheme, width)
    visit(page, page_with_races)
    player = Player(page)
    player.seek(ASLEEP)
    player.figure.locator(".race-tab").nth(1).click()
    player.figure.locator("details").evaluate("details => details.open = true")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    # The rest of the page is looked at with the whole site.
    assert not faults(page, "figure.seven-race", "pre")
