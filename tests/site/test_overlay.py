"""A reader's results.json on the page Compare: drawn as the build draws it.

The page takes a file in the browser and draws it beside the reference. What
comes out is compared, node for node, with the page that the build makes of
the same file. Only this page is built, for speed.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]
    Axe,
)
from playwright.sync_api import Browser, FileChooser, Page, expect

from tests.site import sample
from tests.site.browsing import Scheme, needs_browser, open_page
from tools.data.results import Point, Results, Run
from tools.servers import ROOT, SERVERS

pytestmark = needs_browser

SUITES = tuple(sample.LOADS)
SAID = ".seven-said"
# The article as a tree of names, attributes and texts, without the controls.
TREE = """() => {
  const tree = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE) return null;
    if (node.matches(".seven-compare, .seven-bar-note")) return null;
    const names = node.getAttributeNames().sort();
    return [
      node.namespaceURI, node.localName,
      names.map((name) => [name, node.getAttribute(name)]),
      [...node.childNodes].map(tree),
    ];
  };
  return JSON.stringify(tree(document.querySelector("article")));
}"""


def build(folder: Path, own: Path | str = "none") -> Path:
    """The page Compare alone, as the build makes it."""
    (folder / "docs").mkdir(parents=True)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = re.sub(r"(?s)\nnav:.*?\ntheme:", "\ntheme:", config)
    config = config.replace("\nstrict: true", "\nstrict: false")
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "assets", folder / "docs" / "assets")
    shutil.copy(ROOT / "docs" / "compare.md", folder / "docs")
    environment = {**os.environ, "SEVEN_OWN": str(own)}
    environment.pop("SEVEN_REFERENCE", None)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f",
         folder / "mkdocs.yml", "-d", folder / "site"],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site" / "compare.html"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page without results of the reader's own."""
    return build(tmp_path_factory.mktemp("plain") / "x")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file of results, and the page built with it."""
    folder = tmp_path_factory.mktemp("mine")
    file = save(folder / "run", sample.results(0.5, SUITES))
    return file, build(folder / "x", file.parent)


@pytest.fixture
def window(browser: Browser, plain: Path) -> Any:
    """The plain page in a browser. Nothing may go wrong in it."""
    page, trouble = open_page(browser, "light")
    settle(page, plain)
    yield page
    page.context.close()
    assert not trouble, trouble


def settle(page: Page, file: Path, hash_: str = "") -> None:
    """Open a page and await the theme's changes to its tables."""
    page.goto(file.as_uri() + hash_)
    page.wait_for_function(
        "document.querySelectorAll('.seven-table table').length > 0 && "
        "![...document.querySelectorAll('.seven-table > table')].length"
    )
    page.wait_for_timeout(250)


def save(folder: Path, made: Results) -> Path:
    made.save(folder)
    return folder / "results.json"


def drop(page: Page, file: Path | dict[str, Any]) -> None:
    """Choose a file and await what the page says."""
    page.evaluate("document.querySelector('.seven-said').textContent = ''")
    page.locator(".seven-drop input").set_input_files(file)  # type: ignore[arg-type]
    expect(page.locator(SAID)).not_to_be_empty(timeout=20_000)


def text(content: str | bytes, name: str = "mine.json") -> dict[str, Any]:
    """A file that is not on disk."""
    if isinstance(content, str):
        content = content.encode()
    return {"name": name, "mimeType": "application/json", "buffer": content}


def tree(page: Page) -> Any:
    return json.loads(page.evaluate(TREE))


def differences(one: Any, two: Any, path: str = "") -> list[str]:
    """Where two trees differ, for a message that can be read."""
    if not (isinstance(one, list) and isinstance(two, list)):
        return [] if one == two else [f"{path}: {one!r} is not {two!r}"]
    if one[:3] != two[:3] or len(one[3]) != len(two[3]):
        here, there = (
            [*each[:3], [c[1] if isinstance(c, list) else c for c in each[3]]]
            for each in (one, two)
        )
        return [f"{path}: {str(here)[:700]}\n  is not {str(there)[:700]}"]
    found = []
    for number, (a, b) in enumerate(zip(one[3], two[3], strict=True)):
        found += differences(a, b, f"{path}/{one[1]}[{number}]")
    return found


