"""How many each server held: the picture and the table of the fence."""

import re

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run
from tools.site.figures import DASH


def point(
    server: str, clients: int, answered: int, seconds: float = 10.2,
    reason: str = "", delay: float = 10.0, **extra: float,
) -> Point:
    """A client takes 500 bytes; status: failed if there is a reason."""
    figures = {
        "connections": clients, "descriptors": clients,
        "user_bytes_per_connection": 500.0, **extra,
    }
    return Point(
        server, "hold", clients, delay, reason=reason, end=bool(reason),
        status="failed" if reason else "ok", runs=[Run(
            "command", requests=answered, seconds=seconds, threads=clients,
            extra=figures,
        )],
    )


def test_each_server_has_a_row(committed: Committed, render: Render) -> None:
    full = point(
        "03", 65_536, 19_936, reason="descriptors: no more files",
        connections=19_936, descriptors=19_936,
    )
    full.status = "ok"
    committed.save(
        "hold", full,
        point("02", 100, 2, reason="time: 100 requests & more",
              needed_seconds=1000, watched_seconds=25),
        point("03", 100, 100), point("03", 1000, 1000, 31.0, delay=24.0),
        point("04", 100, 100),
        point("04", 65_536, 7, reason="closed: reset", connections=20_000,
              user_bytes_per_connection=-5.0),
    )
    html = render("```hold\ntitle: How many\ncaption: All of <them>.\n```")
    rows = {
        name: re.findall(r"<td>(.*?)</td>", row)
        for name, row in re.findall(
            r'<tr><th scope="row"><strong>(\w+)</strong>(.*?)</tr>', html
        )
    }
    stop = '<strong class="seven-no">{}</strong><br><small>{}</small>'
    assert rows == {
        "02": [stop.format("time", "2 in 25 s"), DASH, DASH, DASH, "100"],
        "03": [
            "10.2 s", "31.0 s<br><small>--delay 24</small>",
            stop.format("descriptors", "19,936 held"), "500 bytes", "65,536",
        ],
        "04": [
            "10.2 s", DASH, stop.format("closed", "7 of 20,000 answered"),
            DASH, "65,536",
        ],
    }
    assert "at 100, time: 100 requests &amp; more." in html
    assert "All of &lt;them&gt;." in html and html.count("<li>") == 3
    words = re.findall(r"<desc[^>]*>(.*?)</desc>", html)
    assert words == [
        "02 was stopped at 100: time. 03 held 1,000 clients, and was stopped "
        "at 19,936 of 65,536: descriptors. 04 held 100 clients, and was "
        "stopped at 65,536: closed."
    ]
    line = re.findall(r'<g class="seven-line seven-step4">.*?</g>', html)[0]
    assert 'x2="4%"' in line  # at 100, where it held
    crosses = re.findall(r'<svg x="([\d.]+)%"[^>]*><path class="seven-end"',
                         html)
    assert len(crosses) == 3 and 80 < float(crosses[2]) < 85  # at the 20,000
