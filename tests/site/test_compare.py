"""The page Compare as it is built: its controls, data, and what it claims."""

import json
import re
from html import unescape
from typing import Any

import pytest

from tests.site.conftest import Render
from tools.data.results import REFERENCE, STEPS, Results, load
from tools.servers import ROOT, SERVERS
from tools.site import charts, compare, data, figures
from tools.site.classic import CLASSICS, Classic

PAGE = ROOT / "docs" / "compare.md"
BARS = "```bars\nsuite: classic\ntitle: T & t\nfigure: p50\nmark: 02\n```"
ARTICLE = {one.server: one for one in CLASSICS}


def told(html: str, name: str) -> Any:
    """What a figure says to scripts."""
    match = re.search(rf'data-{name}="([^"]*)"', html)
    assert match
    return json.loads(unescape(match[1]))


def embedded(html: str) -> Any:
    match = re.search(
        r'<script type="application/json">(.*?)</script>', html, re.DOTALL
    )
    assert match
    return json.loads(match[1])


# --- The page -------------------------------------------------------------


def test_the_order_of_the_page() -> None:
    """As the reader is promised: sweep first, the numbers to take last."""
    heads = re.findall(r"(?m)^## (.+)$", PAGE.read_text(encoding="utf-8"))
    order = [
        "sweep", "Latency", "CPU", "Memory", "Threads", "System calls",
        "Raw speed", "Computing", "classic", "Take the numbers",
    ]
    found = [
        next(n for n, head in enumerate(heads) if word in head)
        for word in order
    ]
    assert found == sorted(found)


def test_every_server_is_on_the_page_and_in_one_family() -> None:
    presets = compare.presets()
    every = [server.name for server in SERVERS]
    assert presets["all"] == every
    steps, variants = presets["the seven steps"], presets["the variants"]
    assert sorted(steps + variants) == sorted(every) and len(steps) == 7
    families = {name: n for name, n in presets.items() if name not in (
        "all", "the seven steps", "the variants")}
    assert list(families) == [
        "wait one at a time", "threads", "event loops", "many cores"
    ]
    assert sorted(n for f in families.values() for n in f) == sorted(every)
    assert families["wait one at a time"] == ["01", "02", "04"]
    assert "06-executor" in families["threads"]  # its waits are in threads


def test_the_controls(reference: Results, render: Render) -> None:
    html = render("```compare\n```")
    assert 'class="seven-compare-live" hidden' in html
    assert html.count('type="checkbox" checked') == len(SERVERS)
    assert html.count('role="status"') == 2
    field = re.search(r'<input type="file" id="([^"]+)"', html)
    assert field and f'<label for="{field[1]}">' in html
    with pytest.raises(Exception, match="there is no option"):
        render("```compare\nservers: all\n```")


def test_the_rules_are_those_of_the_build(
    reference: Results, render: Render
) -> None:
    rules = embedded(render("```compare\n```"))
    assert rules["own"] is None
    assert rules["row"] == charts.ROW and rules["modes"] == list(STEPS)
    assert rules["shapes"] == {
        str(step): shape for step, shape in charts.SHAPES.items()
    }
    # Every way of writing that a figure of a run can have is known there.
    script = (ROOT / "docs/assets/compare.js").read_text(encoding="utf-8")
    for name in rules["writers"].values():
        assert re.search(rf"(?m)^    {name}: \(v\) =>", script), name
        assert hasattr(figures, name)


def test_the_readers_run_is_embedded_harmlessly(
    own: Results, render: Render
) -> None:
    folder = data.own_folder()
    assert folder is not None
    own.command = "</script><b>"
    own.started = "2000-01-05"
    own.save(folder)
    html = render("```compare\n```")
    assert "</script><b>" not in html
    found = embedded(html)["own"]
    assert found["command"] == "</script><b>"
    assert len(found["points"]) == len(own.points)
    assert found["points"][0]["runs"][0]["requests_per_second"] == 4.5
    assert None not in found["points"][0]["runs"][0].values()


# --- Charts say what they show ----------------------------------------------


def test_bars_say_what_they_show(reference: Results, render: Render) -> None:
    html = render(BARS.replace("mark", "servers: 01, 02\nclients: 10\nmark"))
    bars = told(html, "chart")
    assert bars["title"] == "T & t" and bars["mark"] == "02"
    assert (bars["suite"], bars["clients"]) == ("classic", 10)
    assert [row["server"] for row in bars["rows"]] == ["01", "02"]
    assert bars["rows"][0]["value"] == 1000.0
    assert bars["rows"][0]["spread"] == [10000 / 11, 10000 / 9]
    assert bars["possible"] is None  # of a rate only
    assert html.count('<g data-server="01">') == 1
    assert '<tr data-server="02">' in html


def test_sweeps_and_tables_say_what_they_show(
    reference: Results, render: Render
) -> None:
    sweep = told(render("```sweep\ntitle: T\nservers: 03, 05-heap\n```"),
                 "chart")  # fmt: skip
    assert [each["server"] for each in sweep["lines"]] == ["03", "05-heap"]
    assert [each["variant"] for each in sweep["lines"]] == [False, True]
    first = sweep["lines"][0]["points"][0]
    assert first == {"clients": 1, "delay": 0.1, "rate": 3.0}
    html = render("```abtable\nsuite: raw-new\nservers: 01, 02\n```")
    table = told(html, "table")
    assert table["suite"] == "raw-new" and table["clients"] is None
    assert "share" not in table["columns"]  # nothing is possible there
    assert html.count('<tr data-server="02">') == 1


