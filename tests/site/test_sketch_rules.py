"""What the sketch of a step cannot do, on its page."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from pymdownx.superfences import (  # type: ignore[import-untyped]
    SuperFencesException,
)

from tests.site import sample
from tools.data import sketches_seen
from tools.rules import RULES
from tools.site.figures import DASH
from tools.site.inline_number import inline
from tools.site.sketch_rules import breaks


def made(sketch: str) -> str:
    return breaks(f"sketch: {sketch}", "breaks", "", {}, SimpleNamespace())


@pytest.mark.parametrize("number", range(1, 8))
def test_each_broken_rule_once(number: int) -> None:
    html = made(f"{number:02}")
    named = re.findall(r'"\.\./reference/contract\.html#rule-([^"]+)"', html)
    broken = sketches_seen.broken(
        sketches_seen.load(), f"{number:02}-sketch"
    )
    assert sorted(named) == sorted(broken)
    assert f"it breaks {len(broken)} and keeps" in html
    assert RULES["silent"].text in html


def test_the_usual_faults_come_first() -> None:
    html = made("03")
    shown = html.partition("<details")[0]
    assert re.findall("<strong>(.+?)</strong>", shown) == [
        "Half a request", "A client that breaks off", "Two requests at once",
        "Ten seconds of silence", "Two lengths that disagree",
    ]
    # The library waits for the whole head, and pipelines are not for it.
    first = made("01").partition("<details")[0]
    assert "Half a request" not in first
    assert "A client that breaks off" in first


def test_what_cannot_be_shown_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SuperFencesException, match="no server is called"):
        made("08")
    run = sketches_seen.load()
    del run.rules["silent"]["03-sketch"]
    run.save(tmp_path / "sketches.json")
    monkeypatch.setenv("SEVEN_SKETCHES", str(tmp_path / "sketches.json"))
    with pytest.raises(SuperFencesException, match=r"silent.*record again"):
        made("03")


def test_a_sketch_that_was_not_measured_is_a_dash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sample.results()
    monkeypatch.setenv("SEVEN_REFERENCE", str(sample.save(tmp_path, run)))
    monkeypatch.setenv("SEVEN_OWN", "none")
    name = "02-sketch.classic.requests_per_second"
    assert inline(name) == DASH
    assert inline(f"{name} / {name}") == DASH
    (point,) = run.suite("classic", "02")
    point.server = "02-sketch"
    measured = sample.save(tmp_path / "more", run)
    monkeypatch.setenv("SEVEN_REFERENCE", str(measured))
    assert "<data" in inline(name)
