"""The charts of the lab about a database."""

import re

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run

FENCE = """\
```database
show: {}
suite: db-sleep
title: Answers & more
{}
```"""


def point(server: str, variant: str, clients: int, *rates: float) -> Point:
    runs = [
        Run(
            "command", requests_per_second=rate, latency_ms={"p99": 2 * rate},
            extra={"connections": 10.0},
        )
        for rate in rates
    ]
    return Point(server, "db-sleep", clients, 0.1, variant=variant, runs=runs)


@pytest.fixture(autouse=True)
def lab(committed: Committed) -> None:
    committed.save(
        "labs-database",
        point("03", "one a request", 1, 9.0),
        point("03", "one a request", 100, 300.0),
        point("03", "10 connections", 1, 8.0),
        point("06-async", "10 connections", 1, 9.5),
        point("06-async", "10 connections", 100, 90.0, 100.0, 95.0),
    )


def test_a_line_for_each_handler_and_pool(render: Render) -> None:
    html = render(FENCE.format("lines", ""))
    assert "03, one reaches 300.0 requests per second at 100" in html
    assert "03, 10 reaches 8.00 requests per second at 1 clients" in html
    assert "06-async reaches 95.0 requests per second" in html
    assert "seven-line seven-step3" in html and "seven-step6" in html
    assert "Medians of 3 runs" in html and "Answers &amp; more" in html


def test_a_table_over_the_clients(render: Render) -> None:
    html = render(FENCE.format("table", "figure: p99"))
    cells = re.findall(r"<t[hd](?: [^>]*)?>(?:<strong>)?([^<]*)", html)
    assert cells[:3] == ["Handler", "1 client", "100 clients"]
    assert cells[3:6] == ["03, one a request", "18 ms", "600 ms"]
    assert cells[9:12] == ["06-async, 10 connections", "19 ms", "190 ms"]


def test_bars_with_so_many_clients(render: Render) -> None:
    html = render(
        FENCE.format("bars", "figure: connections\nclients: 100")
    )
    assert html.count('class="seven-bar"') == 2
    assert "connections at once" in html and ">10</text>" in html


@pytest.mark.parametrize(("words", "says"), [
    (("circles", ""), "show is one of lines, table, bars, not 'circles'"),
    (("bars", "clients: 7"), "no points in db-sleep"),
    (("bars", "figure: gap_seconds"), "has no gap_seconds"),
])
def test_a_mistake_ends_the_build(
    words: tuple[str, str], says: str, render: Render
) -> None:
    with pytest.raises(Exception, match=says):
        render(FENCE.format(*words))
