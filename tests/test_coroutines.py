"""06_asyncio/coroutines.py: the loop below the server.

The server on top of it keeps the contract, as the shared tests say.
"""

import heapq
import socket
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from tests.process import load
from tools.servers import ROOT

FILE = ROOT / "06_asyncio" / "coroutines.py"
MOST_LINES = 120  # of code, for the whole of asyncio in miniature
MOST_SERVER = 95  # lines of the server on it, as in step 06
Coroutine = Generator[Any, None, None]


@pytest.fixture
def mini() -> Iterator[Any]:
    """The file as a module of its own, with a fresh loop."""
    module = load(FILE)
    yield module
    module.loop.selector.close()


def run_all(mini: Any, *coroutines: Coroutine) -> None:
    """Run them as tasks, until all are over."""

    def main() -> Coroutine:
        for task in [mini.loop.start(each) for each in coroutines]:
            yield from task

    mini.loop.run(main())


def test_tasks_take_turns_in_order(mini: Any) -> None:
    seen = ["main"]

    def count(name: str) -> Coroutine:
        for number in range(3):
            seen.append(f"{name}{number}")
            yield from mini.sleep(0)

    def main() -> Coroutine:
        tasks = [mini.loop.start(count(name)) for name in "abc"]
        assert seen == ["main"]  # a task that starts does not run at once
        for task in tasks:
            yield from task

    mini.loop.run(main())
    assert " ".join(seen) == "main a0 b0 c0 a1 b1 c1 a2 b2 c2"


def test_sleepers_wake_in_the_order_of_their_moments(mini: Any) -> None:
    woken = []

    def sleeper(seconds: float) -> Coroutine:
        yield from mini.sleep(seconds)
        woken.append(seconds)

    begun = time.monotonic()
    run_all(mini, *map(sleeper, (0.9, 0.1, 0.5)))
    assert woken == [0.1, 0.5, 0.9]
    assert time.monotonic() - begun >= 0.9  # none came too early


def test_equal_moments_keep_their_order(mini: Any) -> None:
    futures = [mini.Future() for _ in range(50)]
    for future in futures:
        mini.loop.set_timer(1.0, future)
    timers = list(mini.loop.timers)
    order = [heapq.heappop(timers)[2] for _ in futures]
    assert order == futures


@pytest.mark.parametrize("error", [None, ValueError("so it goes")])
def test_all_who_wait_for_a_future_go_on(
    mini: Any, error: Exception | None
) -> None:
    future = mini.Future()
    seen: list[Exception | None] = []

    def waits() -> Coroutine:
        try:
            yield from future
        except ValueError as caught:
            seen.append(caught)
        else:
            seen.append(None)

    def main() -> Coroutine:
        tasks = [mini.loop.start(waits()) for _ in range(3)]
        yield from mini.sleep(0)
        assert seen == []
        future.finish(error)
        future.finish()  # over is over: this changes nothing
        yield from waits()  # who comes after the end does not wait
        assert seen == [error]
        for task in tasks:
            yield from task

    mini.loop.run(main())
    assert seen == [error] * 4
    assert future.over and future.error is error


def test_a_task_waits_for_another(
    mini: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """And has its error, which is then nobody else's business."""

    def fails() -> Coroutine:
        yield from mini.sleep(0.01)
        raise KeyError("gone")

    def main() -> Coroutine:
        with pytest.raises(KeyError):
            yield from mini.loop.start(fails())

    mini.loop.run(main())
    assert capsys.readouterr().err == ""


def test_an_error_that_nobody_waits_for_is_shown(
    mini: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Coroutine:
        yield from mini.sleep(0)
        raise ZeroDivisionError("nobody caught me")

    def main() -> Coroutine:
        mini.loop.start(fails())
        yield from mini.sleep(0.02)  # the others go on

    mini.loop.run(main())
    said = capsys.readouterr().err
    assert "Traceback" in said and "nobody caught me" in said
    assert "in fails" in said


def test_a_socket_wakes_who_waits_for_it(mini: Any) -> None:
    ours, theirs = socket.socketpair()
    got = []

    def reads() -> Coroutine:
        yield from mini.ready(ours, mini.READABLE, time.monotonic() + 60)
        got.append(ours.recv(10))

    def main() -> Coroutine:
        task = mini.loop.start(reads())
        yield from mini.sleep(0.01)
        assert got == []
        theirs.sendall(b"now")
        yield from task

    with ours, theirs:
        mini.loop.run(main())
    assert got == [b"now"]
    assert not mini.loop.selector.get_map()  # nothing is left behind


def test_a_deadline_ends_a_wait(mini: Any) -> None:
    ours, theirs = socket.socketpair()
    begun = time.monotonic()

    def main() -> Coroutine:
        with pytest.raises(TimeoutError):
            yield from mini.ready(ours, mini.READABLE, begun + 0.05)
        # The socket can be waited for again.
        yield from mini.ready(ours, mini.WRITABLE, time.monotonic() + 60)

    with ours, theirs:
        mini.loop.run(main())
    assert time.monotonic() - begun >= 0.05
    assert not mini.loop.selector.get_map()


def test_timers_that_are_over_are_dropped(mini: Any) -> None:
    """Ten thousand waits that end in time leave no ten thousand timers."""
    most = 0
    keeps = [mini.Future() for _ in range(10)]
    for number, future in enumerate(keeps):
        mini.loop.set_timer(10.0**9 + number, future)
    for _ in range(10_000):
        future = mini.Future()
        mini.loop.set_timer(10.0**8, future)
        future.finish()
        most = max(most, len(mini.loop.timers))
    assert most <= 2 * (mini.FEW_TIMERS + len(keeps))
    left = [timer[2] for timer in mini.loop.timers]
    assert all(future in left for future in keeps)  # those are not over
    assert min(mini.loop.timers) == mini.loop.timers[0]  # still a heap


def test_many_who_wait_cost_no_turns(mini: Any) -> None:
    """Only those that can go on are looked at."""
    forever = mini.Future()
    steps = 0

    def waits() -> Coroutine:
        nonlocal steps
        steps += 1
        yield from forever
        steps += 1

    def main() -> Coroutine:
        for _ in range(1000):
            mini.loop.start(waits())
        for _ in range(20):
            yield from mini.sleep(0)

    mini.loop.run(main())
    assert steps == 1000


def test_the_loop_is_as_short_as_it_says() -> None:
    lines = FILE.read_text().splitlines()
    first = next(i for i, s in enumerate(lines) if "asyncio in mini" in s
                 and s.startswith("# ---"))
    last = next(i for i, s in enumerate(lines) if s.startswith("# --- The"))
    code = [
        line for line in lines[first:last]
        if line.strip() and not line.strip().startswith("#")
    ]
    assert 60 < len(code) <= MOST_LINES
    end = next(i for i, s in enumerate(lines) if s.startswith("# === "))
    assert end - last <= MOST_SERVER
    assert "asyncio" not in {line.split()[1] for line in lines
                             if line.startswith(("import ", "from "))}
