"""Numbers in sentences, charts and tables from measured results."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from tests.site.conftest import Render
from tests.site.sample import run
from tools.data.results import Results
from tools.site import data, figures, svg
from tools.site.errors import SiteError

Change = Callable[[Results], None]
BARS = "```bars\nsuite: classic\ntitle: T & t\nservers: 01, 02\nmark: 02\n```"
SWEEP = "```sweep\ntitle: T\nservers: steps\n```"
TABLE = "```abtable\nsuite: classic\nservers: 01, 02\nmark: 02\n```"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("01.classic.requests_per_second", ">10.0</data>"),
        ("03.many.requests_per_second", ">300.0</data>"),
        ("01.classic.share", ">10.0\u00a0%</data>"),
        ("01.sweep@1024.share", ">10.0\u00a0%</data>"),
        ("01.classic.p50", ">1,000\u00a0ms</data>"),
        ("01.classic.cpu_ms", ">0.40\u00a0ms</data>"),
        ("01.classic.threads", ">11</data>"),
        ("01.classic.failures", ">0</data>"),
        ("01.syscalls@50.calls_per_request", ">2.00</data>"),
        (
            "03.classic.requests_per_second / 01.classic.requests_per_second",
            ">3.0</data>",
        ),
        ("machine.cpu", "A &amp; B &lt;CPU&gt;"),
        ("machine.date", "2000-01-02"),
    ],
)
def test_a_number_in_a_sentence(
    reference: Results, render: Render, text: str, shown: str
) -> None:
    html = render(f"It is `#!num {text}` here.")
    assert shown in html and "yours" not in html


def test_the_readers_number_stands_beside(
    own: Results, render: Render
) -> None:
    html = render("`#!num 01.classic.requests_per_second`")
    assert ">10.0</data>" in html
    assert "(yours 5.00)" in html
    # Not measured by the reader: the reference alone.
    assert "yours" not in render("`#!num 01.sweep@1024.share`")


def test_a_failed_point_of_the_reference_ends_the_build(
    reference: Results, change: Change, render: Render
) -> None:
    point = reference.find("02", "classic")
    assert point
    point.runs = [run("02", 10, 1.0)]
    point.runs[0].error = point.reason = "it died"
    point.status = "failed"
    change(reference)
    for text in (BARS, TABLE, "`#!num 02.classic.p50`"):
        with pytest.raises(Exception, match="it died"):
            render(text)


def test_no_reference_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, render: Render
) -> None:
    monkeypatch.setenv("SEVEN_REFERENCE", "/no/such/folder")
    with pytest.raises(Exception, match=r"results\.json cannot be read"):
        render(BARS)


def drawing(html: str) -> ElementTree.Element:
    """The chart in some HTML; it must be well-formed."""
    match = re.search(r'<svg class="seven-svg.*</svg>(?=<|$)', html)
    assert match
    return ElementTree.fromstring(match[0])


def test_bars(reference: Results, render: Render) -> None:
    html = render(BARS)
    chart = drawing(html)
    title, description = chart[0], chart[1]
    assert title.text == "T & t"
    assert "requests per second: 01 10.0; 02 20.0;" in (
        description.text or ""
    )
    labelled = chart.attrib["aria-labelledby"].split()
    assert labelled == [title.attrib["id"], description.attrib["id"]]
    assert "viewBox" not in chart.attrib
    widths = [r.attrib["width"] for r in chart.iter("rect")]
    assert widths == ["10%", "20%"]  # of the possible 100
    assert chart.find(".//rect[@class='seven-mark']") is not None
    assert len(chart.findall(".//line[@class='seven-spread']")) == 6
    assert "A &amp; B &lt;CPU&gt;" in html
    assert "<td>20.0</td><td>18.0</td><td>22.0</td>" in html
    assert "#" not in re.sub("&#x?[0-9a-f]+;", "", html)  # no colours


def test_sweep(reference: Results, change: Change, render: Render) -> None:
    last = reference.find("03", "sweep", 64)
    assert last
    last.end, last.reason = True, "too <slow>"
    reference.points = [
        p for p in reference.points
        if (p.server, p.suite) != ("03", "sweep") or p.clients <= 64
    ]
    change(reference)
    html = render(SWEEP)
    lines = drawing(html).findall(".//g[@class]")
    assert len([g for g in lines if g.findall("line")]) == 7
    assert "<strong>03</strong> ends at 64 clients: too &lt;slow&gt;" in html
    assert html.count('class="seven-end"') == 1
    assert '<th scope="row">4,096</th>' in html


def test_table(own: Results, render: Render) -> None:
    html = render(TABLE)
    assert "<strong>02</strong> this step" in html
    assert html.count('<th scope="row">yours</th>') == 2
    assert "<td>20.0<br><small>18.0 to 22.0</small></td>" in html
    assert "<td>20.0 %</td>" in html
    assert "ab -c 10 http://127.0.0.1:1/" in html
    raw = render(TABLE.replace("classic", "raw-new"))
    assert "Of possible" not in raw


def test_machine_lessons_and_raw(own: Results, render: Render) -> None:
    assert "A &amp; B &lt;CPU&gt;" in render("```machine\n```")
    lessons = render("```lessons\n```")
    assert "a silent client does not hold up the others" in lessons
    assert 'class="seven-up">up to the pool<' in lessons
    raw = render("```raw\nserver: 06\nsuite: raw-keep\n```")
    assert "This is ApacheBench &amp; Co\nraw-keep</code>" in raw


def test_raw_outputs_are_cut_at_the_next_command() -> None:
    text = "$ server\n$ ab 1\none\n\n$ server\n$ ab 2\ntwo\n"
    assert data.first_output(text, "server\nab 1") == (
        "$ server\n$ ab 1\none"
    )
    assert data.first_output(text, "server\nab 2").endswith("two")
    with pytest.raises(SiteError, match="do not hold"):
        data.first_output(text, "ab 3")


@pytest.mark.parametrize(
    ("write", "value", "written"),
    [
        (figures.rate, 9.934, "9.93"),
        (figures.rate, 97.31, "97.3"),
        (figures.rate, 2712.4, "2,712"),
        (figures.percent, 0.99999, "99.9 %"),  # never up to the whole
        (figures.percent, 0.887, "88.7 %"),
        (figures.percent, 1.0, "100.0 %"),
        (figures.milliseconds, 0.216, "0.22 ms"),
        (figures.milliseconds, 1016.4, "1,016 ms"),
        (figures.megabytes, 23_400_000, "23.4 MB"),
        (figures.count, 2.5, "2.5"),
        (figures.times, 9.87, "9.9"),
    ],
)
def test_formats(
    write: Callable[[float], str], value: float, written: str
) -> None:
    assert write(value) == written


def test_ticks() -> None:
    assert svg.ticks(100) == [0, 25, 50, 75, 100]
    assert svg.ticks(0) == [0]
    assert svg.powers(8.5, 41000, 10) == [10, 100, 1000, 10000]


def test_a_chart_longer_than_a_page_says_so() -> None:
    short, tall = (
        svg.chart("id", "Title", "What it shows", height, "", "bars")
        for height in (svg.TALL, svg.TALL + 1)
    )
    assert "seven-svg--tall" not in short
    assert "seven-svg--tall" in tall
