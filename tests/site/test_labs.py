"""The figures of the labs, drawn from runs that are made here."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from labs.hosts import experiments
from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run
from tools.servers import ROOT
from tools.site.figures import DASH, FIGURES

Draw = Callable[..., str]


@pytest.fixture
def draw(render: Render) -> Draw:
    """Makes a fence of its name and its options, as HTML."""

    def drawn(name: str, options: dict[str, str], **more: str) -> str:
        chosen = {**options, **more}
        lines = "".join(f"{key}: {text}\n" for key, text in chosen.items())
        return render(f"```{name}\n{lines}```")

    return drawn


def point(
    server: str, suite: str, variant: str, *runs: Run, clients: int = 1
) -> Point:
    return Point(
        server, suite, clients, 0.1, variant=variant, runs=list(runs)
    )


def skipped(server: str, suite: str, variant: str, reason: str) -> Point:
    return Point(
        server, suite, 1, 0.1, variant=variant, status="skipped",
        reason=reason,
    )


def drawing(html: str) -> ElementTree.Element:
    found = re.search(r"<svg.*</svg>", html, re.S)
    assert found
    return ElementTree.fromstring(found[0])


def texts(html: str, kind: str) -> list[str | None]:
    every = drawing(html).iter("text")
    return [e.text for e in every if e.get("class") == f"seven-{kind}"]


def table(html: str) -> list[list[str]]:
    """The rows of the only table, the head first."""
    return [
        re.findall(r"<t[hd](?: [^>]*)?>(?:<strong>)?([^<]*)", row)
        for row in html.split("<tr>")[1:]
    ]


# Frames ----------------------------------------------------------------------

FRAMES = {"title": "MB/s & more", "part": "newest", "shape": "two"}
PROFILE = {"title": "F", "part": "newest", "shape": "one", "show": "profile"}


def frames(name: str, variant: str, *rates: float) -> Point:
    runs = [Run("command", extra={"mb_per_second": rate}) for rate in rates]
    return point(name, "labs-frames", variant, *runs)


@pytest.fixture(autouse=True)
def folder(committed: Committed) -> Path:
    """The run about frames, which has a profile beside it."""
    two, huge = "newest, two processes", "newest, two processes, huge pages"
    folder = committed.save(
        "labs-frames",
        skipped("splice", "labs-frames", huge, "no <splice> here"),
        frames("streams", two, 100, 300, 200),
        frames("streams", huge, 400, 600),
        frames("streams", "oldest, two processes", 50),
        frames("sock", two, 1000),
        skipped("splice", "labs-frames", two, "no <splice> here"),
        frames("C-recv", "C, two processes", 2000),
        frames("streams", "newest, one process", 40),
    )
    found = {"newest, one process": {"streams": [["<b>.x", 0.5], ["y", 0.25]]}}
    (folder / "profile.json").write_text(json.dumps(found))
    return folder


def test_frames(draw: Draw) -> None:
    html = draw("frames", FRAMES)
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
    assert table(html)[1:3] == [
        ["streams", "usual pages", "200", "100", "300"],
        ["streams", "huge pages", "500", "400", "600"],
    ]


def test_only_some_variants_in_their_order(draw: Draw) -> None:
    html = draw("frames", FRAMES, variants="sock")
    assert texts(html, "label") == ["sock"]
    assert "usual pages (4 KiB)" in html  # no second bar, so no lower


def test_one_process_has_no_line_of_c(draw: Draw) -> None:
    html = draw("frames", FRAMES, shape="one")
    assert "seven-possible" not in html and "C-recv" not in html


def test_where_the_time_goes(draw: Draw, folder: Path) -> None:
    html = draw("frames", PROFILE)
    assert "50&nbsp;% <code>&lt;b&gt;.x</code>" in html
    assert "25&nbsp;% <code>y</code>" in html
    (folder / "profile.json").unlink()
    with pytest.raises(Exception, match=r"profile\.json: No such file"):
        draw("frames", PROFILE)


# The GIL ---------------------------------------------------------------------

GIL = {
    "figure": "lock_hog_per_second", "title": "Hand-overs <beside> a hog",
    "caption": "In turns.",
}


def gil(name: str, cpus: str, *values: float, gil: float = 1.0) -> Point:
    return point(name, "labs-gil", cpus, *(
        Run("command", extra={"lock_hog_per_second": value, "gil": gil})
        for value in values
    ))


@pytest.fixture(autouse=True)
def hogs(committed: Committed) -> None:
    committed.save(
        "labs-gil",
        gil("2.7", "1 CPU", 8000, 9000, 10000),
        gil("2.7", "2 CPUs", 4000, 4000, 4000),
        gil("3.99t", "1 CPU", 2000, gil=0.0),
        gil("3.99t", "2 CPUs", 20000, gil=0.0),
    )


def test_two_bars_for_each_interpreter(draw: Draw) -> None:
    html = draw("gil", GIL)
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


def test_words_for_all_who_do_not_see_it(draw: Draw) -> None:
    html = draw("gil", GIL)
    drawn = drawing(html)
    assert drawn.get("role") == "img"
    said = (drawn.findtext("desc") or "") + (drawn.findtext("title") or "")
    assert "Python 2.7 1 CPU 9,000, 2 CPUs 4,000;" in said
    assert "hand-overs per second" in said
    assert "upper bar: one CPU" in html and "lower bar: two CPUs" in html
    assert "Hand-overs &lt;beside&gt; a hog" in html
    assert "In turns. Medians of 3 runs" in html
    _, first, *others = table(html)
    assert first == ["Python 2.7", "1 CPU", "9,000", "8,000", "10,000"]
    assert len(others) == 3


def test_a_number_of_it_in_a_sentence(render: Render) -> None:
    name = "labs-gil:2.7[1 CPU].labs-gil.lock_hog_per_second"
    assert ">9,000<" in render(f"`#!num {name}`")


def test_one_cpu_alone_and_what_failed(
    committed: Committed, draw: Draw
) -> None:
    bad = point("3.8", "labs-gil", "1 CPU", Run("", error="it does not run"))
    bad.status, bad.reason = "failed", "it does not run"
    committed.save("labs-gil", bad, gil("3.9", "1 CPU", 5.0))
    html = draw("gil", GIL)
    assert "lower bar" not in html and "lowest to highest" not in html
    assert html.count("<rect") == 1
    assert "\u2013 it does not run</text>" in html
    assert "Python 3.8 it does not run;" in html


def test_other_points_are_an_error(committed: Committed, draw: Draw) -> None:
    committed.save("labs-gil", gil("3.8", "3 CPUs", 5.0))
    with pytest.raises(Exception, match="has a point on '3 CPUs'"):
        draw("gil", GIL)
    committed.save("labs-gil")
    with pytest.raises(Exception, match="no points"):
        draw("gil", GIL)


def test_every_figure_of_the_lab_has_words_for_its_axis() -> None:
    for name in (
        "efficiency_times", "lock_per_second", "pool_10_per_second",
        "answer_hog_long_ms", "condition_hog_per_second",
    ):
        assert FIGURES[name].axis, name


# A database ------------------------------------------------------------------

DATABASE = {"suite": "db-sleep", "title": "Answers & more"}
BARS = {**DATABASE, "show": "bars"}


def handler(name: str, pool: str, clients: int, *rates: float) -> Point:
    return point(name, "db-sleep", pool, *(
        Run(
            "command", requests_per_second=rate, latency_ms={"p99": 2 * rate},
            extra={"connections": 10.0},
        )
        for rate in rates
    ), clients=clients)


@pytest.fixture(autouse=True)
def queries(committed: Committed) -> None:
    committed.save(
        "labs-database",
        handler("03", "one a request", 1, 9.0),
        handler("03", "one a request", 100, 300.0),
        handler("03", "10 connections", 1, 8.0),
        handler("06-async", "10 connections", 1, 9.5),
        handler("06-async", "10 connections", 100, 90.0, 100.0, 95.0),
    )


def test_a_line_for_each_handler_and_pool(draw: Draw) -> None:
    html = draw("database", DATABASE, show="lines")
    assert "03, one reaches 300.0 requests per second at 100" in html
    assert "03, 10 reaches 8.00 requests per second at 1 clients" in html
    assert "06-async reaches 95.0 requests per second" in html
    assert "seven-line seven-step3" in html and "seven-step6" in html
    assert "Medians of 3 runs" in html and "Answers &amp; more" in html


def test_a_table_over_the_clients(draw: Draw) -> None:
    assert table(draw("database", DATABASE, show="table", figure="p99")) == [
        ["Handler", "1 client", "100 clients"],
        ["03, one a request", "18 ms", "600 ms"],
        ["03, 10 connections", "16 ms", DASH],
        ["06-async, 10 connections", "19 ms", "190 ms"],
    ]


def test_bars_with_so_many_clients(draw: Draw) -> None:
    html = draw("database", BARS, figure="connections", clients="100")
    assert html.count('class="seven-bar"') == 2
    assert "connections at once" in html and ">10</text>" in html


# A look inside ---------------------------------------------------------------

INSIDE = {"caption": "Six & more."}


@pytest.fixture(autouse=True)
def printed(committed: Committed) -> None:
    """What ss and ps printed; there was no py-spy."""
    committed.save("labs-inside", *(
        point(name, "labs-inside", "", Run("command", texts={
            "ss": f"$ ss <{name}>\nLISTEN", "ps": "PID",
        }))
        for name in ("02", "06")
    ))


def test_the_servers_stand_below_one_another(draw: Draw) -> None:
    html = draw("inside", INSIDE, tool="ss")
    assert html.count("<pre") == 2 and 'class="grid"' not in html
    first, second = html.split("<pre")[1:]
    assert "$ ss &lt;02&gt;\nLISTEN</code>" in first
    assert "<strong>06</strong> await" in first  # above the second
    assert "&lt;06&gt;" in second and "Six &amp; more." in second


def test_what_is_narrow_stands_side_by_side(draw: Draw) -> None:
    html = draw("inside", INSIDE, tool="ps")
    assert html.count("<pre") == 2 and html.count('class="grid"') == 1


def test_a_tool_that_was_not_there_is_said(draw: Draw) -> None:
    html = draw("inside", INSIDE, tool="py-spy")
    assert html.count("py-spy was not on the machine.") == 2


# Several hosts ---------------------------------------------------------------

DEATH = {
    "title": "Lost & found", "part": "death", "bars": "kill; cable",
    "figure": "failed",
}
OFTEN = "often = 06[{bar}: often]; rare = 06[{bar}: <rare>]"
STORM = {
    "title": "Storm", "part": "storm", "show": "seconds",
    "rows": "none = 03-pool[none]; a bound = 03-pool[a bound]",
}


@pytest.fixture(autouse=True)
def hosts(committed: Committed) -> None:
    lost = {
        "kill: often": 4, "cable: often": 8, "kill: <rare>": 20,
        "kill: once": 1,
    }
    answered = {"none": [100.0, 50.0, 0.0], "a bound": [100.0, 150.0, 100.0]}
    committed.save(
        "hosts",
        skipped("06", "hosts-death", "cable: <rare>", "no <cable>"),
        *(
            point("06", "hosts-death", name, Run("c", failed=failed))
            for name, failed in lost.items()
        ),
        *(
            point("03-pool", "hosts-storm", name, Run("c", series={
                "sent": [100.0, 200.0, 100.0], "good": good,
            }))
            for name, good in answered.items()
        ),
    )


def test_a_bar_each(draw: Draw) -> None:
    html = draw("hosts", DEATH, rows=OFTEN)
    assert "Lost &amp; found" in html
    assert "from above: kill, cable" in html
    widths = re.findall(r'class="seven-bar"[^>]* width="([^"]*)"', html)
    assert widths == ["20%", "40%", "100%"]
    assert "\u2013 no &lt;cable&gt;</text>" in html
    assert "often kill 4, cable 8;" in html


def test_nobody_loses_half_a_request(draw: Draw) -> None:
    html = draw("hosts", DEATH, bars="kill", rows="once = 06[{bar}: once]")
    assert re.findall(r'seven-tick"[^>]*>([^<]*)<', html) == ["0", "1"]


def test_a_table_of_the_same(draw: Draw) -> None:
    html = draw(
        "hosts", DEATH, show="table", point="06[{bar}: {row}]",
        rows="often; <rare>",
    )
    assert table(html) == [
        ["What", "kill", "cable"],
        ["often", "4", "8"],
        ["&lt;rare&gt;", "20", DASH],
    ]


def test_seconds(draw: Draw) -> None:
    """Lines with a shape each second, a letter each, and words."""
    html = draw("hosts", STORM)
    svg = drawing(html)
    (words,) = (each.text for each in svg if each.tag == "desc")
    assert words == (
        "Requests, in each second: 100, 200, 100. none, in each second: "
        "100, 50, 0. a bound, in each second: 100, 150, 100."
    )
    assert len(list(svg.iter("path"))) == 6
    assert texts(html, "value") == ["A", "B"]
    assert "A: none" in html and "B: a bound" in html
    assert table(html)[1:] == [
        ["0", "100", "100", "100"],
        ["1", "200", "50", "150"],
        ["2", "100", "0", "100"],
    ]
    # Most is at the top, none at the bottom.
    ends = {float(line.get("y2", "-1")) for line in svg.iter("line")}
    assert min(ends) == 0 and max(ends) == 240


def test_so_many_times_as_much(render: Render) -> None:
    text = "hosts:06[kill: often].hosts-death.failed"
    assert ">4<" in render(f"`#!num {text}`")
    assert ">400<" in render(f"`#!num 100 * {text}`")


def test_the_page_names_the_settings_of_the_storm() -> None:
    page = (ROOT / "docs" / "labs" / "hosts.md").read_text("utf-8")
    text = " ".join(page.split())
    case = experiments.STORM[1]
    (front,) = case.fronts
    (usual, _), (spike, during), (_, after) = front.phases
    possible = sum(experiments.THREADS / delay for delay in case.delays)
    assert f"can answer {possible:g} requests a second" in text
    assert f"Usually {usual:g} come, for {during:g} seconds {spike:g}" in text
    assert f"{after:g} seconds after the load was over" in text
    assert (front.timeout, front.tries) == (1, 3)


# What is missing -------------------------------------------------------------


@pytest.mark.parametrize(("name", "options", "more", "why"), [
    ("frames", FRAMES, {"part": "last"}, "nothing in 'last, two processes'"),
    ("frames", FRAMES, {"variants": "sand"}, "of sand"),
    ("frames", PROFILE, {"part": "oldest"}, "in 'oldest, one process'"),
    ("frames", PROFILE, {"variants": "sock"}, "no 'sock'"),
    ("gil", GIL, {"figure": "answer_ms"}, "no answer_ms"),
    ("database", BARS, {"clients": "7"}, "no points in db-sleep"),
    ("database", BARS, {"figure": "gap_seconds"}, "has no gap_seconds"),
    ("hosts", DEATH, {"rows": "x = 06[often]"}, "0 points are 06[often]"),
    ("hosts", DEATH, {"rows": OFTEN, "part": "slow"}, "points in hosts-slow"),
    ("hosts", STORM, {"part": "seen"}, "hosts-seen"),
    ("hosts", STORM, {"part": "death", "rows": "x = 06[kill: often]"},
     "no seconds of 06[kill: often]: measure again"),
    ("hosts", STORM, {"part": "death", "rows": "x = 06[cable: <rare>]"},
     "no seconds of 06[cable: <rare>]: no <cable>"),
])
def test_what_was_not_measured_ends_the_build(
    draw: Draw, name: str, options: dict[str, str], more: dict[str, str],
    why: str,
) -> None:
    with pytest.raises(Exception, match=re.escape(why)):
        draw(name, options, **more)
