"""Tables and numbers of experiments: runs in folders of docs/data."""

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run

FENCE = """\
```experiment
run: try
suite: scale
figures: cpu_us, requests_per_second, speed_up_times
against: nginx
mark: 07[2 workers]
```"""


def run_of(requests: float, cpu: float, **extra: float) -> Run:
    return Run(
        "command", requests=1000, seconds=1.0, requests_per_second=requests,
        cpu_user=cpu, cpu_system=0.0, extra=extra,
    )


def point(server: str, variant: str, *runs: Run) -> Point:
    return Point(server, "scale", 10, 0.0, variant=variant, runs=list(runs))


@pytest.fixture(autouse=True)
def made(committed: Committed) -> None:
    """A run called "try": nginx, 07 with one and with two workers."""
    missing = point("node", "")
    missing.status = "skipped"
    missing.reason = "node is missing: apt install nodejs"
    committed.save(
        "try",
        point("nginx", "", run_of(2000, 0.005)),
        point("07", "1 worker", run_of(1000, 0.012), run_of(1000, 0.012)),
        point(
            "07", "2 workers",
            run_of(1800, 0.010, speed_up_times=1.8),
            run_of(2000, 0.010, speed_up_times=2.0),
        ),
        missing,
    )


def test_table(render: Render) -> None:
    html = render(FENCE)
    rows = html.split("<tr")[2:]
    # By the first figure; what was not measured comes last, and says why.
    assert "nginx" in rows[0] and "1.00 times" in rows[0]
    assert "2 workers this step" in rows[1]
    assert ">10.0 µs<" in rows[1] and "2.0 times" in rows[1]
    assert "1,900<br><small>1,800 to 2,000</small>" in rows[1]
    assert "1.90<br><small>1.80 to 2.0</small>" in rows[1]
    assert "1 worker" in rows[2]
    assert "apt install nodejs" in rows[3]
    assert "A &amp; B" in html and "Medians of 2 runs" in html


def test_bars(render: Render, committed: Committed) -> None:
    bars = ("```experimentbars\nrun: try\nsuite: scale\nfigure: cpu_us\n"
            "title: CPU\ncaption: See <this>.\n```")
    with pytest.raises(Exception, match="no cpu_us of node"):
        render(bars)
    committed.save("try", point("07", "1 worker", run_of(1000, 0.012)),
                   point("nginx", "", run_of(2000, 0.005)))
    html = render(bars)
    assert "1 worker 12.0 µs; nginx 5.0 µs;" in html
    assert "See &lt;this&gt;. <code>" in html


def test_jitter_and_the_parts_of_the_cpu_time(
    render: Render, committed: Committed
) -> None:
    one = run_of(1000, 0.012)
    one.cpu_system, one.response_bytes = 0.004, 2_000.0
    one.latency_ms = {"mean": 0.512, "stdev": 1.25, "p99": 0.04}
    committed.save("try", point("07", "1 worker", one))
    for name, shown in {
        "cpu_us": "16.0 µs", "cpu_user_ms": "12.0 µs",
        "cpu_system_ms": "4.0 µs", "sent_mb_per_second": "2.0",
        "fine_mean": "0.51 ms", "stdev": "1.25 ms", "fine_p99": "0.040 ms",
    }.items():
        number = render(f"`#!num try:07[1 worker].scale.{name}`")
        assert f">{shown}</data>".replace(" ", "\u00a0") in number, name


def test_rows_in_the_order_asked(render: Render) -> None:
    chosen = FENCE.replace("mark:", "rows: 07[2 workers]; nginx\nmark:")
    html = render(chosen)
    assert html.index("2 workers") < html.index("nginx, return 200")
    assert "node" not in html


@pytest.mark.parametrize(("text", "shown"), [
    ("try:07[2 workers].scale.speed_up_times", ">1.90</data>"),
    ("try:nginx.scale.cpu_us", ">5.0\u00a0µs</data>"),
    ("try:07[2 workers].scale.cpu_us / try:nginx.scale.cpu_us",
     ">2.0</data>"),
])
def test_numbers(render: Render, text: str, shown: str) -> None:
    assert shown in render(f"`#!num {text}`")


@pytest.mark.parametrize(("old", "new", "why"), [
    ("run: try", "run: none", "cannot be read"),
    ("suite: scale", "suite: hold", "has no points in hold"),
    ("against: nginx", "against: apache", "points are apache"),
    ("against: nginx", "against: 07", "0 points are 07 in scale"),
    ("cpu_us,", "cpu_ns,", "no figure is called 'cpu_ns'"),
])
def test_mistakes(render: Render, old: str, new: str, why: str) -> None:
    with pytest.raises(Exception, match=why):
        render(FENCE.replace(old, new))
