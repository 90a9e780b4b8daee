"""The fence "frames": a chart of MB/s, and a table of functions."""

import json
import re
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run

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
def made(committed: Committed) -> Path:
    """A run with two variants, one skipped, and one in C."""
    skipped, lower = (
        Point(
            "splice", "labs-frames", 1, 0.0, variant=f"newest, {where}",
            status="skipped", reason="no <splice> here",
        )
        for where in ("two processes", "two processes, huge pages")
    )
    folder = committed.save(
        "labs-frames",
        lower,
        point("streams", "newest, two processes", 100, 300, 200),
        point("streams", "newest, two processes, huge pages", 400, 600),
        point("streams", "oldest, two processes", 50),
        point("sock", "newest, two processes", 1000),
        skipped,
        point("C-recv", "C, two processes", 2000),
        point("streams", "newest, one process", 40),
    )
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
    # 2000 of C is the right edge; 200 a tenth of that.
    assert 'class="seven-possible" x1="100%"' in html
    assert 'width="10%"' in html
    assert "streams usual pages 200, huge pages 500;" in html
    assert "C-recv, usual pages: 2,000" in html
    assert "lower bar: huge pages" in html
    assert "lowest to highest run" in html
    assert "Medians of 3 runs" in html


def test_the_table_has_the_same_numbers(render: Render) -> None:
    rows = render(CHART).split("<tr>")[2:4]
    cells = [re.findall("<td>(.*?)</td>", row) for row in rows]
    assert cells == [
        ["usual pages", "200", "100", "300"],
        ["huge pages", "500", "400", "600"],
    ]


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
        (CHART, "newest", "last", "nothing in 'last, two processes'"),
        (CHART, "shape: two", "shape: two\nvariants: sand", "of sand"),
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
