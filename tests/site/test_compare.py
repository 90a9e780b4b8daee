"""The page Compare as it is built: its controls, and what it claims."""

import re

import pytest

from tests.site.conftest import Render
from tests.site.sample import rate_of
from tools.data.results import REFERENCE, Results, load
from tools.servers import ROOT, SERVERS
from tools.site import compare, figures
from tools.site.classic import CLASSICS, Classic

PAGE = ROOT / "docs" / "compare.md"
ARTICLE = {one.server: one for one in CLASSICS}


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


def test_every_server_is_in_one_family() -> None:
    presets = compare.presets()
    every = sorted(server.name for server in SERVERS)
    assert sorted(presets.pop("all")) == every
    steps, variants = presets.pop("the seven steps"), presets.pop(
        "the variants")  # fmt: skip
    assert sorted(steps + variants) == every and len(steps) == 7
    assert list(presets) == [
        "wait one at a time", "threads", "event loops", "many cores"
    ]
    assert sorted(n for names in presets.values() for n in names) == every
    assert presets["wait one at a time"] == ["01", "02", "04"]
    assert "06-executor" in presets["threads"]  # its waits are in threads


def test_the_controls(reference: Results, render: Render) -> None:
    html = render("```compare\n```")
    assert 'class="seven-compare-live" hidden' in html
    assert html.count('type="checkbox" checked') == len(SERVERS)
    assert html.count('role="status"') == 1


# --- The classic numbers ----------------------------------------------------


def test_the_articles_numbers_fit_each_other() -> None:
    """A typing error would show: a thousand requests over the time taken."""
    assert [one.server for one in CLASSICS] == [
        "01", "02", "03", "04", "05-threads", "06"
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
    rate = rate_of("06", 10)
    assert f'value="{rate}">{rate:.1f}</data>' in html
    assert "hassaanbinaslam.github.io" in html  # the source is named


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
    first, threads, timer = ARTICLE["01"], ARTICLE["03"], ARTICLE["05-threads"]
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
    for name in ("03", "05-threads", "06"):
        one = ARTICLE[name]
        assert one.rate < ours(one, "requests_per_second") <= 98.1
        assert ours(one, "requests") == 500  # "51 delays"
        assert ours(one, "p50") <= 104  # "close to ours"
    calls = of_all("syscalls", "calls_per_request", 50)
    assert [name for name, value in calls.items() if value < 1] == ["07"]
    p99 = of_all("many", "p99", 100)
    serial = [p99.pop(name) for name in ("01", "02", "04")]
    assert min(serial) > max(p99.values())


def of_all(suite: str, name: str, clients: int) -> dict[str, float]:
    return {
        point.server: figures.required(point, name)
        for point in load(REFERENCE).suite(suite)
        if point.clients == clients
    }


def test_our_servers_ask_for_the_queue_the_page_names() -> None:
    for folder in {server.path.parent for server in SERVERS}:
        text = (folder / "web.py").read_text(encoding="utf-8")
        assert "BACKLOG = 4096" in text, folder
    assert "a queue of 4,096" in section()