def scramble(made: Results, seed: int) -> Results:
    """Results with all that a reader's can have, by chance."""
    dice = random.Random(seed)
    points = []
    for point in made.points:
        if dice.random() < 0.15:
            continue
        point.runs = [
            _run(dice, point) for _ in range(dice.choice([0, 1, 1, 2, 2, 3]))
        ]
        if not point.runs:
            point.status = dice.choice(["failed", "skipped"])
            point.reason = dice.choice(["", "no <b>luck</b> & 'no' \"luck\""])
        elif dice.random() < 0.1:
            point.end, point.reason = True, "it took too long"
        points.append(point)
    dice.shuffle(points)
    made.points = points
    made.machine.cpu = "A & B <CPU> \"'"
    made.command = "./bench.sh --only '03' <&> \"x\""
    made.mode = dice.choice(["default", "classic", "full"])
    made.complete = False
    return made


def _run(dice: random.Random, point: Point) -> Run:
    """One run with figures of every size, ties of rounding among them."""

    def some(most: float) -> float:
        size = most * 10 ** dice.uniform(-5, 0)
        return dice.choice([size, round(size) + 0.5, int(size * 8) / 8, 0])

    made = sample.run(point.server, point.clients, 1.0, point.suite)
    made.requests_per_second = some(50_000)
    made.latency_ms = {name: some(20_000) for name in sample.LATENCY}
    made.requests = dice.choice([0, 1, 7, 64, 1000])
    made.seconds = dice.choice([0.0, 0.3, 12.5])
    made.cpu_user = dice.choice([None, some(9.0)])
    made.cpu_system = dice.choice([None, some(3.0)])
    made.peak_memory = dice.choice([None, int(some(9e8))])
    made.threads = dice.choice([None, 1, 1001, 4098])
    made.failed, made.non_2xx = dice.choice([0, 3, 1500]), dice.choice([0, 1])
    made.error = dice.choice([None, None, None, None, "it <died>"])
    if dice.random() < 0.2:
        made.system_calls = {}
    return made


# --- Drawn as the build draws it ----------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_dropped_file_is_drawn_as_the_build_draws_it(
    window: Page, browser: Browser, tmp_path: Path, seed: int
) -> None:
    """Node for node: bars, sweeps, tables, captions and sentences."""
    made = sample.results(1.0, SUITES)
    file = save(tmp_path / "run", scramble(made, seed) if seed else made)
    before = tree(window)
    drop(window, file)
    assert "beside the reference" in window.inner_text(SAID)
    drawn = tree(window)
    page, trouble = open_page(browser, "light")
    settle(page, build(tmp_path / "x", file.parent))
    built = tree(page)
    page.context.close()
    found = differences(drawn, built)
    assert not found, "\n".join(found[:5])
    assert drawn == built and drawn != before
    assert not trouble


def test_a_file_takes_the_place_of_the_builds_own(
    browser: Browser, plain: Path, mine: tuple[Path, Path], tmp_path: Path
) -> None:
    """Dropped on a page with own results, drawn as on a page without."""
    other = save(tmp_path, scramble(sample.results(3.0, SUITES), 9))
    trees = []
    for path in (plain, mine[1]):
        page, trouble = open_page(browser, "light")
        settle(page, path)
        built = tree(page)
        drop(page, other)
        trees.append(tree(page))
        page.get_by_role("button", name="Remove my results").click()
        expect(page.locator(SAID)).to_have_text("Your file is removed.")
        assert not differences(tree(page), built)  # as it was built
        page.context.close()
        assert not trouble
    assert not differences(*trees)


def test_the_second_file_replaces_the_first(
    window: Page, mine: tuple[Path, Path], tmp_path: Path
) -> None:
    drop(window, mine[0])
    first = tree(window)
    drop(window, save(tmp_path, scramble(sample.results(2.0, SUITES), 5)))
    assert differences(tree(window), first)
    drop(window, mine[0])
    assert not differences(tree(window), first)


