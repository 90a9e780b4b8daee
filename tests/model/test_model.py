"""The model: against the measurements and against theory."""

import math
import statistics

import pytest

from tools.data.results import Point, load
from tools.model import model
from tools.model.model import Shape
from tools.servers import ROOT, SERVERS, Server

SWEEP = load(ROOT / "docs" / "data" / "reference" / "results.json")


def measured(server: Server) -> list[Point]:
    """The points of its sweep that have a rate."""
    points = SWEEP.suite("sweep", server.name)
    return [p for p in points if p.median("requests_per_second")]


@pytest.mark.parametrize("each", SERVERS, ids=lambda each: each.name)
def test_every_measured_point(each: Server) -> None:
    found = model.misses(SWEEP, each)
    assert len(found) == len(measured(each))
    assert max(abs(miss) for miss in found.values()) < 0.4


def test_all_measured_points() -> None:
    misses = sorted(
        abs(miss) for server in SERVERS
        for miss in model.misses(SWEEP, server).values()
    )
    assert statistics.median(misses) < 0.035
    assert sum(miss < 0.1 for miss in misses) > 0.8 * len(misses)
    assert sum(miss < 0.25 for miss in misses) > 0.95 * len(misses)


# Rates and times of queues: Kleinrock, Queueing Systems, volume 1 (1975).


def erlang_c(cores: int, busy: float) -> float:
    """How likely it is that a request has to wait for a core (M/M/c)."""
    terms = [busy**n / math.factorial(n) for n in range(cores)]
    last = busy**cores / math.factorial(cores) * cores / (cores - busy)
    return last / (sum(terms) + last)


@pytest.mark.parametrize(("cores", "part", "chance"), [
    (1, 0.5, True), (1, 0.8, True), (2, 0.6, True), (4, 0.8, True),
    (1, 0.5, False), (1, 0.8, False),
])
def test_queues_of_theory(cores: int, part: float, chance: bool) -> None:
    compute, wait = 0.001, 0.01
    rate = part * cores / compute
    requests = model.simulate(
        Shape(0, cores), wait, compute, 400_000 / rate, rate=rate,
        seed=5 if chance else 0,
    )
    done = [each for each in requests if each.done < math.inf]
    stays = statistics.fmean(each.done - each.sent for each in done)
    waits = erlang_c(cores, part * cores) * compute / (cores * (1 - part))
    if not chance:  # M/D/1 waits half as long
        waits /= 2
    assert stays == pytest.approx(wait + compute + waits, rel=0.01)
    # Little's law.
    at_once = sum(each.done - each.sent for each in done)
    at_once /= max(each.done for each in done)
    assert at_once == pytest.approx(rate * stays, rel=0.01)


@pytest.mark.parametrize(("how", "clients", "full"), [
    (Shape(1), 1, "threads"), (Shape(1), 100, "threads"),
    (Shape(10), 9, ""), (Shape(10), 100, "threads"),
    (Shape(), 10, ""), (Shape(), 1000, "cores"), (Shape(0, 4), 300, ""),
    (Shape(0, 4), 4000, "cores"),
])
def test_events_agree_with_the_curves(
    how: Shape, clients: int, full: str
) -> None:
    wait, compute = 0.1, 0.001
    rate = model.closed(how, wait, compute, clients)[-1]
    requests = model.simulate(how, wait, compute, 30, clients)
    late = [each for each in requests if 10 < each.done <= 30]
    # All clients begin at the same moment, and stay in step.
    assert len(late) / 20 == pytest.approx(rate, rel=0.12)
    assert rate <= model.most_rate(how, wait, compute) * (1 + 1e-9)
    assert model.fullest(how, wait, compute, rate) == full
