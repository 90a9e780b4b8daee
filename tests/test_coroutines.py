"""06_asyncio/coroutines.py: the loop below the server.

The server on top of it keeps the contract, as the shared tests say.
"""

import functools
import heapq
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pytest

from tests.marks import Said
from tests.process import load
from tests.test_house import imports
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
    assert not module.loop.selector.get_map(), "a socket is left behind"
    module.loop.selector.close()


def on_the_loop(test: Callable[..., Coroutine]) -> Callable[..., None]:
    """A test that is a coroutine itself: it runs as a task."""

    @functools.wraps(test)
    def run(mini: Any, **others: Any) -> None:
        task = mini.loop.start(test(mini, **others))
        mini.loop.run(iter(task))  # who waits for it
        if task.error:
            raise task.error

    return run


def all_of(mini: Any, coroutines: Iterable[Coroutine]) -> Coroutine:
    """Start them all, and wait until they are over."""
    for task in [mini.loop.start(each) for each in coroutines]:
        yield from task


@on_the_loop
def test_tasks_take_turns_in_order(mini: Any) -> Coroutine:
    seen = []

    def count(name: str) -> Coroutine:
        for number in range(3):
            seen.append(f"{name}{number}")
            yield from mini.sleep(0)

    tasks = [mini.loop.start(count(name)) for name in "abc"]
    assert seen == []  # a task that starts does not run at once
    for task in tasks:
        yield from task
    assert " ".join(seen) == "a0 b0 c0 a1 b1 c1 a2 b2 c2"


@on_the_loop
def test_sleepers_wake_in_the_order_of_their_moments(mini: Any) -> Coroutine:
    woken = []

    def sleeper(seconds: float) -> Coroutine:
        yield from mini.sleep(seconds)
        woken.append(seconds)

    begun = time.monotonic()
    yield from all_of(mini, map(sleeper, (0.9, 0.1, 0.5)))
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
@on_the_loop
def test_all_who_wait_for_a_future_go_on(
    mini: Any, error: Exception | None
) -> Coroutine:
    future = mini.Future()
    seen: list[Exception | None] = []

    def waits() -> Coroutine:
        try:
            yield from future
        except ValueError as caught:
            seen.append(caught)
        else:
            seen.append(None)

    tasks = [mini.loop.start(waits()) for _ in range(3)]
    yield from mini.sleep(0)
    assert seen == []
    future.finish(error)
    future.finish()  # over is over: this changes nothing
    yield from waits()  # who comes after the end does not wait
    assert seen == [error]
    for task in tasks:
        yield from task
    assert seen == [error] * 4
    assert future.over and future.error is error


@on_the_loop
def test_a_task_waits_for_another(mini: Any, capsys: Said) -> Coroutine:
    """And has its error, which is then nobody else's business."""

    def fails() -> Coroutine:
        yield from mini.sleep(0.01)
        raise KeyError("gone")

    with pytest.raises(KeyError):
        yield from mini.loop.start(fails())
    assert capsys.readouterr().err == ""


@on_the_loop
def test_an_error_that_nobody_waits_for_is_shown(
    mini: Any, capsys: Said
) -> Coroutine:
    def fails() -> Coroutine:
        yield from mini.sleep(0)
        raise ZeroDivisionError("nobody caught me")

    mini.loop.start(fails())
    yield from mini.sleep(0.02)  # the others go on
    said = capsys.readouterr().err
    assert "Traceback" in said and "nobody caught me" in said
    assert "in fails" in said


@on_the_loop
def test_a_socket_wakes_who_waits_for_it(mini: Any) -> Coroutine:
    ours, theirs = socket.socketpair()
    got = []

    def reads() -> Coroutine:
        yield from mini.ready(ours, mini.READABLE, time.monotonic() + 60)
        got.append(ours.recv(10))

    with ours, theirs:
        task = mini.loop.start(reads())
        yield from mini.sleep(0.01)
        assert got == []
        theirs.sendall(b"now")
        yield from task
        assert got == [b"now"]


@on_the_loop
def test_a_deadline_ends_a_wait(mini: Any) -> Coroutine:
    ours, theirs = socket.socketpair()
    begun = time.monotonic()
    with ours, theirs:
        with pytest.raises(TimeoutError):
            yield from mini.ready(ours, mini.READABLE, begun + 0.05)
        # The socket can be waited for again.
        yield from mini.ready(ours, mini.WRITABLE, time.monotonic() + 60)
    assert time.monotonic() - begun >= 0.05


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


@on_the_loop
def test_many_who_wait_cost_no_turns(mini: Any) -> Coroutine:
    """Only those that can go on are looked at."""
    forever = mini.Future()
    steps = []

    def waits() -> Coroutine:
        steps.append("before")
        yield from forever
        steps.append("after")

    for _ in range(1000):
        mini.loop.start(waits())
    for _ in range(20):
        yield from mini.sleep(0)
    assert steps == ["before"] * 1000


def test_the_loop_is_as_short_as_it_says() -> None:
    lines = FILE.read_text().splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("# ---")]
    first = next(i for i in heads if "asyncio in mini" in lines[i])
    last = next(i for i in heads if lines[i].startswith("# --- The"))
    code = [
        line for line in lines[first:last]
        if line.strip() and not line.strip().startswith("#")
    ]
    assert 60 < len(code) <= MOST_LINES
    assert len(lines) - last <= MOST_SERVER
    assert "asyncio" not in imports(FILE)
