"""07.2: a parent that starts workers, replaces them, and ends them."""

import random
import signal
from collections.abc import Callable, Sequence

import psutil

from tools.learn.student import (
    Serving,
    Wrong,
    alive,
    eventually,
    get,
    together,
)

Start = Callable[..., Serving]
REPLACED = 3.0  # seconds for a new worker, and for the end of an old one


def expect_workers(
    server: Serving, number: int, without: Sequence[psutil.Process] = ()
) -> list[psutil.Process]:
    """So many workers run; none of these, nor a zombie, is left."""
    wanted = f"{number} workers"
    story = [f"We started it with --workers {number}"]
    if without:
        wanted += " again, and no zombie"
        story.append(f"We killed {len(without)} of them")

    def good() -> bool:
        now = server.children()
        return len(now) == number and all(map(alive, now)) and not any(
            p in without for p in now
        )

    if eventually(good, REPLACED):
        return server.workers()
    zombies = len(server.children()) - len(server.workers())
    raise Wrong(
        wanted,
        f"{len(server.workers()) or 'none'} running"
        + f", and {zombies} that nobody has waited for" * bool(zombies),
        story,
    )


def send(number: int, processes: Sequence[psutil.Process]) -> None:
    """A signal to each of them."""
    for process in processes:
        process.send_signal(number)


def test_workers(start: Start, dice: random.Random) -> None:
    """Its workers serve, as before."""
    number = dice.randrange(2, 5)
    server = start("--workers", str(number))
    expect_workers(server, number)
    with together([server.visit() for _ in range(number - 1)]):
        server.expect_page()


def test_idle(start: Start) -> None:
    """While nothing happens it needs no CPU time: it sleeps."""
    server = start("--workers", "2")
    expect_workers(server, 2)
    try:
        server.expect_idle(1.5)
    except Wrong:
        raise Wrong(
            "a parent that sleeps until a worker ends",
            "it kept the CPU busy: an endless loop?",
            ["We waited 1.5 s, and no worker ended"],
        ) from None


def test_replaced(start: Start, dice: random.Random) -> None:
    """Of a worker that is killed nothing is left, and another takes over."""
    number = dice.randrange(2, 5)
    server = start("--workers", str(number))
    before = expect_workers(server, number)
    for _ in range(3):  # not only once
        victim = dice.choice(before)
        victim.kill()
        now = expect_workers(server, number, [victim])
        if gone := [p for p in before if p not in now and p != victim]:
            raise Wrong(
                "that the other workers go on",
                f"{len(gone)} of them were replaced as well",
                [f"We started it with --workers {number}, and killed one"],
            )
        before = now
        with together([server.visit() for _ in range(number - 1)]):
            server.expect_page()


def test_all_at_once(start: Start, dice: random.Random) -> None:
    """If all of them are killed at the same time, all are replaced."""
    number = dice.randrange(3, 6)
    server = start("--workers", str(number))
    before = expect_workers(server, number)
    send(signal.SIGKILL, before)
    expect_workers(server, number, before)
    server.expect_page()


def test_end(start: Start, dice: random.Random) -> None:
    """On SIGTERM a request under way is finished; the parent waits."""
    number = dice.randrange(2, 5)
    server = start("--workers", str(number), "--delay", "1")
    processes = expect_workers(server, number)
    with server.visit(get()) as visitor:
        server.falls_asleep()  # one of them has the request, and waits
        parent = server.own()
        send(signal.SIGSTOP, processes)  # so that it will take longer
        server.signal(signal.SIGTERM)
        if eventually(lambda: not alive(parent), 2):
            raise Wrong(
                "that the parent waits for the end of its workers",
                "it ended before them",
                [f"We started it with --workers {number}, sent a request",
                 "and, while a worker was at it, SIGTERM to the parent"],
            )
        send(signal.SIGCONT, processes)
        visitor.expect_page()
    server.expect_end(4)


def test_end_of_the_new(start: Start, dice: random.Random) -> None:
    """On SIGTERM those that replaced others end too, and nothing fails."""
    number = dice.randrange(2, 5)
    server = start("--workers", str(number))
    before = expect_workers(server, number)
    victims = dice.sample(before, dice.randrange(1, number + 1))
    send(signal.SIGKILL, victims)
    expect_workers(server, number, victims)
    server.signal(signal.SIGTERM)
    server.expect_end(4)


def test_control_c(start: Start) -> None:
    """Ctrl-C, which reaches the workers too, ends all of them."""
    server = start("--workers", "2")
    processes = expect_workers(server, 2)
    send(signal.SIGINT, [*processes, server.own()])
    server.expect_end(4)
