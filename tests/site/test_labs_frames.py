"""The fence "frames": a chart of MB/s, and a table of functions."""

import json
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data.results import Machine, Point, Results, Run
from tools.site import experiments, labs_frames

CHART = """\
```frames
title: MB/s & more
part: newest
shape: two
```"""
PROFILE = """\
```frames
title: Functions
show: profile
part: newest
shape: one
```"""


def point(name: str, variant: str, *rates: float) -> Point:
    runs = [Run("command", extra={"mb_per_second": rate}) for rate in rates]
    return Point(name, "labs-frames", 1, 0.0, variant=variant, runs=runs)


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with two variants, one skipped, and one in C."""
    monkeypatch.setattr(experiments, "DATA", tmp_path)
    monkeypatch.setattr(labs_frames, "DATA", tmp_path)
    skipped = point("splice", "newest, two processes")
    skipped.status, skipped.reason = "skipped", "no <splice> here"
    lower = point("splice", "newest, two processes, huge pages")
    lower.status, lower.reason = skipped.status, skipped.reason
    folder = tmp_path / "labs-frames"
    Results(
        command="./bench.sh labs frames", mode="labs-frames",
        started="2000-01-02T03:04:05", commit="c", tools={},
        machine=Machine("A & B", 2, 1, "Linux 6", "CPython 3.11.7", 1000),
        points=[
            lower,
            point("streams", "newest, two processes", 100, 300, 200),
            point("streams", "newest, two processes, huge pages", 400, 600),
            point("streams", "oldest, two processes", 50),
            point("sock", "newest, two processes", 1000),
            skipped,
            point("C-recv", "C, two processes", 2000),
            point("streams", "newest, one process", 40),
        ],
    ).save(folder)
    found = {"newest, one process": {"streams": [["<b>.x", 0.5], ["y", 0.25]]}}
    (folder / "profile.json").write_text(json.dumps(found))
    return folder


def test_the_chart(render: Render) -> None:
    html = render(CHART)
    assert "MB/s &amp; more" in html and "A &amp; B" in html
    assert html.count('class="seven-bar"') == 2  # the third was skipped
    assert html.count('class="seven-mark"') == 1
    assert html.count("> here<") == 0
    assert html.count("\u2013 no &lt;splice&gt; here</text>") == 1
    # 2000 of C is the right edge, with some room; 200 a tenth of that.
    assert 'class="seven-possible" x1="97.087%"' in html
    assert 'width="9.709%"' in html
    assert "streams 200, with huge pages 500;" in html
    assert "C-recv 2,000;" in html
    assert "lower bar: huge pages" in html
    assert "slowest to fastest run" in html
    assert "Medians of 3 runs" in html


def test_the_table_has_the_same_numbers(render: Render) -> None:
    row = render(CHART).split("<tr>")[2]
    cells = ["200", "100", "300", "500", "400", "600"]
    assert [f"<td>{cell}</td>" in row for cell in cells] == [True] * 6


def test_only_some_variants_in_their_order(render: Render) -> None:
    html = render(CHART.replace("shape: two", "shape: two\nvariants: sock"))
    assert ">sock<" in html and ">streams<" not in html
    assert "usual pages (4 KiB)" in html  # no second bar, so no lower


def test_one_process_has_no_line_of_c(render: Render) -> None:
    html = render(CHART.replace("shape: two", "shape: one"))
    assert "seven-possible" not in html and "C-recv" not in html


def test_the_profile(render: Render) -> None:
    html = render(PROFILE)
    assert "50&nbsp;% <code>&lt;b&gt;.x</code>" in html
    assert "25&nbsp;% <code>y</code>" in html


@pytest.mark.parametrize(
    ("text", "old", "new", "why"),
    [
        (CHART, "two", "three", "shape is one or two, not 'three'"),
        (CHART, "newest", "last", "has nothing in 'last, two processes'"),
        (CHART, "shape: two", "shape: two\nvariants: sand", "no 'sand'"),
        (CHART, "shape: two", "shape: two\nshow: all", "chart or profile"),
        (CHART, "title: MB/s & more\n", "", "'title' is missing"),
        (PROFILE, "newest", "oldest", "in 'oldest, one process'"),
        (PROFILE, "shape: one", "shape: one\nvariants: sock", "no 'sock'"),
    ],
)
def test_mistakes_end_the_build(
    render: Render, text: str, old: str, new: str, why: str
) -> None:
    with pytest.raises(Exception, match=why):
        render(text.replace(old, new))


def test_a_profile_that_is_missing(render: Render, made: Path) -> None:
    (made / "profile.json").unlink()
    with pytest.raises(Exception, match=r"profile\.json: No such file"):
        render(PROFILE)
