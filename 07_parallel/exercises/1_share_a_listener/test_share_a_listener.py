"""07.1: several processes accept from one listening socket."""

import os
import random
import signal
from collections.abc import Callable

from tools.learn.student import (
    Serving,
    Wrong,
    eventually,
    get,
    together,
)

Start = Callable[..., Serving]


def test_page(server: Serving) -> None:
    """A request gets the page, as before."""
    server.expect_page()


def test_silent_clients(start: Start, dice: random.Random) -> None:
    """With N workers, N - 1 silent clients hold nobody up."""
    number = dice.randrange(2, 5)
    server = start("--workers", str(number))
    silent = [
        server.visit(get()[:dice.randrange(1, 20)] if dice.random() < 0.5
                     else b"")
        for _ in range(number - 1)
    ]
    with together(silent):
        for _ in range(8):  # whoever is free takes the next
            server.expect_page()


def test_children(start: Start, dice: random.Random) -> None:
    """The parent has as many processes as --workers says."""
    number = dice.randrange(2, 6)
    started(start, number)


def test_cores(start: Start) -> None:
    """With --workers 0 there are as many as the machine has cores."""
    started(start, 0)


def started(start: Start, number: int) -> Serving:
    """A server with so many workers. Raises Wrong if it has others."""
    server = start("--workers", str(number))
    wanted = number or os.cpu_count()
    if not eventually(lambda: len(server.workers()) == wanted, 2):
        raise Wrong(
            f"{number or 'os.cpu_count()'} processes besides the parent",
            f"there are {len(server.workers()) or 'none'}",
            [f"We started it with --workers {number}"],
        )
    return server


def test_each_of_them(start: Start, dice: random.Random) -> None:
    """Each worker serves: also if all the others are stopped (SIGSTOP)."""
    number = dice.randrange(2, 4)
    server = started(start, number)
    for chosen in server.workers():
        others = [p for p in server.workers() if p != chosen]
        for process in others:
            process.send_signal(signal.SIGSTOP)
        server.expect_page()
        for process in others:
            process.send_signal(signal.SIGCONT)


def test_not_the_parent(start: Start) -> None:
    """The parent serves nobody: with all workers stopped, nobody does."""
    server = started(start, 2)
    for process in server.workers():
        process.send_signal(signal.SIGSTOP)
    with server.visit(get(close=True)) as visitor:
        visitor.expect_quiet(0.5)
        for process in server.workers():
            process.send_signal(signal.SIGCONT)
        visitor.expect_page()


def test_asleep(start: Start) -> None:
    """While nobody asks, the parent and its workers sleep."""
    server = started(start, 2)
    server.expect_idle()


def test_end(start: Start, dice: random.Random) -> None:
    """On SIGTERM all of them end, also if their clients say nothing."""
    number = dice.randrange(2, 5)
    server = started(start, number)
    with together([server.visit() for _ in range(number)]):
        server.signal(signal.SIGTERM)
        server.expect_end(4)
