"""The charts of the labs: MB/s of frames, and what the GIL lets share."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run
from tools.site.figures import FIGURES

FRAMES = """\
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
GIL = """\
```gil
figure: lock_hog_per_second
title: Hand-overs <beside> a hog
caption: In turns.
```"""


def frames(name: str, variant: str, *rates: float) -> Point:
    runs = [Run("command", extra={"mb_per_second": rate}) for rate in rates]
    return Point(name, "labs-frames", 1, 0.0, variant=variant, runs=runs)


def gil(name: str, cpus: str, *values: float, gil: float = 1.0) -> Point:
    runs = [
        Run("command", extra={"lock_hog_per_second": value, "gil": gil})
        for value in values
    ]
    return Point(name, "labs-gil", 0, 0.0, variant=cpus, runs=runs)


@pytest.fixture(autouse=True)
def folder(committed: Committed) -> Path:
    """Both labs; of the frames, the folder."""
    committed.save(
        "labs-gil",
        gil("2.7", "1 CPU", 8000, 9000, 10000),
        gil("2.7", "2 CPUs", 4000, 4000, 4000),
        gil("3.99t", "1 CPU", 2000, gil=0.0),
        gil("3.99t", "2 CPUs", 20000, gil=0.0),
    )
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
        frames("streams", "newest, two processes", 100, 300, 200),
        frames("streams", "newest, two processes, huge pages", 400, 600),
        frames("streams", "oldest, two processes", 50),
        frames("sock", "newest, two processes", 1000),
        skipped,
        frames("C-recv", "C, two processes", 2000),
        frames("streams", "newest, one process", 40),
    )
    found = {"newest, one process": {"streams": [["<b>.x", 0.5], ["y", 0.25]]}}
    (folder / "profile.json").write_text(json.dumps(found))
    return folder


def drawing(html: str) -> ElementTree.Element:
    found = re.search(r"<svg.*</svg>", html, re.S)
    assert found
    return ElementTree.fromstring(found[0])


def texts(html: str, kind: str) -> list[str | None]:
    every = drawing(html).iter("text")
    return [e.text for e in every if e.get("class") == f"seven-{kind}"]


def table(html: str) -> list[list[str]]:
    return [
        re.findall(r"<t[hd][^>]*>([^<]*)", row)
        for row in html.split("<tr>")[2:]
    ]


def test_frames(render: Render) -> None:
    html = render(FRAMES)
    assert "MB/s &amp; more" in html and "A &amp; B" in html
    assert "On Python 3.14.0. " in html
    assert html.count('class="seven-bar"') == 2  # the third was skipped
    assert html.count('class="seven-mark"') == 1
    assert html.count("\u2013 no &lt;splice&gt; here</text>") == 1
    # 2000 of C is the right edge; 200 a tenth of that.
    assert 'class="seven-possible" x1="100%"' in html
    assert 'width="10%"' in html
    assert "streams usual pages 200, huge pages 500;" in html
    assert "C-recv, usual pages: 2,000" in html
    assert "lower bar: huge pages" in html
    assert "Medians of 3 runs" in html
    assert table(html)[:2] == [
        ["streams", "usual pages", "200", "100", "300"],
        ["streams", "huge pages", "500", "400", "600"],
    ]


def test_only_some_variants_in_their_order(render: Render) -> None:
    html = render(FRAMES.replace("shape: two", "shape: two\nvariants: sock"))
    assert texts(html, "label") == ["sock"]
    assert "usual pages (4 KiB)" in html  # no second bar, so no lower


def test_one_process_has_no_line_of_c(render: Render) -> None:
    html = render(FRAMES.replace("shape: two", "shape: one"))
    assert "seven-possible" not in html and "C-recv" not in html


def test_where_the_time_goes(render: Render) -> None:
    html = render(PROFILE)
    assert "50&nbsp;% <code>&lt;b&gt;.x</code>" in html
    assert "25&nbsp;% <code>y</code>" in html


