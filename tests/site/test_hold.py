"""How many each server held: the picture and the table of the fence."""

import re

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run
from tools.site import hold
from tools.site.figures import DASH

FENCE = """\
```hold
title: How many
caption: All of <them>.
```"""


def held(clients: int, seconds: float, **extra: float) -> Run:
    """A run in which all were answered, a client takes 500 bytes."""
    figures = {
        "connections": clients, "answered": clients, "wrong": 0,
        "descriptors": clients, "open_seconds": 0.5,
        "first_answer_seconds": 10.1, "user_bytes_per_connection": 500.0,
    }
    return Run(
        "command", requests=clients, seconds=seconds, threads=clients + 1,
        extra={**figures, **extra},
    )


@pytest.fixture(autouse=True)
def measured(committed: Committed) -> None:
    """A run of five servers, each with another end."""
    few = held(
        100, 20.0, answered=2, descriptors=1, needed_seconds=1000,
        watched_seconds=25,
    )
    late = held(20_000, 90.0)
    late.requests, late.error = 7, "no answer"
    few.requests, few.error, few.threads = 2, "too long", 1
    committed.save(
        "hold",
        Point(
            "02", "hold", 100, 10.0, status="failed", end=True,
            reason="time: 100 requests & more", runs=[few],
        ),
        Point("03", "hold", 100, 10.0, runs=[held(100, 10.2)]),
        Point("03", "hold", 1000, 10.0, runs=[held(1000, 10.9)]),
        Point("03", "hold", 10_000, 24.0, runs=[held(10_000, 31.0)]),
        Point(
            "03", "hold", 65_536, 10.0, status="ok", end=True,
            reason="descriptors: no more than 20,000 open files",
            runs=[held(19_936, 40.0)],
        ),
        Point("04", "hold", 100, 10.0, runs=[held(100, 10.2)]),
        Point(
            "04", "hold", 65_536, 10.0, status="failed", end=True,
            reason="time: no answer", runs=[late],
        ),
        Point(
            "05", "hold", 100, 10.0, status="skipped", end=True,
            reason="memory: too little",
        ),
        Point(
            "07", "hold", 65_536, 30.0, variant="4 workers",
            runs=[held(65_536, 31.4, user_bytes_per_connection=515.06)],
        ),
    )


def cells(html: str, server: str) -> list[str]:
    """The cells of a server in the first table."""
    table = html.split("<tbody>")[1].split("</tbody>")[0]
    for row in table.split("<tr>"):
        if f"<strong>{server}</strong>" in row:
            return re.findall(r"<td>(.*?)</td>", row)
    raise AssertionError(f"no row for {server}")


def test_the_table(render: Render) -> None:
    html = render(FENCE)
    assert cells(html, "02") == [
        '<strong class="seven-no">time</strong><br>'
        "<small>2 in 25 s</small>",
        DASH, DASH, DASH, DASH, "1",
    ]
    assert cells(html, "03") == [
        "10.2 s", "10.9 s", "31.0 s<br><small>--delay 24</small>",
        '<strong class="seven-no">descriptors</strong><br>'
        "<small>19,936 held</small>",
        "500 bytes", "19,937",
    ]
    assert cells(html, "04")[3] == (
        '<strong class="seven-no">time</strong><br>'
        "<small>7 of 20,000 answered</small>"
    )
    assert cells(html, "05")[:2] == [
        '<strong class="seven-no">memory</strong>', DASH
    ]
    not_yet = "<small>not measured</small>"
    assert cells(html, "07") == [
        not_yet, not_yet, not_yet,
        "31.4 s<br><small>--delay 30</small>", "515 bytes", "65,537",
    ]
    assert cells(html, "06") == [not_yet] * 4 + [DASH, DASH]


def test_why_it_ended_and_how_it_was_measured(render: Render) -> None:
    html = render(FENCE)
    assert "at 100, time: 100 requests &amp; more." in html
    assert "All of &lt;them&gt;." in html
    assert "<code>./bench.sh hold</code>, A &amp; B &lt;CPU&gt;, 2" in html
    assert html.count("<li>") == 4  # 02, 03, 04, 05


def test_the_picture_says_the_same(render: Render) -> None:
    html = render(FENCE)
    words = re.findall(r"<desc[^>]*>(.*?)</desc>", html)[0]
    assert "02 was stopped at 100: time." in words
    assert (
        "03 held 10,000 clients, and was stopped at 19,936 of 65,536: "
        "descriptors." in words
    )
    assert "07 held 65,536 clients." in words
    assert "06: not measured." in words
    assert html.count('class="seven-end"') == 4
    drawing = html.split("<svg", 1)[1].split("</svg></figure>")[0]
    assert not re.search(r'(fill|stroke)="#|style=', drawing)


def test_a_line_ends_where_all_were_answered(render: Render) -> None:
    html = render(FENCE)
    line = re.findall(r'<g class="seven-line seven-step4">.*?</g>', html)[0]
    assert 'x2="4%"' in line  # at 100, where it held
    cross = re.findall(
        r'<svg x="([\d.]+)%"[^>]*><path class="seven-end"', html
    )[2]  # of 02 and 03, then of 04
    assert 80 < float(cross) < 85  # at the 20,000 that were tried


def test_memory_below_nothing_is_noise(
    committed: Committed, render: Render
) -> None:
    run = held(1000, 10.1, user_bytes_per_connection=-105.0)
    committed.save("hold", Point("03", "hold", 1000, 10.0, runs=[run]))
    assert cells(render(FENCE), "03")[-2] == DASH


def test_another_reason_fails_the_build(
    committed: Committed, render: Render
) -> None:
    tired = Point("02", "hold", 100, 10.0, reason="it was tired")
    committed.save("hold", tired)
    with pytest.raises(Exception, match="does not begin with one of"):
        render(FENCE)


def test_every_stop_of_the_bench_has_a_meaning() -> None:
    from tools.bench.experiments.hold_ends import KINDS

    assert set(KINDS) == set(hold.STOPS)
