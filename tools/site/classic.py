"""The classic numbers of this ladder beside ours.

An article of January 2025 measured six of these steps on a small virtual
machine. Its numbers stand here and nowhere else, as ab printed them; ours
come from the reference.
"""

from typing import Any, NamedTuple

from tools.site import elements
from tools.site.fence_call import fence, uid
from tools.site.figures import latency
from tools.site.inline_number import inline

ARTICLE = (
    "https://hassaanbinaslam.github.io/myblog/posts/"
    "2025-01-29-pure-python-web-server.html"
)
OUTPUTS = (
    "https://github.com/hassaanbinaslam/2025-01-29-pure-python-web-server"
)


class Classic(NamedTuple):
    """One server of the article, from its ab_results.txt.

    server: ours of the same kind; rate: requests per second; seconds: the
    whole run of 1,000 requests by 10 clients; the others in ms, of
    connecting (connect) and of connecting and answer together (total):
    mean, median, what two thirds (p66) came within, and the slowest.
    """

    server: str
    called: str
    rate: float
    seconds: float
    connect_mean: float
    connect_median: float
    connect_max: float
    total_mean: float
    total_median: float
    total_p66: float
    total_max: float


CLASSICS = (
    Classic(
        "01", "http.server", 8.74, 114.367, 1, 1, 5, 935, 708, 709, 114262
    ),
    Classic("02", "sockets", 9.96, 100.414, 1, 1, 16, 999, 1004, 1004, 1017),
    Classic("03", "threading", 90.21, 11.085, 5, 1, 20, 109, 103, 115, 140),
    Classic(
        "04", "selectors, blocking sleep", 9.95, 100.484,
        1, 1, 18, 999, 1004, 1005, 1024,
    ),
    Classic(
        "05-threads", "selectors, threading.Timer", 90.31, 11.073,
        4, 1, 21, 110, 104, 114, 154,
    ),
    Classic("06", "asyncio", 82.91, 12.061, 10, 15, 20, 119, 120, 120, 141),
)
HEAD = [
    "Server", "Article, requests/s", "Ours", "Article, connecting",
    "Article, answered", "Ours, answered",
]
CAPTION = (
    "Times: half of the requests within, and the slowest; answered counts "
    "from the beginning of connecting. Article: "
    "<code>ab -n 1000 -c 10</code>, 0.1 s of sleep, Python 3.9, an AWS "
    f't2.micro, the client elsewhere. <a href="{ARTICLE}">The article</a>, '
    f'January 2025, and <a href="{OUTPUTS}">its source with what ab '
    "printed</a>. Ours: the reference."
)


def _row(one: Classic) -> list[str]:
    """A row of the table; the article's rate to the last digit."""
    rate, half, slowest = (
        inline(f"{one.server}.classic.{figure}")
        for figure in ("requests_per_second", "p50", "max")
    )
    return [
        f"<strong>{one.server}</strong><br><small>{one.called}</small>",
        f"{one.rate:.2f}",
        rate,
        f"{latency(one.connect_median)}, {latency(one.connect_max)}",
        f"{latency(one.total_median)}, {latency(one.total_max)}",
        f"{half}, {slowest}",
    ]


def _render(chosen: dict[str, str], md: Any) -> str:
    """The article's table beside the reference."""
    shown = elements.table(
        HEAD, [_row(one) for one in CLASSICS],
        "The article's numbers beside ours", [one.server for one in CLASSICS],
    )
    return elements.figure(uid(md, "classic"), "measured", shown, CAPTION)


classic = fence(_render)
