"""03.2: so many threads, and no more."""

import random

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


def expect_waiting(visitor: Visitor, silent: int) -> None:
    """It is not answered for a while. Raises Wrong.

    silent: the clients before it, which occupy all threads.
    """
    if ready([visitor.socket], QUIET_SECONDS):
        raise Wrong(
            "that it waits until a thread is free",
            "it was answered, or its connection closed",
            [
                f"--workers {silent}",
                f"{silent} clients connected and said nothing",
                "another one asked for /",
            ],
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


def test_no_more_threads(start: Start, dice: random.Random) -> None:
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


def test_the_next_one_waits(start: Start, dice: random.Random) -> None:
    """Who comes when all threads are busy is served when one is free."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    silent = [server.visit() for _ in range(workers)]
    with together(silent), server.visit(get(close=True)) as late:
        expect_waiting(late, workers)
        done = dice.choice(silent)
        done.send(get(close=True))
        done.expect_page()
        done.close()
        late.expect_page()


def test_not_accepted(start: Start, dice: random.Random) -> None:
    """Who waits is not accepted yet: it costs us no descriptor."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    before = server.descriptors()
    with together([server.visit() for _ in range(CROWD)]):
        # Two more may wait for a thread: in a queue with room for one, and
        # with the main thread, which waits for that room.
        most = before + workers + 2
        if eventually(lambda: server.descriptors() > most, 2):
            raise Wrong(
                f"that {workers} are accepted, or two more, and the others "
                "wait in the kernel's queue",
                "more were accepted",
                [f"--workers {workers}", f"{CROWD} clients connected"],
            )


def test_threads_come_free(start: Start, dice: random.Random) -> None:
    """However a client leaves, its thread is free for the next one."""
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
    """While all threads are busy, the server leaves the CPU alone."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    before = server.descriptors()
    with telling(
        f"--workers {workers}",
        f"{workers + 2} clients connected and said nothing",
    ), together([server.visit() for _ in range(workers + 2)]):
        eventually(lambda: server.descriptors() >= before + workers)
        server.expect_idle()


def test_stop_when_nobody_asks(start: Start, dice: random.Random) -> None:
    """Asked to stop while all threads wait for silent clients, it ends."""
    workers = dice.randint(2, 5)
    server = start("--workers", str(workers))
    before = server.descriptors()
    with telling(
        f"--workers {workers}",
        f"{workers + 2} clients connected and said nothing",
        "then we sent SIGTERM to the server",
    ), together([server.visit() for _ in range(workers + 2)]):
        eventually(lambda: server.descriptors() >= before + workers)
        server.falls_asleep()
        server.signal()
        server.expect_end(4)  # its alarm would end it after 5 s


def test_stop(start: Start, dice: random.Random) -> None:
    """Asked to stop while all are busy, it finishes the request in work."""
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