def test_it_needs_no_server_and_no_mouse(
    window: Page, mine: tuple[Path, Path]
) -> None:
    """Nothing leaves; the keyboard reaches the file and the button."""
    button = window.locator(".seven-remove")
    expect(button).not_to_be_visible()  # nothing is there to remove
    asked: list[str] = []
    window.on("request", lambda request: asked.append(request.url))
    window.locator(".seven-choices input").last.focus()
    window.keyboard.press("Tab")
    expect(window.locator("input[type=file]")).to_be_focused()
    chosen: list[FileChooser] = []
    window.on("filechooser", lambda chooser: chosen.append(chooser))
    for _ in range(30):  # a busy browser may pass over a key
        window.keyboard.press("Enter")
        window.wait_for_timeout(1000)
        if chosen:
            break
    chosen[0].set_files(mine[0])
    expect(window.locator(SAID)).to_contain_text("Your run of 2000-01-02")
    assert window.locator(SAID).get_attribute("role") == "status"
    expect(button).to_be_visible()
    window.keyboard.press("Tab")
    window.keyboard.press("Enter")
    expect(window.locator(SAID)).to_have_text("Your file is removed.")
    assert window.evaluate("document.activeElement.type") == "file"
    expect(button).not_to_be_visible()
    assert not window.locator(".seven-own, .seven-yours").count()
    assert not asked
    script = (ROOT / "docs/assets/compare.js").read_text(encoding="utf-8")
    for way in ("fetch(", "XMLHttpRequest", "sendBeacon", "WebSocket",
                "EventSource", "import(", "localStorage"):  # fmt: skip
        assert way not in script


def let_go(page: Page, files: str, given: str = "") -> None:
    """Drag files over the end of the page and let them go there."""
    taken = page.evaluate(
        """(given) => {
          const transfer = new DataTransfer();
          for (const file of FILES) transfer.items.add(file);
          const last = document.querySelector("article").lastElementChild;
          const send = (kind) => {
            const options = {bubbles: true, cancelable: true};
            const event = new DragEvent(
              kind, {...options, dataTransfer: transfer});
            last.dispatchEvent(event);
            return event.defaultPrevented;
          };
          return [send("dragover"), send("drop")];
        }""".replace("FILES", files),
        given,
    )
    assert taken == [True, True]  # or the browser would leave the page


def test_one_file_of_a_possible_size(window: Page) -> None:
    let_go(window, "[new File([], 'a'), new File([], 'b')]")
    expect(window.locator(SAID)).to_have_text(
        "One file at a time, please. Nothing was changed."
    )
    let_go(window, "[new File([new Uint8Array(20_000_001)], 'big.json')]")
    expect(window.locator(SAID)).to_have_text(
        "big.json is too large. Nothing was changed."
    )


def test_a_file_dropped_anywhere_is_taken(
    window: Page, mine: tuple[Path, Path]
) -> None:
    content = mine[0].read_text(encoding="utf-8")
    let_go(window, "[new File([given], 'results.json')]", content)
    expect(window.locator(SAID)).to_contain_text("beside the reference")
    assert window.locator("rect.seven-own").count()
    below = window.locator(".seven-bar-note")
    expect(below).to_contain_text("beside the reference")
    expect(below).to_be_in_viewport()


# --- Refused in one sentence ---------------------------------------------


def changed(**keys: Any) -> dict[str, Any]:
    """The text of good results, some keys of it replaced."""
    told = asdict(sample.results(1.0, ("classic",)))
    return text(json.dumps({**told, **keys}))


def point(**keys: Any) -> dict[str, Any]:
    """Results of one point, some keys of it replaced."""
    told = asdict(sample.results(1.0, ("classic",)).points[0])
    return changed(points=[{**told, **keys}])


def broken_run(**keys: Any) -> dict[str, Any]:
    told = asdict(sample.run("01", 10, 10.0))
    return point(runs=[{**told, **keys}])


BAD: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "no JSON": (lambda: text("{"), "is not JSON"),
    "binary": (lambda: text(b"\x89PNG\r\n\x1a\n\0\0"), "is not JSON"),
    "empty": (lambda: text(""), "is not JSON"),
    "a list": (lambda: text("[]"), "no results of ./bench.sh"),
    "null": (lambda: text("null"), "no results of ./bench.sh"),
    "other JSON": (lambda: text('{"a": 1}'), "no results of ./bench.sh"),
    "newer": (lambda: changed(schema=2), "has schema 2 and this page reads 1"),
    "recording": (lambda: changed(lanes=[]), "is a recording"),
    "smoke": (lambda: changed(mode="smoke"), "is a smoke run"),
    "experiment": (lambda: changed(mode="scale"), "experiment scale"),
    "peers": (lambda: changed(mode="peers"), "experiment peers"),
    "no points": (lambda: changed(points=[]), "nothing in common"),
    "points missing": (lambda: changed(points=None), "is damaged"),
    "no machine": (lambda: changed(machine=None), "is damaged"),
    "cores": (
        lambda: changed(machine={"cpu": "x", "cores": "<b>2"}), "is damaged"
    ),
    "other servers": (lambda: point(server="99"), "nothing in common"),
    "other suite": (lambda: point(suite="hold"), "nothing in common"),
    "only failed": (lambda: point(runs=[]), "nothing in common"),
    "clients": (lambda: point(clients="ten"), "is damaged"),
    "runs": (lambda: point(runs={}), "is damaged"),
    "a text": (
        lambda: broken_run(requests_per_second="fast"), "is damaged"
    ),
    "negative": (lambda: broken_run(cpu_user=-1), "is damaged"),
    "huge": (lambda: broken_run(threads=10**300), "is damaged"),
    "latency": (lambda: broken_run(latency_ms={"p50": "x"}), "is damaged"),
}


