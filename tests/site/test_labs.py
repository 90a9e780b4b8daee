"""The fences of the labs, drawn from runs that are made here."""

import json
import re

import pytest

from labs.hosts import experiments
from tests.site.conftest import Render
from tests.site.sample import Committed
from tests.site.test_golden import GOLDEN, compare
from tools.data.results import Point, Run
from tools.servers import ROOT

TWO, HUGE = "newest, two processes", "newest, two processes, huge pages"


def point(
    suite: str, server: str, variant: str, *figures: float, name: str = "",
    clients: int = 1, reason: str = "", **more: float,
) -> Point:
    """A point with a run for each of the figures of this name."""
    runs = [Run("command", extra={name: each, **more}) for each in figures]
    return Point(
        server, suite, clients, 0.1, variant=variant, runs=runs,
        status="skipped" if reason else "ok", reason=reason,
    )


def frames() -> list[Point]:
    missing = "no <splice> here"
    return [
        point("labs-frames", "splice", HUGE, reason=missing),
        *(
            point("labs-frames", server, variant, *rates,
                  name="mb_per_second")
            for server, variant, *rates in (
                ("streams", TWO, 100, 300, 200), ("streams", HUGE, 400, 600),
                ("streams", "oldest, two processes", 50),
                ("sock", TWO, 1000), ("C-recv", "C, two processes", 2000),
                ("streams", "newest, one process", 40),
            )
        ),
        point("labs-frames", "splice", TWO, reason=missing),
    ]


def gil() -> list[Point]:
    bad = point("labs-gil", "3.8", "1 CPU", reason="it does not run")
    return [
        bad,
        *(
            point("labs-gil", server, cpus, *rates, gil=free,
                  name="lock_hog_per_second")
            for server, cpus, free, *rates in (
                ("2.7", "1 CPU", 1, 8000, 9000, 10000),
                ("2.7", "2 CPUs", 1, 4000, 4000, 4000),
                ("3.99t", "1 CPU", 0, 2000), ("3.99t", "2 CPUs", 0, 20000),
            )
        ),
    ]


def database() -> list[Point]:
    return [
        Point(server, "db-sleep", clients, 0.1, variant=pool, runs=[
            Run("command", requests_per_second=rate, extra={
                "connections": 10.0}, latency_ms={"p99": 2 * rate})
            for rate in rates
        ])
        for server, pool, clients, *rates in (
            ("03", "one a request", 1, 9.0),
            ("03", "one a request", 100, 300.0),
            ("03", "10 connections", 1, 8.0),
            ("06-async", "10 connections", 1, 9.5),
            ("06-async", "10 connections", 100, 90.0, 100.0, 95.0),
        )
    ]


def hosts() -> list[Point]:
    lost = {"kill: often": 4, "cable: often": 8, "kill: <rare>": 20,
            "kill: once": 1}
    good = {"none": [100.0, 50.0, 0.0], "a bound": [100.0, 150.0, 100.0]}
    return [
        point("hosts-death", "06", "cable: <rare>", reason="no <cable>"),
        *(Point("06", "hosts-death", 0, 0.1, variant=name,
                runs=[Run("c", failed=many)]) for name, many in lost.items()),
        *(Point("03-pool", "hosts-storm", 0, 0.1, variant=name, runs=[
            Run("c", series={"sent": [100.0, 200.0, 100.0], "good": each}),
        ]) for name, each in good.items()),
    ]  # fmt: skip


def inside() -> list[Point]:
    return [
        Point(name, "labs-inside", 6, 10.0, runs=[Run("command", texts={
            "ss": f"$ ss <{name}>\nLISTEN", "ps": "PID",  # there was no py-spy
        })])
        for name in ("02", "06")
    ]


def hold() -> list[Point]:
    """Servers that held all clients, some of them, or none."""
    points = []
    for server, clients, answered, seconds, delay, reason, more in (
        ("02", 100, 2, 10.2, 10.0, "time: 100 requests & more",
         {"watched_seconds": 25}),
        ("03", 100, 100, 10.2, 10.0, "", {}),
        ("03", 1000, 1000, 31.0, 24.0, "", {}),
        ("03", 65_536, 19_936, 10.2, 10.0, "descriptors: no more files",
         {"connections": 19_936, "descriptors": 19_936}),
        ("04", 100, 100, 10.2, 10.0, "", {}),
        ("04", 65_536, 7, 10.2, 10.0, "closed: reset",
         {"connections": 20_000, "user_bytes_per_connection": -5.0}),
    ):
        some = {"connections": clients, "descriptors": clients,
                "user_bytes_per_connection": 500.0, **more}
        points.append(Point(
            server, "hold", clients, delay, reason=reason, end=bool(reason),
            status="failed" if reason and answered < 100 else "ok",
            runs=[Run("command", requests=answered, seconds=seconds,
                      threads=clients, extra=some)],
        ))
    return points


@pytest.fixture(autouse=True)
def runs(committed: Committed) -> None:
    folder = committed.save("labs-frames", *frames())
    found = {"newest, one process": {"streams": [["<b>.x", 0.5], ["y", 0.25]]}}
    (folder / "profile.json").write_text(json.dumps(found))
    committed.save("labs-gil", *gil())
    committed.save("labs-database", *database())
    committed.save("labs-inside", *inside())
    committed.save("hosts", *hosts())
    committed.save("hold", *hold())


def test_golden(render: Render, pytestconfig: pytest.Config) -> None:
    html = render((GOLDEN / "labs.md").read_text("utf-8"))
    compare("labs", html, pytestconfig)


FRAMES = "frames\ntitle: T\nshape: {}\npart: {}"
PROFILE = "frames\ntitle: T\nshape: one\nshow: profile\npart: {}"
BARS = "database\ntitle: T\nshow: bars\nsuite: db-sleep\n{}"
HOSTS = "hosts\ntitle: T\nfigure: failed\npart: {}\nrows: {}"
SECONDS = "hosts\ntitle: T\nshow: seconds\npart: {}\nrows: {}"


@pytest.mark.parametrize(("fence", "why"), [
    (FRAMES.format("two", "last"), "nothing in 'last, two processes'"),
    (FRAMES.format("two", "newest\nvariants: sand"), "of sand"),
    (PROFILE.format("oldest"), "in 'oldest, one process'"),
    (PROFILE.format("newest\nvariants: sock"), "no 'sock'"),
    ("gil\ntitle: T\nfigure: answer_ms", "no answer_ms"),
    (BARS.format("clients: 7"), "no points in db-sleep"),
    (BARS.format("figure: gap_seconds"), "has no gap_seconds"),
    (HOSTS.format("death", "x = 06[often]"), "0 points are 06[often]"),
    (HOSTS.format("slow", "x = 06[often]"), "points in hosts-slow"),
    (SECONDS.format("death", "x = 06[kill: often]"),
     "no seconds of 06[kill: often]: measure again"),
    (SECONDS.format("death", "x = 06[cable: <rare>]"),
     "no seconds of 06[cable: <rare>]: no <cable>"),
])
def test_what_was_not_measured_ends_the_build(
    render: Render, fence: str, why: str
) -> None:
    with pytest.raises(Exception, match=re.escape(why)):
        render(f"```{fence}\n```")


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
