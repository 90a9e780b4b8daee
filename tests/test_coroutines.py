"""06_asyncio/coroutines.py: the loop below the server.

The server on top of it keeps the contract, as the shared tests say: there
sockets wake who waits for them, and deadlines end waits.
"""

import functools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tests.marks import Said
from tests.process import load
from tests.test_house import imports
from tools.servers import ROOT

FILE = ROOT / "06_asyncio" / "coroutines.py"
MOST_LINES = 120  # of code, for the whole of asyncio in miniature
Coroutine = Generator[Any, None, None]


@pytest.fixture
def mini() -> Iterator[Any]:
    """The file as a module of its own, with a fresh loop."""
    module = load(FILE)
    yield module
    module.loop.selector.close()


def on_the_loop(test: Callable[..., Coroutine]) -> Callable[..., None]:
    """A test that is a coroutine itself: it runs as a task."""

    @functools.wraps(test)
    def run(mini: Any, **others: Any) -> None:
        task = mini.loop.start(test(mini, **others))
        mini.loop.run(iter(task))  # waits for it
        if task.error:
            raise task.error

    return run


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


def test_the_loop_looks_around_between_tasks(mini: Any) -> None:
    # Else tasks that start tasks would keep all clients waiting.
    seen: list[str] = []
    select = mini.loop.selector.select

    def look(seconds: float | None) -> Any:
        seen.append("look")
        return select(seconds)

    def task(left: int) -> Coroutine:
        seen.append(f"task {left}")
        if left:
            yield from mini.loop.start(task(left - 1))

    mini.loop.selector.select = look
    mini.loop.run(task(2))
    assert seen[:6] == ["look", "task 2", "look", "task 1", "look", "task 0"]


@on_the_loop
def test_sleepers_wake_in_the_order_of_their_moments(mini: Any) -> Coroutine:
    woken = []

    def sleeper(number: int, seconds: float) -> Coroutine:
        yield from mini.sleep(seconds)
        woken.append(number)

    moments = [0.0]  # what its clock has shown
    mini.clock = lambda: moments[-1]

    def look(seconds: float) -> list[Any]:
        moments.append(moments[-1] + seconds)
        return []

    mini.loop.selector.select = look
    lasting = (0.3, 0.1, 0.2)
    for task in [mini.loop.start(sleeper(*e)) for e in enumerate(lasting)]:
        yield from task
    assert woken == [1, 2, 0]
    # Each has waited for its own moment, not for the next look.
    assert [*dict.fromkeys(moments)] == pytest.approx([0, 0.1, 0.2, 0.3])


@pytest.mark.parametrize("error", [None, ValueError("so it goes")])
@on_the_loop
def test_all_that_wait_for_a_future_go_on(
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

    for _ in range(3):
        mini.loop.start(waits())
    for _ in range(3):  # no turn is lost on those that cannot go on
        yield from mini.sleep(0)
    assert seen == []
    future.finish(error)
    future.finish()  # over is over: this changes nothing
    yield from waits()  # what comes after the end does not wait
    assert seen == [error]
    for _ in range(3):
        yield from mini.sleep(0)
    assert seen == [error] * 4
    assert future.over and future.error is error


@on_the_loop
def test_errors_of_a_task(mini: Any, capsys: Said) -> Coroutine:
    """A task that waits for it has it; else it is shown."""

    def fails() -> Coroutine:
        yield from mini.sleep(0)
        raise KeyError("nobody caught me")

    with pytest.raises(KeyError):
        yield from mini.loop.start(fails())
    assert capsys.readouterr().err == ""
    alone = mini.loop.start(fails())
    while not alone.over:
        yield from mini.sleep(0)  # the others go on
    said = capsys.readouterr().err
    assert "Traceback" in said and "nobody caught me" in said
    assert "in fails" in said


def test_timers_that_are_over_are_dropped(mini: Any) -> None:
    """Ten thousand waits that end in time leave no ten thousand timers."""
    most = 0
    keeps = [mini.Future() for _ in range(10)]
    for future in keeps:
        mini.loop.set_timer(10.0**9, future)  # a tie: in this order
    for _ in range(10_000):
        future = mini.Future()
        mini.loop.set_timer(10.0**8, future)
        future.finish()
        most = max(most, len(mini.loop.timers))
    assert most <= 2 * (mini.FEW_TIMERS + len(keeps))
    left = [timer[2] for timer in sorted(mini.loop.timers)]
    assert [future for future in left if not future.over] == keeps
    assert min(mini.loop.timers) == mini.loop.timers[0]  # still a heap


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
    assert "asyncio" not in imports(FILE)