def test_numbers_say_what_they_are(
    reference: Results, render: Render
) -> None:
    name = "03.classic.p99 / 01.classic.p99"
    assert f'data-num="{name}"' in render(f"`#!num {name}`")
    assert "data-num" not in render("`#!num machine.cores`")


# --- The classic numbers ----------------------------------------------------


def test_the_articles_numbers_fit_each_other() -> None:
    """A typing error would show: a thousand requests over the time taken."""
    assert [one.server for one in CLASSICS] == [
        "01", "02", "03", "04", "05", "06"
    ]
    for one in CLASSICS:
        assert round(1000 / one.seconds, 2) == one.rate
        assert one.connect_median <= one.connect_max <= one.total_max
        assert one.total_median <= one.total_p66 <= one.total_max
        assert one.total_max < 1000 * one.seconds
        # Ten clients cannot have waited longer than the run, together.
        assert one.total_mean * 1000 <= 10 * 1000 * one.seconds


def test_the_table_of_the_article(
    reference: Results, render: Render
) -> None:
    html = render("```classic\n```")
    for one in CLASSICS:
        assert f"<td>{one.rate:.2f}</td>" in html
        assert f'<tr data-server="{one.server}">' in html
    assert "<td>708 ms, 114,262 ms</td>" in html
    assert 'data-num="06.classic.requests_per_second">80.0</data>' in html
    assert "hassaanbinaslam.github.io" in html  # the source is named
    with pytest.raises(Exception, match="there is no option"):
        render("```classic\nservers: all\n```")


def section() -> str:
    """The prose on the classic numbers, in one line."""
    page = PAGE.read_text(encoding="utf-8")
    found = page.split("```classic")[1].split("## Take the numbers")[0]
    return re.sub(r"\s+", " ", found)


def test_what_the_page_says_of_the_article() -> None:
    """Its sentences hold for the numbers of the table."""
    prose = section()
    quick = [one for one in CLASSICS if one.connect_median <= 1]
    assert len(quick) == 5 and "In five of the six runs" in prose
    first, threads, timer = ARTICLE["01"], ARTICLE["03"], ARTICLE["05"]
    assert round(first.total_median / 7) == 101 and "708 ms, seven" in prose
    assert round(first.seconds) == 114 and "the run took 114" in prose
    assert first.total_max > 990 * first.seconds  # nearly all of it
    assert first.connect_max == 5 and "longer than 5 ms" in prose
    assert round(10 / (threads.total_median / 1000)) == 97
    assert "97 a second, not 90" in prose and round(threads.rate) == 90
    assert "within 103 and 104 ms" in prose
    assert (threads.total_median, timer.total_median) == (103, 104)
    for one in (threads, timer):  # a third took 10 ms longer or more
        assert one.total_p66 - one.total_median >= 10
        assert one.connect_max >= 20
    last = ARTICLE["06"]
    assert last.connect_median == 15 and last.total_median == 120
    assert last.total_mean - threads.total_mean == 10
    assert last.connect_mean - threads.connect_mean == 5
    assert f"So {last.rate} against {threads.rate}" in prose
    # One alone and 999 in rounds of ten: 101 delays of 0.1 s.
    assert round(1000 / (101 * 0.1)) == 99 and "99 a second" in prose


def ours(one: Classic, name: str) -> float:
    point = load(REFERENCE).find(one.server, "classic")
    assert point is not None
    return figures.required(point, name)


def test_what_the_page_says_of_ours() -> None:
    """Claims in words about the reference; a new one must keep them."""
    for name in ("02", "04"):  # "no difference"
        one = ARTICLE[name]
        rate = ours(one, "requests_per_second")
        assert rate == pytest.approx(one.rate, rel=0.01)
    assert ours(ARTICLE["01"], "requests_per_second") > 9.8
    for name in ("03", "05", "06"):
        one = ARTICLE[name]
        assert one.rate < ours(one, "requests_per_second") <= 98.1
        assert ours(one, "requests") == 500  # "51 delays"
        assert ours(one, "p50") <= 104  # "close to ours"
    points = load(REFERENCE).suite("syscalls")
    calls = {
        p.server: figures.required(p, "calls_per_request")
        for p in points if p.clients == 50
    }
    assert [name for name, value in calls.items() if value < 1] == ["07"]
    many = load(REFERENCE).suite("many")
    p99 = {p.server: figures.required(p, "p99") for p in many}
    serial = [p99[name] for name in ("01", "02", "04")]
    assert min(serial) > max(v for n, v in p99.items() if n not in (
        "01", "02", "04"))  # fmt: skip


def test_our_servers_ask_for_the_queue_the_page_names() -> None:
    for file in {server.path for server in SERVERS}:
        assert "BACKLOG = 4096" in file.read_text(encoding="utf-8"), file
    assert "a queue of 4,096" in section()