def test_two_bars_for_each_interpreter(render: Render) -> None:
    html = render(GIL)
    drawn = drawing(html)
    bars = list(drawn.iter("rect"))
    assert [bar.get("class") for bar in bars] == [
        "seven-bar", "seven-mark", "seven-bar", "seven-mark",
    ]
    assert [bar.get("width") for bar in bars] == ["45%", "20%", "10%", "100%"]
    heights = [float(bar.get("y") or 0) for bar in bars]
    assert heights == sorted(heights) and len(set(heights)) == 4
    assert heights[-1] + 14 < float(drawn.get("height") or 0)
    assert texts(html, "label") == ["Python 2.7", "Python 3.99t, no GIL"]
    assert texts(html, "value") == ["9,000", "4,000", "2,000", "20,000"]


def test_words_for_all_who_do_not_see_it(render: Render) -> None:
    html = render(GIL)
    drawn = drawing(html)
    assert drawn.get("role") == "img"
    said = (drawn.findtext("desc") or "") + (drawn.findtext("title") or "")
    assert "Python 2.7 1 CPU 9,000, 2 CPUs 4,000;" in said
    assert "hand-overs per second" in said
    assert "upper bar: one CPU" in html and "lower bar: two CPUs" in html
    assert "Hand-overs &lt;beside&gt; a hog" in html
    assert "In turns. Medians of 3 runs" in html
    first, *others = table(html)
    assert first == ["Python 2.7", "1 CPU", "9,000", "8,000", "10,000"]
    assert len(others) == 3


def test_one_cpu_alone_and_what_failed(
    committed: Committed, render: Render
) -> None:
    bad = Point(
        "3.8", "labs-gil", 0, 0.0, variant="1 CPU", status="failed",
        reason="it does not run", runs=[Run("", error="it does not run")],
    )
    committed.save("labs-gil", bad, gil("3.9", "1 CPU", 5.0))
    html = render(GIL)
    assert "lower bar" not in html and "lowest to highest" not in html
    assert html.count("<rect") == 1
    assert "\u2013 it does not run</text>" in html
    assert "Python 3.8 it does not run;" in html


def test_other_points_are_an_error(
    committed: Committed, render: Render
) -> None:
    committed.save("labs-gil", gil("3.8", "3 CPUs", 5.0))
    with pytest.raises(Exception, match="3 CPUs"):
        render(GIL)
    committed.save("labs-gil")
    with pytest.raises(Exception, match="no points"):
        render(GIL)


def test_numbers_in_sentences(render: Render) -> None:
    name = "labs-gil:2.7[1 CPU].labs-gil.lock_hog_per_second"
    assert ">9,000<" in render(f"`#!num {name}`")


@pytest.mark.parametrize("name", [
    "efficiency_times", "lock_per_second", "pool_10_per_second",
    "answer_hog_long_ms", "condition_hog_per_second",
])  # fmt: skip
def test_every_figure_of_the_lab_has_words_for_its_axis(name: str) -> None:
    assert FIGURES[name].axis


@pytest.mark.parametrize(
    ("text", "old", "new", "why"),
    [
        (FRAMES, "two", "three", "shape is one or two, not 'three'"),
        (FRAMES, "newest", "last", "nothing in 'last, two processes'"),
        (FRAMES, "shape: two", "shape: two\nvariants: sand", "of sand"),
        (FRAMES, "shape: two", "shape: two\nshow: all", "chart or profile"),
        (FRAMES, "title: MB/s & more\n", "", "'title' is missing"),
        (PROFILE, "newest", "oldest", "in 'oldest, one process'"),
        (PROFILE, "shape: one", "shape: one\nvariants: sock", "no 'sock'"),
        (GIL, "lock_hog_per_second", "nonsense", "no figure"),
        (GIL, "lock_hog_per_second", "answer_ms", "no answer_ms"),
        (GIL, "caption", "color", "color"),
    ],
)
def test_mistakes_end_the_build(
    render: Render, text: str, old: str, new: str, why: str
) -> None:
    with pytest.raises(Exception, match=why):
        render(text.replace(old, new))


def test_a_profile_that_is_missing(render: Render, folder: Path) -> None:
    (folder / "profile.json").unlink()
    with pytest.raises(Exception, match=r"profile\.json: No such file"):
        render(PROFILE)
