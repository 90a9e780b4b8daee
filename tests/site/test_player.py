"""The player of recordings in a browser: mouse, keyboard, no script, paper.

A small site with sample recordings is built; what the browser shows is
compared with the recordings, never with what the script computes.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]
    Axe,
)
from playwright.sync_api import Browser, Locator, Page, expect

from tests.site import race_sample
from tests.site.browsing import (
    Motion,
    Scheme,
    needs_browser,
    open_page,
    visit,
)
from tools.servers import ROOT
from tools.site import race, race_stage
from tools.site import source as pieces

pytestmark = needs_browser

TIMES = "\u00d7"
SLEEP_02 = "time.sleep(options.delay)"
PLAYS = 90_000  # ms that a race may take on a machine with much to do
RUNS = {made.server: made for made in race_sample.everybody()}
END = RUNS["02"].length  # µs of the race of 02 and 03
STEPS = race.steps(
    [race_stage.stage(RUNS["02"]), race_stage.stage(RUNS["03"])], END
)

PAGE = """\
# Page

```source
file: 02
name: answer_request, receive
```

```source
file: 03
name: answer_request
```

```race
servers: 02, 03
title: Twenty clients
```

```race
servers: 06-executor, 07
title: The same of others
```
"""
FAMILIES = """\
# Families

```race
servers: 01, 04
title: One
```

```race
servers: 03-pool, 05
title: Threads
```

```race
servers: 06-executor
title: Queue
```

