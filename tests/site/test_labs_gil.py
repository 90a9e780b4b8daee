"""The fence ``gil``: a chart of the lab about the GIL."""

import re
from xml.etree import ElementTree

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run
from tools.site.figures import FIGURES

FENCE = """\
```gil
figure: lock_hog_per_second
title: Hand-overs <beside> a hog
caption: In turns.
```"""


def point(name: str, cpus: str, *values: float, gil: float = 1.0) -> Point:
    runs = [
        Run("command", extra={"lock_hog_per_second": value, "gil": gil})
        for value in values
    ]
    return Point(name, "labs-gil", 0, 0.0, variant=cpus, runs=runs)


@pytest.fixture
def usual(committed: Committed) -> None:
    committed.save(
        "labs-gil",
        point("2.7", "1 CPU", 8000, 9000, 10000),
        point("2.7", "2 CPUs", 4000, 4000, 4000),
        point("3.99t", "1 CPU", 2000, gil=0.0),
        point("3.99t", "2 CPUs", 20000, gil=0.0),
    )


def svg_of(html: str) -> ElementTree.Element:
    found = re.search(r"<svg.*</svg>", html, re.S)
    assert found
    return ElementTree.fromstring(found[0])


def test_two_bars_for_each_interpreter(usual: None, render: Render) -> None:
    html = render(FENCE)
    drawn = svg_of(html)
    assert texts(drawn, "label") == ["Python 2.7", "Python 3.99t, no GIL"]
    bars = list(drawn.iter("rect"))
    assert [bar.get("class") for bar in bars] == [
        "seven-bar", "seven-mark", "seven-bar", "seven-mark",
    ]
    assert [bar.get("width") for bar in bars] == ["45%", "20%", "10%", "100%"]
    heights = [float(bar.get("y") or 0) for bar in bars]
    assert heights == sorted(heights) and len(set(heights)) == 4
    assert heights[-1] + 14 < float(drawn.get("height") or 0)
    assert texts(drawn, "value") == ["9,000", "4,000", "2,000", "20,000"]


def texts(drawn: ElementTree.Element, kind: str) -> list[str | None]:
    return [
        e.text for e in drawn.iter("text") if e.get("class") == f"seven-{kind}"
    ]


def test_the_spread_is_shown_where_there_is_one(
    usual: None, render: Render
) -> None:
    drawn = svg_of(render(FENCE))
    spreads = [
        e for e in drawn.iter("line") if e.get("class") == "seven-spread"
    ]
    # One whisker with two ends for each of those with several runs.
    assert len(spreads) == 6
    assert spreads[0].get("x1") != spreads[0].get("x2")


def test_words_for_all_who_do_not_see_it(
    usual: None, render: Render
) -> None:
    html = render(FENCE)
    drawn = svg_of(html)
    assert drawn.get("role") == "img"
    said = (drawn.findtext("desc") or "") + (drawn.findtext("title") or "")
    assert "Python 2.7 1 CPU 9,000, 2 CPUs 4,000;" in said
    assert "hand-overs per second" in said
    assert "upper bar: one CPU" in html and "lower bar: two CPUs" in html
    assert "Hand-overs &lt;beside&gt; a hog" in html
    assert "In turns. Medians of 3 runs" in html and "A &amp; B" in html
    rows = html.split("<tr>")[2:]
    cells = re.findall(r"<t[hd][^>]*>([^<]*)", rows[0])
    assert cells == ["Python 2.7", "1 CPU", "9,000", "8,000", "10,000"]
    assert len(rows) == 4


def test_one_cpu_alone(committed: Committed, render: Render) -> None:
    committed.save("labs-gil", point("3.8", "1 CPU", 5.0))
    html = render(FENCE)
    assert "lower bar" not in html and "lowest to highest" not in html
    assert len(list(svg_of(html).iter("rect"))) == 1


def test_what_failed_says_why(committed: Committed, render: Render) -> None:
    bad = Point(
        "3.8", "labs-gil", 0, 0.0, variant="1 CPU", status="failed",
        reason="it does not run", runs=[Run("", error="it does not run")],
    )
    committed.save("labs-gil", bad, point("3.9", "1 CPU", 5.0))
    html = render(FENCE)
    assert "\u2013 it does not run</text>" in html
    assert "Python 3.8 it does not run;" in html


@pytest.mark.parametrize(
    ("fence", "says"),
    [
        (FENCE.replace("lock_hog_per_second", "nonsense"), "no figure"),
        (FENCE.replace("lock_hog_per_second", "answer_ms"), "no answer_ms"),
        (FENCE.replace("title: Hand-overs <beside> a hog\n", ""), "title"),
        (FENCE.replace("caption", "color"), "color"),
    ],
)
def test_a_wrong_fence_ends_the_build(
    usual: None, render: Render, fence: str, says: str
) -> None:
    with pytest.raises(Exception, match=says):
        render(fence)


def test_other_points_are_an_error(
    committed: Committed, render: Render
) -> None:
    committed.save("labs-gil", point("3.8", "3 CPUs", 5.0))
    with pytest.raises(Exception, match="3 CPUs"):
        render(FENCE)
    committed.save("labs-gil")
    with pytest.raises(Exception, match="no points"):
        render(FENCE)


def test_numbers_in_sentences(usual: None, render: Render) -> None:
    html = render(
        "`#!num labs-gil:2.7[1 CPU].labs-gil.lock_hog_per_second` and "
        "`#!num labs-gil:3.99t[2 CPUs].labs-gil.lock_hog_per_second / "
        "labs-gil:2.7[2 CPUs].labs-gil.lock_hog_per_second`"
    )
    assert ">9,000<" in html and ">5.0<" in html


def test_every_figure_of_the_lab_has_a_name() -> None:
    for name in ("efficiency_times", "lock_per_second", "pool_10_per_second",
                 "answer_hog_long_ms", "condition_hog_per_second"):
        assert FIGURES[name].axis
