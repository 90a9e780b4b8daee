"""``./bench.sh hosts``: restart, death and seen, apart from their runs."""

import struct
import time
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.tools.test_hosts import haproxy as haproxy
from tools.bench.hosts import death, restart, seen
from tools.bench.hosts.load import Plan
from tools.bench.hosts.lost import CAUSES, causes
from tools.bench.hosts.rig import Answers, Case, Load, Rig
from tools.bench.hosts.tap import Tap


def tap(*requests: tuple[int, int, int]) -> Tap:
    """One that saw these: number, port, sequence number."""
    one = Tap()
    for number, port, at in requests:
        one.seen.add((number, struct.pack("!HHI", port, 8000, at % 2**32)))
    return one


def rig(*taps: Tap, first: int = 0, **more: Any) -> Rig:
    """A rig with these taps, as far as the causes need one."""
    return cast(Rig, SimpleNamespace(
        cabled=bool(taps), hosts=[SimpleNamespace(tap=t) for t in taps],
        numbers=range(first, first + 100), **more,
    ))  # fmt: skip


def lost(*seconds: float) -> Answers:
    """A request that was answered, and then lost ones."""
    rows = [(0.1 * n, s, "502", "", 1) for n, s in enumerate(seconds, 1)]
    return Answers([(0.0, 0.1, "ok", "h1", 1), *rows])


def found(rig: Rig, responses: Answers) -> dict[str, float]:
    """The causes that there are."""
    return {
        name: many for name in CAUSES
        if (many := causes(rig, responses)[f"cause_{name}"])
    }  # fmt: skip


@pytest.mark.parametrize(("taps", "cause"), [
    ([tap((1, 5000, 1))], "unsent"),  # that was of another load
    ([tap((41, 5000, 1))], "new"),
    ([tap((40, 5000, 1), (41, 5000, 90))], "kept"),
    ([tap((40, 5000, 2**32 - 9), (41, 5000, 80))], "kept"),
    ([tap((41, 5000, 90), (40, 5000, 180))], "new"),  # it was the first
    ([tap((40, 5001, 1), (41, 5000, 90))], "new"),  # another connection
    ([tap((40, 5000, 1)), tap((41, 5000, 90))], "new"),  # another host
    ([tap((41, 5000, 1)), tap((40, 5001, 1), (41, 5001, 90))], "kept"),
])
def test_why_a_request_was_lost(taps: Sequence[Tap], cause: str) -> None:
    one = rig(*taps, first=40)
    assert found(one, lost(0.2)) == {cause: 1}
    slow = "unsent" if cause == "unsent" else "hung"
    assert found(one, lost(3.0)) == {slow: 1}


def test_each_lost_request_has_one_cause() -> None:
    one = rig(tap((1, 5000, 1), (2, 5000, 90), (3, 5001, 1)))
    assert found(one, lost(0.1, 0.1, 9.0, 0.1)) == {
        "new": 1, "kept": 1, "hung": 1, "unsent": 1,
    }  # fmt: skip
    assert not causes(rig(), lost(0.1))  # no cable: nobody has seen it


def test_when_a_host_was_out() -> None:
    """Of all that went down the last host counts, from the event on."""
    now = time.time()
    responses = Answers([
        (2.9, 0.1, "ok", "h1", 1), (3.0, 0.1, "503", "", 1),
        (3.5, 0.1, "503", "", 1), (4.0, 0.1, "ok", "h1", 1),
    ])
    load = SimpleNamespace(wall=now, result=lambda: responses)
    downs = {"h": [now + 2.5, now + 3.6], "h3": [now + 3.6]}
    balancer = SimpleNamespace(
        downs=lambda host="h": downs[host],
        notices=[(now, "backend hosts has no server available!")],
    )
    one = rig(tap((2, 5000, 1)), balancer=balancer)
    one.hosts[-1].name = "h3"
    extra = death.measured(one, cast(Load, load), now + 3.0).extra
    assert extra == pytest.approx({
        "times_out": 2, "times_all_out": 1, "out_seconds": 0.6,
        "last_lost_seconds": 0.5, "cause_unsent": 1, "cause_new": 1,
        "cause_kept": 0, "cause_hung": 0,
    }, abs=0.02)  # fmt: skip


def test_what_is_restarted() -> None:
    """Every server, with new connections and, if it keeps any, kept ones."""
    names = {case.server for case in restart.cases(smoke=False)}
    assert names == {"02", "03", "04", "05", "06", "07"}
    for case in restart.cases(smoke=False):
        ducks = "--lame-duck" in case.options
        ways = restart.DUCKS if ducks else restart.SETTINGS
        kept = [one.keep for one in case.all]
        assert kept.count(False) == len(ways)
        assert kept.count(True) == (case.server != "02") * len(ways)
        assert len({one.seed for one in case.all}) == len(case.all)


def test_a_lame_duck_is_out_before_it_stops() -> None:
    """By what the check says; and the slow one cannot know in time."""
    def out_after(check: str) -> float:
        words = check.split()
        seconds = {"500ms": 0.5, "2s": 2.0}[words[words.index("inter") + 1]]
        return seconds * int(words[words.index("fall") + 1])

    quick, slow = (out_after(one.check) for one in restart.DUCKS.values())
    assert quick < restart.DUCK < slow


def test_bursts_of_idle_clients() -> None:
    """Each begins when the connections of the one before are so old."""
    later = (0.0, 0.02)
    phases = seen.bursts(1.6, 30, later)
    due = list(Plan("", 0, phases, seed=0).due())
    begins = [b for a, b in pairwise(due) if b - a > 1]
    assert begins == pytest.approx([1.6, 1.6 + 5.0, 1.6 + 10.02])
    assert len(due) == 3 * 30 + 3  # and one as each pause begins
    assert due[-1] - begins[-1] < 30 / seen.BURST_RATE


def test_what_a_server_is_told(haproxy: str) -> None:
    case = Case(server="06", variant=seen.TOLD, phases=())
    told = seen.heads(Rig(case, cabled=False))
    assert list(told) == list(seen.WAYS)
    assert "forwarded" not in told["nothing"]
    field = "x-forwarded-for: "
    claimed = told["X-Forwarded-For, and a claim"]
    assert told["X-Forwarded-For"].count(f"{field}127.0.0.1\r\n") == 1
    # The balancer adds its own below it: only that can be trusted.
    assert claimed.index(f"{field}198.51.100.1") < claimed.index(
        f"{field}127.0.0.1"
    )
    assert told["PROXY line"].startswith("PROXY TCP4 127.0.0.1 127.0.0.1 ")
    assert told["PROXY line"].endswith("\r\n\r\n")