```race
servers: 06, 07
title: Shelves
```
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two pages with races."""
    folder = tmp_path_factory.mktemp("race")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = re.sub(r"(?s)\nnav:.*?\nvalidation:", "\nvalidation:", config)
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "assets", folder / "docs" / "assets")
    (folder / "docs" / "steps").mkdir()
    (folder / "docs" / "index.md").write_text(PAGE)
    (folder / "docs" / "steps" / "families.md").write_text(FAMILIES)
    recordings = folder / "docs" / "data" / "recordings"
    race_sample.save(recordings)
    (recordings / "01.trace.json").write_text("[]")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict",
         "-f", folder / "mkdocs.yml", "-d", folder / "site"],
        cwd=ROOT, capture_output=True, text=True,
        env={
            **os.environ, "SEVEN_RECORDINGS": str(recordings),
            "SEVEN_OWN": "none",
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


class Player:
    """The first race of the page, and what went wrong on it."""

    def __init__(self, page: Page, trouble: list[str]) -> None:
        self.page, self.trouble = page, trouble
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
        """The lines that are lit, with how many threads."""
        found: dict[str, str] = self.page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('.race-lit')]"
            ".map(line => [line.dataset.line + ' ' + line.innerText.trim(),"
            " line.dataset.times || '']))"
        )
        return found


@pytest.fixture
def player(
    browser: Browser, small: Path, request: pytest.FixtureRequest
) -> Iterator[Player]:
    """The page in a window; by default of a reader who likes it calm."""
    given: dict[str, Any] = getattr(request, "param", {})
    page, trouble = open_page(
        browser, given.get("scheme", "light"), given.get("width", 1280),
        given.get("motion", "reduce"), given.get("script", True),
    )
    visit(page, small / given.get("page", "index.html"))
    yield Player(page, trouble)
    page.context.close()
    assert not trouble, "\n".join(trouble)


def window(
    motion: Motion = "reduce", width: int = 1280, script: bool = True,
    scheme: Scheme = "light", page: str = "index.html",
) -> pytest.MarkDecorator:
    """With a window that differs from the usual one."""
    return pytest.mark.parametrize(
        "player",
        [{
            "motion": motion, "width": width, "script": script,
            "scheme": scheme, "page": page,
        }],
        indirect=True,
        ids=[f"{motion}-{width}-{scheme}"],
    )  # fmt: skip


def test_nothing_is_told_before_play(player: Player) -> None:
    expect(player.play).to_have_text("Play")
    expect(player.time).to_have_text("0 ms")
    expect(player.figure.locator(".race-guess")).to_be_visible()
    for run in (0, 1):
        expect(player.count("answered", run)).to_have_text("0 of 20")
        expect(player.count("calls", run)).to_have_text("0")
        expect(player.box("waiting", run)).to_have_count(20)
    expect(player.figure.locator("details")).to_be_hidden()
    for curtain in player.figure.locator(".race-curtain").all():
        assert curtain.get_attribute("x") == "0%"
        assert curtain.get_attribute("width") == "100%"
    # A screen reader does not get the result from the charts either.
    tree = player.figure.aria_snapshot()
    assert "ms, the last" not in tree
    assert "Waiting: 1 to 20. At work: none. Answered: none." in tree
    assert player.lit() == {}


@window(motion="no-preference")
def test_play_by_mouse(player: Player) -> None:
    player.figure.locator("select").select_option("fast")
    player.page.evaluate(
        "window.seen = [];"
        "new MutationObserver(() => window.seen.push("
        "  document.querySelector('.race-time').textContent))"
        ".observe(document.querySelector('.race-time'), {childList: true})"
    )
    player.play.click()
    expect(player.play).to_have_text("Pause")
    expect(player.figure.locator(".race-guess")).to_be_hidden()
    player.page.wait_for_function(
        "document.getAnimations().length > 0", timeout=PLAYS
    )
    expect(player.play).to_have_text("Play again", timeout=PLAYS)
    for run, name in enumerate(("02", "03")):
        expect(player.box("answered", run)).to_have_count(20)
        expect(player.count("answered", run)).to_have_text("20 of 20")
        expect(player.count("work", run)).to_have_text("0")
        calls = f"{RUNS[name].calls[-1][1]:,}"
        expect(player.count("calls", run)).to_have_text(calls)
    expect(player.figure.locator("details")).to_be_visible()
    expect(player.time).to_have_text(f"{END / 1000:,.0f} ms")
    assert player.lit() == {}
    # It moved, and did not hop from event to event.
    seen = set(player.page.evaluate("window.seen"))
    assert seen - {f"{at / 1000:,.0f} ms" for at in STEPS}
    # And once more from the beginning.
    player.play.click()
    expect(player.play).to_have_text("Pause")
    player.play.click()
    expect(player.play).to_have_text("Play")
    expect(player.box("answered")).not_to_have_count(20)


@window(motion="no-preference")
def test_pause(player: Player) -> None:
    player.figure.locator("select").select_option("slow")
    player.play.click()
    expect(player.time).not_to_have_text("0 ms", timeout=PLAYS)
    player.play.click()
    expect(player.play).to_have_text("Play")
    frozen = player.time.text_content() or ""
    # Many frames later nothing has moved.
    player.page.evaluate(
        "new Promise(done => { let left = 30; const next = () =>"
        " left-- ? requestAnimationFrame(next) : done(); next(); })"
    )
    expect(player.time).to_have_text(frozen)
    said = player.figure.locator(".race-said")
    expect(said).to_contain_text(f"{frozen}. Server 02: ")


def test_without_motion_it_goes_by_steps(player: Player) -> None:
    player.figure.locator("select").select_option("fast")
    player.page.evaluate(
        "window.seen = []; window.moved = 0;"
        "new MutationObserver(() => {"
        "  window.moved += document.getAnimations().length;"
        "  window.seen.push("
        "    document.querySelector('.race-time').textContent); })"
        ".observe(document.querySelector('.race-time'), {childList: true})"
    )
    player.play.click()
    expect(player.play).to_have_text("Pause")
    expect(player.play).to_have_text("Play again", timeout=PLAYS)
    seen = player.page.evaluate("window.seen")
    assert set(seen) <= {f"{at / 1000:,.0f} ms" for at in STEPS}
    assert len(set(seen)) >= 20
    assert player.page.evaluate("window.moved") == 0
    expect(player.box("answered")).to_have_count(20)


def test_by_keyboard(player: Player) -> None:
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
    expect(player.box("answered")).to_have_count(20)
    expect(player.play).to_have_text("Play again")
    player.page.keyboard.press("Home")
    expect(player.box("waiting")).to_have_count(20)
    expect(player.time).to_have_text("0 ms")
    player.play.focus()
    player.page.keyboard.press("Enter")
    expect(player.play).to_have_text("Pause")
    player.page.keyboard.press("Space")
    expect(player.play).to_have_text("Play")


def test_step_buttons(player: Player) -> None:
    back, forth = player.figure.locator(".race-step").all()
    expect(back).to_be_disabled()
    for at in STEPS[1:4]:
        forth.click()
        expect(player.time).to_have_text(f"{at / 1000:,.0f} ms")
    back.click()
    expect(player.time).to_have_text(f"{STEPS[2] / 1000:,.0f} ms")
    player.seek(STEPS[-2] + 1)
    forth.click()
    expect(forth).to_be_disabled()
    expect(player.play).to_be_focused()


def test_where_everybody_is(player: Player) -> None:
    player.seek(race_sample.DELAY * 3 // 2)
    for run, name in enumerate(("02", "03")):
        now = race_sample.DELAY * 3 // 2
        clients = RUNS[name].clients
        done = sum(c.done <= now for c in clients)
        work = sum(c.read <= now < c.done for c in clients)
        expect(player.count("answered", run)).to_have_text(f"{done} of 20")
        expect(player.count("work", run)).to_have_text(f"{work}")
        expect(player.box("answered", run)).to_have_count(done)
        expect(player.box("work", run)).to_have_count(work)
        expect(player.box("waiting", run)).to_have_count(20 - done - work)
    # The number in the ring is the client's.
    expect(player.box("work")).to_have_text(["2"])
    label = player.figure.locator(".race-stage").first
    player.slider.dispatch_event("change")
    expect(label).to_have_attribute(
        "aria-label",
        "Where each request is. Waiting: 3 to 20. At work: 2. Answered: 1.",
    )
    # The counter stands at what was recorded until then.
    expect(player.count("calls")).to_have_text("0")
    player.seek(END // 2 + 5000)
    expect(player.count("calls")).to_have_text("111")


def line_of(file: str, function: str, text: str) -> str:
    piece = pieces.find(pieces.read(file), function)
    for number, line in enumerate(piece.text.splitlines(), piece.first):
        if text in line:
            return f"{number} {line.strip()}"
    raise AssertionError(text)


def test_the_line_that_runs_is_lit(player: Player) -> None:
    one = line_of("02", "answer_request", SLEEP_02)
    many = line_of("03", "answer_request", SLEEP_02)
    player.seek(50_000)
    assert player.lit() == {one: "", many: f"{TIMES}20"}
    words = player.figure.locator(".race-line").nth(1)
    expect(words).to_contain_text(f"{TIMES}20 {SLEEP_02}")
    player.seek(150_000)  # 03 is done
    assert player.lit() == {one: ""}
    # A step to the moment at which a thread reads.
    reads = line_of("02", "receive", "connection.recv(")
    player.seek(RUNS["02"].clients[3].read - 100)
    assert player.lit() == {reads: ""}
    player.seek(END)
    assert player.lit() == {}
    player.seek(0)
    assert not any("sleep" in line for line in player.lit())


def test_a_lit_line_is_copied_as_it_is(player: Player) -> None:
    player.seek(50_000)
    copied = player.page.evaluate(
        "(() => { const code = document.querySelector('code[data-file]');"
        " code.setAttribute('data-md-copying', '');"
        " const text = code.innerText;"
        " code.removeAttribute('data-md-copying'); return text; })()"
    )
    text = pieces.read("02")
    wanted = "\n\n\n".join(
        pieces.find(text, name).text for name in ("answer_request", "receive")
    )
    assert copied.rstrip() == wanted
    shown = player.page.locator("code[data-file]").first
    height = shown.evaluate("code => code.scrollHeight")
    player.seek(END)  # lit or not, the page does not jump
    assert shown.evaluate("code => code.scrollHeight") == height


def test_two_views(player: Player) -> None:
    requests, threads = player.figure.locator(".race-view").all()
    tabs = player.figure.locator(".race-tab")
    expect(requests).to_be_visible()
    expect(threads).to_be_hidden()
    tabs.nth(1).click()
    expect(threads).to_be_visible()
    expect(requests).to_be_hidden()
    expect(tabs.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(tabs.nth(0)).to_have_attribute("aria-pressed", "false")


def test_the_playhead_hides_the_future(player: Player) -> None:
    player.seek(END // 2)
    part = 50 / race.MARGIN
    for chart in player.figure.locator(".race-view svg").all():
        x = chart.locator(".race-head").get_attribute("x1") or ""
        assert float(x.rstrip("%")) == pytest.approx(part, abs=0.01)
        curtain = chart.locator(".race-curtain")
        wide = curtain.get_attribute("width") or ""
        assert float(wide.rstrip("%")) == pytest.approx(100 - part, abs=0.01)
        assert curtain.get_attribute("x") == x


def test_races_of_a_page_do_not_disturb_each_other(player: Player) -> None:
    other = player.page.locator("figure.seven-race").nth(1)
    player.seek(50_000)
    expect(other.locator(".race-time")).to_have_text("0 ms")
    expect(other.locator(".race-guess")).to_be_visible()
    for name, where in ((".race-head", "x1"), (".race-curtain", "x")):
        for found in other.locator(name).all():
            assert found.get_attribute(where) == "0%"
    other.locator(".race-step").nth(1).click()
    expect(other.locator(".race-time")).not_to_have_text("0 ms")
    expect(player.time).to_have_text("50 ms")
    assert len(player.lit()) == 2


@window(script=False)
def test_without_a_script(player: Player) -> None:
    figure = player.figure
    expect(figure.locator("button, input, select")).to_have_count(0)
    for run in (0, 1):
        expect(player.box("answered", run)).to_have_count(20)
        expect(player.count("answered", run)).to_have_text("20 of 20")
        expect(player.count("calls", run)).to_have_text("1,234")
    for view in figure.locator(".race-view").all():
        expect(view).to_be_visible()
        for curtain in view.locator(".race-curtain").all():
            assert curtain.get_attribute("width") == "0"
        for head in view.locator(".race-head").all():
            expect(head).to_be_hidden()
    figure.locator("summary").click()
    expect(figure.locator("table").first).to_be_visible()


def test_on_paper(player: Player) -> None:
    player.seek(50_000)
    player.page.emulate_media(media="print")
    for run in (0, 1):
        expect(player.box("answered", run)).to_have_count(20)
        expect(player.count("answered", run)).to_have_text("20 of 20")
    for view in player.figure.locator(".race-view").all():
        expect(view).to_be_visible()
    for name in (".race-curtain", ".race-head", ".race-controls"):
        for found in player.figure.locator(name).all():
            expect(found).to_be_hidden()
    expect(player.figure.locator("table").first).to_be_visible()
    player.page.emulate_media(media="screen")
    expect(player.box("work")).to_have_text(["1"])
    expect(player.box("work", 1)).to_have_count(20)


def test_on_paper_before_play(player: Player) -> None:
    player.page.emulate_media(media="print")
    expect(player.box("answered")).to_have_count(20)
    expect(player.figure.locator("details")).to_be_visible()
    expect(player.figure.locator(".race-guess")).to_be_hidden()
    player.page.emulate_media(media="screen")
    expect(player.box("waiting")).to_have_count(20)
    expect(player.figure.locator("details")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessible_while_it_plays(
    browser: Browser, small: Path, scheme: Scheme
) -> None:
    page, trouble = open_page(browser, scheme)
    for view, name in enumerate(("index.html", "steps/families.html")):
        visit(page, small / name)
        for figure in page.locator("figure.seven-race").all():
            figure.locator(".race-tab").nth(view).click()
            figure.locator("input").evaluate(
                "slider => { slider.value = slider.max / 3;"
                " slider.dispatchEvent(new Event('input')); }"
            )
        page.evaluate(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        # The rest of the page is looked at with the whole site.
        done = Axe().run(
            page, context=[["figure.seven-race"], ["pre"]],
            options={"preload": False},
        )
        for found in done.response["violations"]:
            for node in found["nodes"]:
                trouble.append(f"{found['id']}: {node['html'][:200]}")
    page.context.close()
    assert not trouble, "\n".join(trouble)


@pytest.mark.parametrize("width", [375, 1280])
def test_everything_has_room(
    browser: Browser, small: Path, width: int
) -> None:
    """No dot, ring or shelf leaves its box, whatever the time."""
    page, trouble = open_page(browser, "light", width)
    visit(page, small / "steps/families.html")
    for part in (0, 0.05, 0.4, 1):
        page.evaluate(
            "part => document.querySelectorAll('.race-controls input')"
            ".forEach(slider => { slider.value = slider.max * part;"
            " slider.dispatchEvent(new Event('input')); })",
            part,
        )
        outside = page.evaluate("""
            [...document.querySelectorAll('.race-box')].flatMap(box => {
              const outer = box.getBoundingClientRect();
              const inside = box.querySelectorAll(
                '.race-dot, .race-ring, .race-shelf, .race-slot');
              return [...inside].filter(one => {
                const r = one.getBoundingClientRect();
                return r.left < outer.left || r.right > outer.right
                  || r.top < outer.top || r.bottom > outer.bottom;
              }).map(one => one.outerHTML);
            })""")
        assert outside == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
    page.context.close()
    assert not trouble


@window(page="steps/families.html")
def test_data_is_linked_from_any_page(player: Player) -> None:
    links = player.figure.locator("figcaption a")
    found = [link.get_attribute("href") for link in links.all()]
    assert found == [
        "../data/recordings/01.json", "../data/recordings/01.trace.json",
        "../data/recordings/04.json", race.PERFETTO,
    ]
