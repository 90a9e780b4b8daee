"""The fences, each on a page of fixed data, against the HTML in golden/.

``pytest tests/site --renew-golden`` writes these files anew: read what
changed with git diff before you commit it.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.site import sample
from tests.site.conftest import Render
from tools.data import exchange
from tools.data.results import Results
from tools.learn import exercises
from tools.servers import ROOT, by_name
from tools.site import compare as compare_page
from tools.site import drawing, figures

GOLDEN = Path(__file__).with_name("golden")
# How many times as fast what stands beside the reference is.
BESIDE = {"": (), "-own": (0.5,), "-class": (0.5, 4.0, 2.0)}
FILES = [
    *(f"measured{which}" for which in BESIDE),
    "source", "quiz", "wire", "drawing", "exercise", "contract", "compare",
    "whatif",
]  # fmt: skip
COMPARED = (
    "01", "03", "04", "05-threads", "06-executor", "06-coroutines",
    "07-emulated",
)  # fmt: skip
EXERCISE = exercises.Exercise(
    id="02.1", folder=ROOT / "02_sockets" / "exercises" / "1_sample",
    title="A sample", minutes=20, read="steps/02_sockets.md#blocking",
    file="sample.py", beside=(), writes=(), like="",
    task="Write `it`:\n\n``` python\nx = 1\n```\n\n### More\n\nAnd <test> it.",
    hints=("Look at *this*.", "| a | b |\n|---|---|\n| 1 | 2 |"),
)  # fmt: skip


@pytest.fixture
def fixed(
    reference: Results, change: Callable[[Results], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Data that no measurement and no edit of a server changes."""
    monkeypatch.setattr(exchange, "REFERENCE", GOLDEN)
    monkeypatch.setattr(drawing, "FOLDER", GOLDEN)
    monkeypatch.setattr(compare_page, "SERVERS", [*map(by_name, COMPARED)])
    sample.use_contract(GOLDEN, monkeypatch)
    monkeypatch.setattr(exercises, "by_id", lambda _: EXERCISE)
    last = reference.find("03", "sweep", 64)
    assert last
    last.end, last.reason = True, "too <slow>"
    reference.points = [
        p for p in reference.points
        if (p.server, p.suite) != ("03", "sweep") or p.clients <= 64
    ]
    change(reference)


def beside(folder: Path, factors: tuple[float, ...]) -> str:
    """Runs for SEVEN_BESIDE; the last of several lacks one suite."""
    made = []
    for number, factor in enumerate(factors):
        run = sample.results(factor, tuple(sample.LOADS))
        run.machine.cpu = f"CPU {number} & more"
        if number == 2:
            run.points = [p for p in run.points if p.suite != "raw-keep"]
        run.save(folder / str(number))
        made.append(str(folder / str(number)))
    return os.pathsep.join(made)


@pytest.mark.parametrize("name", FILES)
def test_golden(
    fixed: None, render: Render, name: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config,
) -> None:
    stem, dash, which = name.partition("-")
    monkeypatch.setenv("SEVEN_BESIDE", beside(tmp_path, BESIDE[dash + which]))
    html = render((GOLDEN / f"{stem}.md").read_text("utf-8"))
    compare(name, html, pytestconfig)


def compare(name: str, html: str, config: pytest.Config) -> None:
    """That HTML is what golden/ has by this name; or renew that."""
    # A row, an entry, a part of a chart each: so a change can be read.
    html = re.sub(
        r"(?<=>)(?=<(?:figure|svg|g|rect|table|tr|d[ldt]|p|div|label|details"
        r"|span data-line)[ >])", "\n", html,
    ) + "\n"  # fmt: skip
    file = GOLDEN / f"{name}.html"
    if config.getoption("--renew-golden"):
        file.write_text(html, "utf-8")
    assert html == file.read_text("utf-8"), (
        "if that is meant: pytest tests/site --renew-golden"
    )


@pytest.mark.parametrize(("write", "value", "written"), [
    (figures.rate, 9.934, "9.93"),
    (figures.rate, 97.31, "97.3"),
    (figures.rate, 2712.4, "2,712"),
    (figures.percent, 0.99999, "99.9 %"),  # never up to the whole
    (figures.percent, 1.0, "100.0 %"),
    (figures.milliseconds, 0.216, "0.22 ms"),
    (figures.milliseconds, 1016.4, "1,016 ms"),
    (figures.latency, 0.4, "under 1 ms"),
    (figures.count, 2.5, "2.5"),
    (figures.times, 9.87, "9.9"),
])
def test_a_number_is_as_long_as_it_is_exact(
    write: Callable[[float], str], value: float, written: str
) -> None:
    assert write(value) == written
