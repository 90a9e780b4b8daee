"""tools.bench.plan: which points, how long, in which order."""

import pytest

from tools.bench import plan, wrk
from tools.bench.ab import Load
from tools.peers import select
from tools.servers import SERVERS, SKETCHES, by_name

ALL = list(SERVERS)
FEW = [by_name("03-pool"), by_name("07")]


def of_peers() -> list[plan.Task]:
    return plan.peers(select("nginx"), FEW)


def test_the_classic_run_is_exactly_the_classic_command() -> None:
    tasks = plan.suites("classic", ALL, SKETCHES)
    assert [task.server for task in tasks] == [*ALL, *SKETCHES]
    for task in tasks:
        words = task.load.command("http://127.0.0.1:8000/", ("ab",))
        assert words[:-1] == ["ab", "-n", "1000", "-c", "10"]
        assert task.delay == 0.1


def test_every_server_is_in_every_suite_and_sketches_in_one() -> None:
    tasks = plan.suites("default", FEW, SKETCHES)
    assert [(t.suite, t.server) for t in tasks] == [
        ("classic", server) for server in (*FEW, *SKETCHES)
    ] + [
        (suite, server)
        for suite in ("many", "raw-new", "raw-keep") for server in FEW
    ]
    assert [(t.suite, t.server.name) for t in of_peers()] == [
        (suite, name)
        for suite in ("peer-keep", "peer-differ", "peer-new")
        for name in ("nginx", "03-pool", "07", "07")
    ]


def test_a_serial_server_makes_the_same_rounds_each_time() -> None:
    for task in plan.suites("full", ALL):
        serial = task.suite == "classic" and task.server.name in (
            "01", "02", "04"
        )
        assert (task.load == plan.SERIAL) == serial
    assert plan.SERIAL.requests % plan.SERIAL.clients == 0


def test_few_new_connections_where_ports_stay_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "MOST_NEW", plan.PORTS_ELSEWHERE)
    for task in (*plan.suites("default", ALL), *of_peers()):
        if not task.load.keep_alive:
            assert isinstance(task.load, Load)
            assert task.load.requests <= plan.PORTS_ELSEWHERE


def test_peers_have_one_worker_and_wrk_keeps_connections() -> None:
    for task in of_peers():
        assert (task.delay, task.load.clients) == (0.0, 100)
        if task.server.name == "07":  # and beside it with two
            assert task.options == ("--workers", task.variant[0])
        else:
            assert task.options == ()
        kept = task.suite != "peer-new"  # ab makes new ones
        assert isinstance(task.load, wrk.Load) == kept
        assert task.load.keep_alive == kept
        differ = isinstance(task.load, wrk.Load) and task.load.differ
        assert differ == (task.suite == "peer-differ")


def sweep_requests(rate_of: dict[int, float]) -> dict[int, int]:
    """Requests at each number of clients, for a server so fast."""
    rates: list[float] = []
    found = {}
    for clients, rate in rate_of.items():
        load = plan.sweep_task(by_name("03"), clients, rates).load
        assert isinstance(load, Load)
        # It has a limit beyond our patience.
        assert 1000 * (load.seconds or 0) > plan.PATIENCE_MS
        # Every client makes the same number of requests.
        assert load.requests >= clients
        assert load.requests % clients == 0
        found[clients] = load.requests
        rates.append(rate)
    return found


def test_a_point_of_the_sweep_takes_the_time_it_should() -> None:
    ideal = {2**n: 9.9 * 2**n for n in range(13)}
    for clients, requests in sweep_requests(ideal).items():
        assert 2.0 <= requests / ideal[clients] <= 4.0
    blocking = sweep_requests({2**n: 9.9 for n in range(8)})
    assert all(n / 9.9 <= plan.SWEEP_LIMIT + 1 for n in blocking.values())
    assert blocking[64] == 64  # every client once
    sweep_requests({1: 10.0, 2: 19.0, 4: 30.0, 8: 31.0, 16: 0.0, 32: 5.0})
