"""What the sketch of a step cannot do, on its page."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data import sketches_seen
from tools.data.results import Results
from tools.rules import RULES
from tools.site.figures import DASH
from tools.site.inline_number import inline

FENCE = "```breaks\nsketch: {}\n```"


@pytest.mark.parametrize("number", range(1, 8))
def test_each_broken_rule_once(render: Render, number: int) -> None:
    html = render(FENCE.format(f"{number:02}"))
    named = re.findall(r'"\.\./reference/contract\.html#rule-([^"]+)"', html)
    broken = sketches_seen.broken(
        sketches_seen.load(), f"{number:02}-sketch"
    )
    assert sorted(named) == sorted(broken)
    assert f"it breaks {len(broken)} and keeps" in html
    assert RULES["silent"].text in html


def test_the_usual_faults_come_first(render: Render) -> None:
    shown, _, _ = render(FENCE.format("03")).partition("<details")
    assert re.findall("<strong>(.+?)</strong>", shown) == [
        "Half a request", "A client that breaks off", "Two requests at once",
        "Ten seconds of silence", "Two lengths that disagree",
    ]
    # The library waits for the whole head, and pipelines are not for it.
    first, _, _ = render(FENCE.format("01")).partition("<details")
    assert "Half a request" not in first
    assert "A client that breaks off" in first


def test_a_run_that_lacks_a_rule_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render
) -> None:
    run = sketches_seen.load()
    del run.rules["silent"]["03-sketch"]
    run.save(tmp_path / "sketches.json")
    monkeypatch.setenv("SEVEN_SKETCHES", str(tmp_path / "sketches.json"))
    with pytest.raises(Exception, match=r"silent.*record again"):
        render(FENCE.format("03"))


def test_a_sketch_that_was_not_measured_is_a_dash(
    reference: Results, change: Callable[[Results], None]
) -> None:
    name = "02-sketch.classic.requests_per_second"
    assert inline(name) == DASH
    assert inline(f"{name} / {name}") == DASH
    (point,) = reference.suite("classic", "02")
    point.server = "02-sketch"
    change(reference)
    assert "<data" in inline(name)
