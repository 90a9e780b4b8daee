"""tools.bench.plan: which points, how long, in which order."""

import itertools

from tools.bench import plan
from tools.bench.ab import Load
from tools.servers import SERVERS, by_name

ALL = list(SERVERS)


def seconds(tasks: list[plan.Task]) -> float:
    return sum(task.seconds * task.repeats for task in tasks)


def test_a_default_run_takes_about_three_minutes() -> None:
    assert seconds(plan.default(ALL, 1, True)) < 240


def test_a_smoke_run_takes_less_than_half_a_minute() -> None:
    servers = [by_name(name) for name in plan.SMOKE]
    assert seconds(plan.smoke(servers, 1)) < 25


def test_a_full_run_takes_about_35_minutes() -> None:
    tasks = plan.default(ALL, 3, True) + plan.syscalls(ALL)
    total = seconds(tasks) + plan.sweep_seconds(len(ALL), 3)
    assert total < 40 * 60


def test_the_classic_run_is_exactly_the_classic_command() -> None:
    for task in plan.classic(ALL, 1):
        words = task.load.command("http://127.0.0.1:8000/", ("ab",))
        assert words[:-1] == ["ab", "-n", "1000", "-c", "10"]
        assert task.delay == 0.1


def test_every_server_is_in_every_suite() -> None:
    tasks = plan.default(ALL, 1, True)
    for _, group in itertools.groupby(tasks, key=lambda t: t.suite):
        assert [t.server for t in group] == ALL


def test_few_new_connections_where_ports_stay_busy() -> None:
    for task in plan.default(ALL, 1, False):
        if not task.load.keep_alive:
            assert isinstance(task.load, Load)
            assert task.load.requests <= plan.PORTS_ELSEWHERE


def test_repeats_are_interleaved() -> None:
    servers = [by_name("03"), by_name("06")]
    tasks = plan.classic(servers, 2)
    order = [(t.server.name, n) for t, n in plan.interleave(tasks)]
    assert order == [("03", 1), ("06", 1), ("03", 2), ("06", 2)]


def test_suites_are_not_mixed() -> None:
    tasks = plan.default([by_name("03")], 2, True)
    order = [t.suite for t, _ in plan.interleave(tasks)]
    assert order == [
        suite
        for suite in ("classic", "many", "raw-new", "raw-keep")
        for _ in range(2)
    ]


def sweep_requests(rate_of: dict[int, float]) -> dict[int, int]:
    """Requests at each number of clients, for a server so fast."""
    rates: list[float] = []
    found = {}
    for clients, rate in rate_of.items():
        task = plan.sweep_task(by_name("03"), clients, 1, rates)
        assert isinstance(task.load, Load)
        found[clients] = task.load.requests
        rates.append(rate)
    return found


def test_a_point_of_the_sweep_takes_the_time_it_should() -> None:
    ideal = {2**n: 9.9 * 2**n for n in range(13)}
    for clients, requests in sweep_requests(ideal).items():
        assert 2.0 <= requests / ideal[clients] <= 4.0


def test_a_blocking_server_does_not_take_minutes() -> None:
    blocking = {2**n: 9.9 for n in range(8)}
    requests = sweep_requests(blocking)
    assert all(n / 9.9 <= plan.SWEEP_LIMIT + 1 for n in requests.values())
    assert requests[64] == 64  # every client once


def test_every_client_makes_the_same_number_of_requests() -> None:
    rates = {1: 10.0, 2: 19.0, 4: 30.0, 8: 31.0, 16: 0.0, 32: 5.0}
    for clients, requests in sweep_requests(rates).items():
        assert requests >= clients
        assert requests % clients == 0


def test_a_sweep_run_has_a_time_limit_beyond_our_patience() -> None:
    task = plan.sweep_task(by_name("01"), 128, 1, [9.9] * 7)
    assert task.load.seconds is not None
    assert 1000 * task.load.seconds > plan.PATIENCE_MS
