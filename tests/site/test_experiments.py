"""Tables and numbers of experiments: runs in folders of docs/data."""

from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data.results import Machine, Point, Results, Run
from tools.site import experiments
from tools.site.errors import SiteError

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


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """A run called "try": nginx, 07 with one and with two workers."""
    monkeypatch.setattr(experiments, "DATA", tmp_path)
    results = Results(
        command="./bench.sh try", mode="try", started="2000-01-02T03:04:05",
        commit="c", tools={},
        machine=Machine("A & B", 2, 1, "Linux 6", "CPython 3.11.7", 1000),
        points=[
            Point("nginx", "scale", 10, 0.0, runs=[run_of(2000, 0.005)]),
            Point(
                "07", "scale", 10, 0.0, variant="1 worker",
                runs=[run_of(1000, 0.012), run_of(1000, 0.012)],
            ),
            Point(
                "07", "scale", 10, 0.0, variant="2 workers",
                runs=[
                    run_of(1800, 0.010, speed_up_times=1.8),
                    run_of(2000, 0.010, speed_up_times=2.0),
                ],
            ),
            Point(
                "node", "scale", 10, 0.0, status="skipped",
                reason="node is missing: apt install nodejs",
            ),
        ],
    )
    results.save(tmp_path / "try")
    return results


def test_table(experiment: Results, render: Render) -> None:
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


def test_rows_in_the_order_asked(
    experiment: Results, render: Render
) -> None:
    chosen = FENCE.replace("mark:", "rows: 07[2 workers]; nginx\nmark:")
    html = render(chosen)
    assert html.index("2 workers") < html.index("nginx, return 200")
    assert "node" not in html


def test_numbers(experiment: Results, render: Render) -> None:
    text = "`#!num try:07[2 workers].scale.speed_up_times`"
    assert ">1.90</data>" in render(text)
    assert ">5.0\u00a0µs</data>" in render("`#!num try:nginx.scale.cpu_us`")
    assert ">2.0</data>" in render(
        "`#!num try:07[2 workers].scale.cpu_us / try:nginx.scale.cpu_us`"
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("run: try", "run: none", "cannot be read"),
        ("suite: scale", "suite: hold", "has no points in hold"),
        ("against: nginx", "against: apache", "points are apache"),
        ("cpu_us,", "cpu_ns,", "no figure is called 'cpu_ns'"),
    ],
)
def test_mistakes(
    experiment: Results, old: str, new: str, why: str
) -> None:
    text = FENCE.replace(old, new)
    fields = dict(
        line.split(": ", 1) for line in text.splitlines() if ": " in line
    )
    shown = experiments.Shown(
        tuple(f.strip() for f in fields["figures"].split(",")),
        fields["against"],
    )
    with pytest.raises(SiteError, match=why):
        experiments.show(fields["run"], fields["suite"], None, shown)


def test_a_number_that_is_not_there(experiment: Results) -> None:
    with pytest.raises(SiteError, match="0 points are 07"):
        experiments.find("try", "07", "scale", None)
