"""Results beside the reference: the reader's own, one other's, a class's."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.site import sample
from tests.site.conftest import Render
from tools.data.results import Results

Lay = Callable[..., None]
BARS = "```bars\nsuite: classic\ntitle: T\nservers: 01, 02\n```"
SWEEP = "```sweep\ntitle: T\nservers: 06\n```"
TABLE = "```abtable\nsuite: classic\nservers: 01, 02\n```"
SUITES = tuple(sample.LOADS)


@pytest.fixture
def lay(
    reference: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Lay:
    """Lay runs beside the reference: the first a file, others folders."""

    def laid(*runs: Results) -> None:
        paths = [tmp_path / str(number) for number in range(len(runs))]
        for path, run in zip(paths, runs, strict=True):
            run.save(path)
        first = paths[0] / "results.json"
        paths[0] = first.rename(tmp_path / "anna.json")
        named = os.pathsep.join(map(str, paths))
        monkeypatch.setenv("SEVEN_BESIDE", named)

    return laid


def test_one_is_drawn_as_the_readers_own(
    own: Results, lay: Lay, render: Render
) -> None:
    """And takes the place of what the reader has measured."""
    lay(sample.results(2.0, SUITES))
    html = render(BARS)
    assert html.count('class="seven-own"') == 2
    assert "seven-band" not in html
    assert "01 reference 10.0, yours 20.0;" in html
    assert "06 yours" in render(SWEEP)
    assert "(yours 20.0)" in render(
        "`#!num 01.classic.requests_per_second`"
    )


def test_a_class_is_a_band_with_its_median(
    lay: Lay, render: Render
) -> None:
    lay(*(sample.results(factor, SUITES) for factor in (0.5, 4.0, 2.0)))
    html = render(BARS)
    # 10, 5 to 40, half of them under 20; 02 has twice that, 80 at most.
    first = html.split('<g data-server="01"')[1].split("</g>")[0]
    assert re.findall(r'class="seven-own" x="0%".*?width="(.*?)"', first) == [
        "20%"
    ]
    assert re.findall(
        r'class="seven-band" x="(.*?)".*?width="(.*?)"', first
    ) == [("5%", "35%")]
    assert "01 reference 10.0, 3 runs 20.0 (5.00 to 40.0);" in html
    assert "3 runs: median" in html
    assert "<td>3 runs</td><td>20.0</td><td>5.00</td><td>40.0</td>" in html
    assert "Beside it 3 runs of others" in html
    assert "Processors: A &amp; B &lt;CPU&gt;." in html
    table = render(TABLE)
    assert table.count('<th scope="row">3 runs</th>') == 2
    assert "<td>20.0<br><small>5.00 to 40.0</small></td>" in table
    assert "<td>20.0 %<br><small>5.0 to 40.0 %</small></td>" in table
    sweep = render(SWEEP)
    assert "06 3 runs" in sweep and 'class="seven-between"' in sweep
    rate = 2 * sample.rate_of("06", 1)  # the median of theirs
    assert f"06, 3 runs: 1 clients, {rate:.0f} requests/s" in sweep
    assert "(median of 3 runs 20.0)" in render(
        "`#!num 01.classic.requests_per_second`"
    )
    ratio = "02.classic.requests_per_second / 01.classic.requests_per_second"
    assert "(median of 3 runs 2.0)" in render(f"`#!num {ratio}`")


def test_different_machines_are_named_or_counted(
    lay: Lay, render: Render
) -> None:
    runs = [sample.results(1.0, ("classic",)) for _ in range(5)]
    for number, run in enumerate(runs):
        run.machine.cpu = f"CPU {number}"
        run.machine.cores = 2 if number < 3 else 4
    lay(*runs)
    assert "Processors: 5 different." in render(BARS)
    html = render("```machine\n```")
    assert '<th scope="col">5 runs</th>' in html
    assert "<td>2 or 4</td>" in html and "<td>5 different</td>" in html


def test_not_everybody_measured_everything(
    lay: Lay, render: Render
) -> None:
    less = sample.results(1.0, ("many",))
    failed = sample.results(1.0, ("classic",))
    for point in failed.points:
        point.runs, point.status, point.reason = [], "failed", "no luck"
    lay(sample.results(2.0, ("classic",)), less, failed)
    html = render(BARS)
    assert "01 reference 10.0, 2 of 3 runs 20.0;" in html
    lay(less, less)
    assert 'class="seven-own"' not in render(BARS)
    assert '<th scope="row">2 runs</th><td>\u2013' in render(TABLE)
    lay(failed)
    assert "yours no luck" in render(BARS)
    assert "no luck" in render(TABLE)


def test_what_others_wrote_is_text(lay: Lay, render: Render) -> None:
    """Nothing in a file becomes a part of the page that does something."""
    evil = "</code></svg><img src=x onerror='alert()'>\"'&"
    made = sample.results(1.0, SUITES)
    made.command = made.started = made.machine.cpu = evil
    for point in made.points[::2]:
        point.runs, point.status, point.reason = [], "failed", evil
    lay(made)
    page = "\n\n".join((BARS, TABLE, SWEEP, "```machine\n```"))
    html = render(page)
    assert "&lt;img" in html and "<img" not in html


@pytest.mark.parametrize(("content", "why"), [
    ("{", "is not a results file"),
    ("[]", "is not a results file"),
    ('{"schema": 2}', "has schema 2, this version reads 1"),
    ('{"schema": 1}', "is not a results file"),
    ("smoke", "is a run of smoke, which measures other things"),
    ("scale", "is a run of scale, which measures other things"),
    ("", "cannot be read"),
])
def test_what_cannot_be_used_ends_the_build(
    reference: Results, render: Render, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, content: str, why: str,
) -> None:
    file = tmp_path / "mine.json"
    monkeypatch.setenv("SEVEN_BESIDE", str(file))
    if content in ("smoke", "scale"):
        sample.of([], content).save(tmp_path)
        (tmp_path / "results.json").rename(file)
    elif content:
        file.write_text(content)
    with pytest.raises(Exception, match=rf"mine\.json {why}"):
        render(BARS)
