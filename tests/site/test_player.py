"""The player of recordings in a browser: mouse, keyboard, no script, paper.

A small site with the committed recordings is built; what the browser
shows is compared with the recordings, never with what the script computes.
"""

import re
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

TIMES = "\u00d7"
SLEEP = "time.sleep(options.delay)"
READ = "connection.data_received(sock.recv(RECV_SIZE))"
ONE, MANY = (
    recording.load(recording.REFERENCE / f"{name}.json")
    for name in ("02", "03")
)
END = ONE.length  # µs of the race of both
# All of 03 sleep, and one of 02.
ASLEEP = (
    max(c.read for c in MANY.clients) + min(c.answered for c in MANY.clients)
) // 2
FENCE = "```race\nservers: {}\ntitle: Some clients\n```\n\n"
SOURCE = "```source\nfile: {}\nname: {}\n```\n\n"
PAGES = {
    "index": "# Page\n\n"
    + SOURCE.format("02", "handle_client, wait")
    + SOURCE.format("03", "handle_client")
    + FENCE.format("02, 03") + FENCE.format("06-executor, 07"),
    "steps/families": "# Families\n\n" + "".join(
        FENCE.format(names)
        for names in ("01, 04", "03-pool, 05-threads", "06-executor", "06, 07")
    ),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two pages with races."""
    folder = tmp_path_factory.mktemp("race")
    done = site_of(folder, **PAGES)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class Player:
    """The first race of a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.figure = page.locator("figure.seven-race").first
        self.play = self.figure.locator(".race-play")
        self.slider = self.figure.locator("input[type=range]")
        self.time = self.figure.locator(".race-time")

    def count(self, name: str, run: int = 0) -> Locator:
        return self.figure.locator(f"[data-count={name}]").nth(run)

    def box(self, name: str, run: int = 0) -> Locator:
        """The dots in a box."""
        board = self.figure.locator(".race-run").nth(run)
        return board.locator(f".race-box--{name} .race-dot")

    def seek(self, time: int) -> None:
        """Move the slider as the mouse does, to a time in µs."""
        self.slider.evaluate(
            "(slider, part) => { slider.value = slider.max * part;"
            " slider.dispatchEvent(new Event('input')); }",
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

    def is_at_the_end(self) -> None:
        """Everybody is answered, and the counters say so."""
        for run, made in enumerate((ONE, MANY)):
            expect(self.box("answered", run)).to_have_count(20)
            expect(self.count("answered", run)).to_have_text("20 of 20")
            expect(self.count("work", run)).to_have_text("0")
            calls = f"{made.calls[-1][1]:,}"
            expect(self.count("calls", run)).to_have_text(calls)

    def is_at_the_begin(self) -> None:
        expect(self.time).to_have_text("0 ms")
        for run in (0, 1):
            expect(self.count("answered", run)).to_have_text("0 of 20")
            expect(self.box("waiting", run)).to_have_count(20)


@pytest.fixture(scope="module")
def player(browser: Browser, small: Path) -> Iterator[Player]:
    """One visit of a reader who likes it calm, for most of the tests."""
    page, trouble = open_page(browser, "light")
    visit(page, small / "index.html")
    yield Player(page)
    page.context.close()
    assert not trouble, "\n".join(trouble)


def test_nothing_is_told_before_play(player: Player) -> None:
    """The first of the visit: nothing has been pressed."""
    player.is_at_the_begin()
    expect(player.play).to_have_text("Play")
    expect(player.figure.locator(".race-guess")).to_be_visible()
    expect(player.figure.locator("details")).to_be_hidden()
    for curtain in player.figure.locator(".race-curtain").all():
        assert curtain.get_attribute("x") == "0%"
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
    expect(player.figure.locator(".race-step").nth(1)).to_be_focused()
    player.page.keyboard.press("Tab")
    expect(player.slider).to_be_focused()
    player.page.keyboard.press("ArrowRight")
    expect(player.time).not_to_have_text("0 ms")
    expect(player.figure.locator(".race-guess")).to_be_hidden()
    early = player.time.text_content() or ""
    expect(player.slider).to_have_attribute("aria-valuetext", early)
    player.page.keyboard.press("End")
    player.is_at_the_end()
    expect(player.play).to_have_text("Play again")
    player.page.keyboard.press("Home")
    player.is_at_the_begin()
    player.play.focus()
    player.page.keyboard.press("Enter")
    expect(player.play).to_have_text("Pause")
    player.page.keyboard.press("Space")
    expect(player.play).to_have_text("Play")


def test_step_buttons_of_one_race(player: Player) -> None:
    """They go from change to change, and leave the other race alone."""
    player.seek(0)
    back, forth = player.figure.locator(".race-step").all()
    expect(back).to_be_disabled()
    forth.click()
    first = player.time.text_content() or ""
    assert first != "0 ms"
    forth.click()
    expect(player.time).not_to_have_text(first)
    back.click()
    expect(player.time).to_have_text(first)
    other = player.page.locator("figure.seven-race").nth(1)
    expect(other.locator(".race-time")).to_have_text("0 ms")
    expect(other.locator(".race-guess")).to_be_visible()
    player.seek(END - 1)
    forth.click()
    player.is_at_the_end()
    expect(forth).to_be_disabled()
    expect(player.play).to_be_focused()


@pytest.mark.parametrize("now", [ASLEEP, END // 2])
def test_where_everybody_is(player: Player, now: int) -> None:
    player.seek(now)
    for run, made in enumerate((ONE, MANY)):
        done = [c for c in made.clients if c.done <= now]
        work = [
            f"{at}" for at, c in enumerate(made.clients, 1)
            if c.read <= now < c.done
        ]
        left = 20 - len(done) - len(work)
        for name, count in (
            ("answered", f"{len(done)} of 20"), ("work", f"{len(work)}"),
            # As many as were recorded until then.
            ("calls", f"{max(n for at, n in made.calls if at <= now):,}"),
        ):
            expect(player.count(name, run)).to_have_text(count)
        expect(player.box("answered", run)).to_have_count(len(done))
        expect(player.box("waiting", run)).to_have_count(left)
        # The number in the ring is the client's.
        assert set(player.box("work", run).all_inner_texts()) == set(work)
        player.slider.dispatch_event("change")
        label = player.figure.locator(".race-stage").nth(run)
        expect(label).to_have_attribute(
            "aria-label", re.compile(rf"At work: {work[0] if work else 'n'}")
        )
    # The playhead hides what is to come.
    for chart in player.figure.locator(".race-view svg").all():
        x = chart.locator(".race-head").get_attribute("x1") or ""
        assert 0 < float(x.rstrip("%")) < 100
        assert chart.locator(".race-curtain").get_attribute("x") == x


def test_the_line_that_runs_is_lit(player: Player) -> None:
    player.seek(ASLEEP)
    assert player.lit() == {
        f"02 {SLEEP}": "", f"03 {SLEEP}": f"{TIMES}20",
    }
    words = player.figure.locator(".race-line").nth(1)
    expect(words).to_contain_text(f"{TIMES}20 {SLEEP}")
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
    # A moment at which a thread reads.
    (read,) = (
        span for span in ONE.lanes[0].spans
        if span.kind == "read" and span.end == ONE.clients[3].read
    )
    player.seek((read.begin + read.end) // 2)
    assert player.lit() == {f"02 {READ}": ""}
    player.seek(END)
    assert player.lit() == {}


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
    player.is_at_the_end()
    for view in views:
        expect(view).to_be_visible()
    hidden = player.figure.locator(".race-curtain, .race-head, .race-controls")
    for found in hidden.all():
        expect(found).to_be_hidden()
    expect(player.figure.locator("table").first).to_be_visible()
    player.page.emulate_media(media="screen")
    expect(player.box("work")).to_have_text(["1"])
    expect(player.box("work", 1)).to_have_count(20)


WATCH = """() => {
    const animate = Element.prototype.animate;
    window.moved = false;
    Element.prototype.animate = function (...how) {
      window.moved = true; return animate.apply(this, how); } }"""


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_play_and_pause(opened: Opened, small: Path, motion: Motion) -> None:
    """By mouse; the clock of the page is ours."""
    page = opened("light", motion=motion)
    page.clock.install()
    visit(page, small / "index.html")
    page.clock.pause_at(Date.now() + timedelta(hours=1))
    page.evaluate(WATCH)
    player = Player(page)
    player.figure.locator("select").select_option("fast")
    player.play.click()
    expect(player.play).to_have_text("Pause")
    expect(player.figure.locator(".race-guess")).to_be_hidden()
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
    page.clock.run_for(200)  # less than a step takes without motion
    assert (player.time.text_content() == frozen) == (motion == "reduce")
    page.clock.run_for(60_000)
    expect(player.play).to_have_text("Play again")
    player.is_at_the_end()
    expect(player.figure.locator("details")).to_be_visible()
    assert player.lit() == {}
    assert page.evaluate("window.moved") == (motion != "reduce")
    player.play.click()  # once more from the beginning
    expect(player.play).to_have_text("Pause")
    page.clock.run_for(1_000)
    expect(player.box("answered")).not_to_have_count(20)


def test_without_a_script(opened: Opened, small: Path) -> None:
    page = opened("light", script=False)
    page.goto((small / "index.html").as_uri())
    player = Player(page)
    figure = player.figure
    expect(figure.locator("button, input, select")).to_have_count(0)
    player.is_at_the_end()
    for view in figure.locator(".race-view").all():
        expect(view).to_be_visible()
        for curtain in view.locator(".race-curtain").all():
            assert curtain.get_attribute("width") == "0"
        for head in view.locator(".race-head").all():
            expect(head).to_be_hidden()
    figure.locator("summary").click()
    expect(figure.locator("table").first).to_be_visible()


SEEK = """part => document.querySelectorAll('.race-controls input').forEach(
    slider => { slider.value = slider.max * part;
                slider.dispatchEvent(new Event('input')); })"""
OUTSIDE = """
    [...document.querySelectorAll('.race-box')].flatMap(box => {
      const outer = box.getBoundingClientRect();
      const inside = box.querySelectorAll(
        '.race-dot, .race-ring, .race-shelf, .race-slot');
      return [...inside].filter(one => {
        const r = one.getBoundingClientRect();
        return r.left < outer.left || r.right > outer.right
          || r.top < outer.top || r.bottom > outer.bottom;
      }).map(one => one.outerHTML);
    })"""


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 375), ("dark", 1280)]
)
def test_everything_has_room_and_is_accessible(
    opened: Opened, small: Path, scheme: Scheme, width: int
) -> None:
    """No dot, ring or shelf leaves its box, whatever the time."""
    page = opened(scheme, width)
    for name in ("index.html", "steps/families.html"):
        visit(page, small / name)
        for part in (0, 0.05, 0.4, 1, 0.3):
            page.evaluate(SEEK, part)
            assert page.evaluate(OUTSIDE) == []
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
        if name != "index.html":
            continue
        figures = page.locator("figure.seven-race").all()
        for view, figure in enumerate(figures):  # one shows each view
            figure.locator(".race-tab").nth(view).click()
        page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        # The rest of the page is looked at with the whole site.
        assert not faults(page, "figure.seven-race", "pre")
    links = page.locator("figure.seven-race").first.locator("figcaption a")
    assert [link.get_attribute("href") for link in links.all()] == [
        f"../data/recordings/{name}.json" for name in ("01", "04")
    ]
