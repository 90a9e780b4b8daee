"""03.3: the threads are made once, connections wait in a queue."""

import random
from collections.abc import Sequence

from tools.learn.plugin import Start
from tools.learn.student import (
    Visitor,
    Wrong,
    eventually,
    expect_pages,
    get,
    ready,
    telling,
    together,
)

CROWD = 24  # clients, more than the threads of any test
QUIET_SECONDS = 1.5  # in which a free thread would have answered


def first_answered(visitors: Sequence[Visitor]) -> Visitor:
    """The one to whom something comes first. Raises Wrong."""
    found = ready([v.socket for v in visitors], 4)
    for visitor in visitors:
        if visitor.socket in found:
            return visitor
    raise Wrong(
        "that a free thread takes the next client from the queue",
        "nobody was answered in 4 s",
    )


def test_everybody_is_served(start: Start, dice: random.Random) -> None:
    """Many clients at once all get the page, as before."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    with telling(
        f"--workers {workers}", f"{CROWD} clients asked for / at once"
    ), together(
        [server.visit(get(close=True)) for _ in range(CROWD)]
    ) as crowd:
        expect_pages(crowd)


def test_so_many_threads(start: Start, dice: random.Random) -> None:
    """With --workers N, there are never more than N and the main one."""
    workers = dice.randint(2, 3)
    server = start("--workers", str(workers))
    with together([server.visit() for _ in range(CROWD)]):
        if eventually(lambda: server.threads() > workers + 1, 2):
            raise Wrong(
                f"{workers + 1} threads at most, the main one among them",
                "there were more",
                [f"--workers {workers}", f"{CROWD} clients connected"],
            )


def test_the_same_threads(start: Start, dice: random.Random) -> None:
    """The threads stay: later clients get no new ones."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    at_rest = server.descriptors()
    with together([server.visit() for _ in range(workers)]) as first:
        # All at once: now every thread is there.
        eventually(lambda: server.descriptors() >= at_rest + workers)
        for visitor in first:
            visitor.send(get(close=True))
        for visitor in first:
            visitor.expect_page()
        before = server.thread_ids()
    for _ in range(2 * workers):
        server.expect_page()
    if server.thread_ids() != before:
        raise Wrong(
            "that the threads which served the first clients serve "
            "the others too",
            "there are other threads now",
            [
                f"--workers {workers}",
                f"{workers} clients at once got the page",
                f"then {2 * workers} others, one after the other",
            ],
        )


def test_so_many_at_a_time(start: Start, dice: random.Random) -> None:
    """N clients are served at a time: N - 1 silent ones hold up nobody."""
    workers = dice.randint(5, 7)
    server = start("--workers", str(workers))
    with telling(
        f"--workers {workers}",
        f"{workers - 1} clients connected and said nothing",
        "another one asked for /",
    ), together([server.visit() for _ in range(workers - 1)]):
        for _ in range(workers + 1):
            server.expect_page()


def test_all_are_accepted(start: Start, dice: random.Random) -> None:
    """Everybody is accepted at once; who has to wait is in the queue."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    before = server.descriptors()
    with together([server.visit() for _ in range(CROWD)]):
        if not eventually(lambda: server.descriptors() >= before + CROWD):
            raise Wrong(
                f"that all {CROWD} connections are accepted",
                "some were not: is the main thread free to accept?",
                [f"--workers {workers}", f"{CROWD} clients connected"],
            )


def test_newest_first(start: Start, dice: random.Random) -> None:
    """Of the clients in the queue, the one who came last is served first."""
    workers = dice.randint(2, 4)
    server = start("--workers", str(workers))
    before = server.descriptors()
    with together([server.visit() for _ in range(workers)]) as silent:
        eventually(lambda: server.descriptors() >= before + workers)
        server.falls_asleep(0.5)  # now each thread has one of these
        line = [server.visit(get(close=True)) for _ in range(4)]
        if ready([v.socket for v in line], QUIET_SECONDS):
            raise Wrong(
                "that these wait until a thread is free",
                "one was answered, or its connection closed",
                [
                    f"--workers {workers}",
                    f"{workers} clients connected and said nothing",
                    f"{len(line)} others asked for /",
                ],
            )
        done = dice.choice(silent)
        done.send(get(close=True))
        done.expect_page()
        done.close()
        with together(line):
            while line:
                served = first_answered(line)
                if served is not line.pop():
                    raise Wrong(
                        "that the one who came last is served first",
                        "one who came before was",
                        [
                            f"--workers {workers}",
                            f"{workers} clients connected, said nothing",
                            "4 others asked for /",
                            "then one of the first asked and left",
                        ],
                    )
                served.expect_page()
                served.close()


def test_threads_live_on(start: Start, dice: random.Random) -> None:
    """However a client leaves, its thread is there for the next one."""
    workers = dice.randint(3, 5)
    server = start("--workers", str(workers))
    for number in range(3 * workers):
        visitor = server.visit()
        if number % 3 == 0:
            visitor.send(b"GET / HT")
            visitor.reset()
        elif number % 3 == 1:
            visitor.send(get())
            visitor.reset()
        else:
            visitor.send(b"nonsense\r\n\r\n")
            visitor.expect_status(400)
            visitor.close()
    with telling(
        f"--workers {workers}",
        f"{3 * workers} clients came and left, each in a rude way",
        f"{workers - 1} clients connected and said nothing",
        "another one asked for /",
    ), together([server.visit() for _ in range(workers - 1)]):
        server.expect_page()


def test_asleep(start: Start, dice: random.Random) -> None:
    """With nobody in the queue, the server leaves the CPU alone."""
    server = start("--workers", str(dice.randint(2, 5)))
    server.falls_asleep()
    server.expect_idle()


def test_stop(start: Start, dice: random.Random) -> None:
    """Asked to stop, it finishes the request in work, and ends at once."""
    workers = dice.randint(3, 5)
    server = start("--workers", str(workers), "--delay", "1")
    before = server.descriptors()
    silent = [server.visit() for _ in range(workers - 1)]
    with together(silent), server.visit(get()) as visitor:
        eventually(lambda: server.descriptors() >= before + workers)
        server.falls_asleep()  # it has the request, and waits
        with telling(
            f"--workers {workers}",
            f"{workers - 1} clients connected and said nothing",
            "one asked for /, three others connected",
            "while it was in work, we sent SIGTERM to the server",
        ), together([server.visit() for _ in range(3)]):
            server.signal()
            visitor.expect_page()
            server.expect_end(3)
