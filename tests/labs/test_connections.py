"""The lab about more and more connections: its levels, its loads."""

import shutil
import sys
from pathlib import Path

import pytest

from labs.chain import measure as chain
from labs.connections import measure
from tests.marks import Patch
from tests.tools.experiment import run, session
from tools.bench.ab import Load
from tools.bench.experiments import labs
from tools.bench.peers import start
from tools.data.results import Run
from tools.servers import by_name
from tools.site.labs import LOOKS


def test_every_line_has_a_look() -> None:
    assert {*LOOKS} == {*measure.NAMES, "07"}
    assert len({*LOOKS.values()}) == len(LOOKS)
    assert all(by_name(name) for name in LOOKS.values())


def test_a_load_takes_about_its_seconds(tmp_path: Path) -> None:
    one, sizes = session(tmp_path), []
    for clients, rates in ((1, []), (2, [500.0]), (4096, [2000.0])):
        point, work = measure.a_step(one, by_name("07"), clients, rates)
        load: Load = work.args[-1]  # type: ignore[attr-defined]
        assert (point.clients, load.clients) == (clients, clients)
        assert load.seconds == measure.MOST_SECONDS
        sizes.append(load.requests)
    assert sizes == [2000, 1000, 4096]  # each client makes at least one


def test_loads_at_the_same_time_add_up() -> None:
    one = measure.together([
        Run("", 100, 1, seconds=1.0, latency_ms={"min": 1.0, "p99": 5.0}),
        Run("", 300, 2, seconds=2.0, latency_ms={"min": 2.0, "p99": 9.0}),
    ])
    assert (one.requests, one.failed, one.seconds) == (400, 3, 2.0)
    assert one.requests_per_second == 200 and one.error is None
    assert one.latency_ms == {"min": 1.0, "p99": 9.0}
    good, bad = Run("", 1, seconds=1.0), Run("", error="it died")
    assert measure.together([good, bad]).error == "it died"


@pytest.mark.thorough
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("ab"),
    reason="it needs ab, and several addresses on loopback as Linux has them",
)
def test_smoke(tmp_path: Path, monkeypatch: Patch) -> None:
    """As far as this small machine goes; what is missing is skipped."""
    missing = start.missing([chain.PEERS["coroutines"]], print)
    if missing:
        pytest.skip("the environment of the peers cannot be made")
    monkeypatch.setattr(measure, "NAMES", ("coroutines", "node"))
    monkeypatch.setattr(start, "missing", lambda *_: {"node": "no node"})
    monkeypatch.setattr(start, "versions", lambda peers: {})
    monkeypatch.setattr(measure, "SECONDS", 0.1)
    monkeypatch.setattr(measure, "PER_LOAD", 4)
    monkeypatch.setattr(measure, "raise_open_files", lambda wanted: 64 + 8)
    words = "connections", "--connections", "1,8,16", "--repeats", "1"
    status, kept = run(labs, tmp_path, *words)
    assert status == 0
    assert {p.server: p.reason for p in kept.points if p.reason} == {
        "coroutines": "this machine allows a process no more than 72 open "
        "files", "07": "this machine allows a process no more than 72 open "
        "files", "node": "no node",
    }
    for name in ("coroutines", "07"):
        line = kept.suite(measure.SUITE, name)
        assert [(p.clients, p.end) for p in line] == [(1, False), (8, True)]
        (one,) = line[-1].runs
        assert one.command.count("-B 127.0.0.") == 2  # two loads
        assert one.requests >= 8 and one.figure("cpu_ms")