@pytest.mark.parametrize("kept", [False, True], ids=["none yet", "one there"])
def test_what_cannot_be_used_is_refused_in_a_sentence(
    window: Page, mine: tuple[Path, Path], kept: bool
) -> None:
    """Each says why, and what is drawn stays as it is."""
    if kept:
        drop(window, mine[0])
    figures = "[...document.querySelectorAll('figure, .seven-num')]"
    html = f"{figures}.map(f => f.outerHTML).join()"
    window.evaluate(f"window.before = {html}")
    for name, (file, why) in BAD.items():
        drop(window, file())
        said = window.inner_text(SAID)
        assert why in said, (name, said)
        assert said.endswith(" Nothing was changed."), name
        assert said.count(". ") == 1, (name, said)
        assert "seven-wrong" in (
            window.locator(SAID).get_attribute("class") or ""
        )
        assert window.evaluate(f"window.before === {html}"), name
    drop(window, mine[0])
    assert "Nothing was changed" not in window.inner_text(SAID)


def test_what_is_drawn_is_text(window: Page, tmp_path: Path) -> None:
    """Nothing in a file becomes a part of the page that does something."""
    evil = "</code></svg><img src=x onerror='document.title=`evil`'>\"'&"
    made = sample.results(1.0, SUITES)
    made.command = made.machine.cpu = made.started = evil
    for each in made.points[::3]:
        each.runs, each.status, each.reason = [], "failed", evil
    window.evaluate("document.title = 'good'")
    drop(window, save(tmp_path, made))
    assert "beside the reference" in window.inner_text(SAID)
    window.wait_for_timeout(200)
    assert window.title() == "good"
    assert not window.locator("article img, .seven-bar-note img").count()
    assert evil in window.locator(".seven-own-run code").first.inner_text()


# --- Which servers ---------------------------------------------------------


def servers_shown(page: Page, selector: str) -> set[str]:
    found: list[str] = page.eval_on_selector_all(
        f"{selector} [data-server]",
        "all => all.filter(e => !e.hidden).map(e => e.dataset.server)",
    )
    return set(found)


def boxes(page: Page) -> set[str]:
    found: list[str] = page.eval_on_selector_all(
        ".seven-choices input:checked", "all => all.map(e => e.value)"
    )
    return set(found)


PRESETS = {
    "the seven steps": {"01", "02", "03", "04", "05", "06", "07"},
    "the variants": {
        "03-pool", "05-heap", "06-executor", "06-protocol", "07-emulated",
    },
    "wait one at a time": {"01", "02", "04"},
    "threads": {"03", "03-pool", "05", "06-executor"},
    "event loops": {"05-heap", "06", "06-protocol"},
    "many cores": {"07", "07-emulated"},
}


def test_presets(window: Page) -> None:
    """Each hides rows of bars and tables and lines of sweeps, and is told."""
    every = {server.name for server in SERVERS}
    before = tree(window)
    for name, wanted in PRESETS.items():
        button = window.get_by_role("button", name=name, exact=True)
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert boxes(window) == wanted
        expect(window.locator(".seven-shown")).to_have_text(
            f"{len(wanted)} of 12 servers are shown."
        )
        assert servers_shown(window, "#bars-many-p99-100 svg") == wanted
        assert servers_shown(window, "#bars-many-p99-100 table") == wanted
        assert servers_shown(window, "figure[data-table]") == wanted
        assert servers_shown(window, "figure[data-chart]") == wanted
        assert servers_shown(window, "#classic") <= wanted
        assert window.evaluate("location.hash") == "#show=" + ",".join(
            server.name for server in SERVERS if server.name in wanted
        )
    window.get_by_role("button", name="all", exact=True).click()
    assert boxes(window) == every
    assert window.evaluate("location.hash") == ""
    assert not differences(tree(window), before)  # as it was built


def test_boxes(window: Page) -> None:
    """One by one, down to none: then each chart says that it is empty."""
    heights = "document.querySelector('#bars-many-p99-100 > svg').height"
    full = window.evaluate(f"{heights}.baseVal.value")
    grid = window.locator("#bars-many-p99-100 .seven-tick").all_text_contents()
    for server in SERVERS:
        window.get_by_label(server.title, exact=False).first.uncheck()
    expect(window.locator(".seven-shown")).to_have_text(
        "0 of 12 servers are shown."
    )
    charts = window.locator("figure[data-chart], figure[data-table]").count()
    empty = window.get_by_text("None of the chosen servers is here.")
    assert empty.count() >= charts
    window.locator(".seven-choices input[value='06']").press("Space")
    expect(window.locator(".seven-shown")).to_have_text(
        "1 of 12 servers is shown."
    )
    assert window.evaluate(f"{heights}.baseVal.value") < full / 4
    ticks = window.locator("#bars-many-p99-100 .seven-tick")
    assert ticks.all_text_contents() == grid  # the scale stays
    # A chart in which it is not, and one in which it is.
    sweeps = window.locator("figure[data-chart*='sweep']")
    assert sweeps.count() == 2
    assert sweeps.first.locator("svg g[data-server]").count() == 2
    below = window.locator(".seven-bar-note")
    expect(below).to_contain_text("1 of 12 servers is shown. Change")


def test_the_choice_stands_in_the_address(
    browser: Browser, plain: Path
) -> None:
    page, trouble = open_page(browser, "light")
    settle(page, plain, "#show=03,07,nobody")
    assert boxes(page) == {"03", "07"}
    assert servers_shown(page, "figure[data-chart]") == {"03", "07"}
    # Another link of the page keeps the choice.
    page.evaluate("location.hash = '#latency'")
    assert boxes(page) == {"03", "07"}
    page.evaluate("location.hash = '#show=01'")
    page.wait_for_function(
        "document.querySelectorAll('.seven-choices :checked').length === 1"
    )
    assert servers_shown(page, "figure[data-chart]") == {"01"}
    page.context.close()
    assert not trouble


def test_filter_and_file_together(
    window: Page, mine: tuple[Path, Path], browser: Browser
) -> None:
    """In either order, on a page with the file built in too."""
    steps = window.get_by_role("button", name="event loops", exact=True)
    steps.click()
    drop(window, mine[0])
    filtered = tree(window)
    assert servers_shown(window, "figure[data-table]") == PRESETS[
        "event loops"
    ]
    window.get_by_role("button", name="all", exact=True).click()
    everything = tree(window)
    steps.click()
    assert not differences(tree(window), filtered)
    page, trouble = open_page(browser, "light")
    settle(page, mine[1])
    assert not differences(tree(page), everything)
    page.get_by_role("button", name="event loops", exact=True).click()
    assert not differences(tree(page), filtered)
    page.context.close()
    assert not trouble


def test_open_tables_stay_open(
    window: Page, mine: tuple[Path, Path]
) -> None:
    window.locator("#bars-many-p99-100 summary").click()
    drop(window, mine[0])
    window.get_by_role("button", name="threads", exact=True).click()
    assert window.locator("#bars-many-p99-100 details").evaluate("d => d.open")


def test_without_a_script_all_is_there(
    browser: Browser, plain: Path
) -> None:
    page, trouble = open_page(browser, "light", script=False)
    page.goto(plain.as_uri())
    assert not page.locator(".seven-compare-live").is_visible()
    assert page.locator(".seven-compare-plain").is_visible()
    every = {server.name for server in SERVERS}
    assert servers_shown(page, "#bars-many-p99-100 svg") == every
    page.context.close()
    assert not trouble


@pytest.mark.parametrize(
    ("width", "scheme"), [(375, "dark"), (1280, "light")]
)
def test_fit_and_accessible_with_everything_on(
    browser: Browser, plain: Path, mine: tuple[Path, Path], width: int,
    scheme: Scheme,
) -> None:
    """No scrolling to the side; axe-core finds nothing, errors included."""
    page, trouble = open_page(browser, scheme, width=width)
    settle(page, plain)
    drop(page, mine[0])
    page.get_by_role("button", name="the seven steps", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drop(page, text("{"))
    done = Axe().run(page, options={"preload": False})
    found = [
        f"{each['id']}: {node['html'][:200]}"
        for each in done.response["violations"] for node in each["nodes"]
    ]
    assert not found, "\n".join(found)
    page.context.close()
    assert not trouble
