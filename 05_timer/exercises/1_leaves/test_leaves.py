"""05.1: a client that leaves during its timer."""

import random
import time

from tools.common.raw_client import NoResponse
from tools.learn.plugin import Start
from tools.learn.student import (
    Serving,
    Visitor,
    Wrong,
    eventually,
    get,
    together,
)

DELAY = 1.0  # seconds: the timers of a test, long enough to leave
LATE = 1.5  # seconds: long enough for several to leave
WORK = "10000000"  # steps to compute: some tenths of a second
PAGE, HEAD = get(), get(method="HEAD")


def come(server: Serving, request: bytes) -> Visitor:
    """Ask, and wait until the server has us."""
    before = server.descriptors()
    visitor = server.visit(request)
    eventually(lambda: server.descriptors() > before, DELAY / 3)
    return visitor


def leave(server: Serving, request: bytes = PAGE) -> None:
    """Ask, and vanish while the timer runs. Raises Wrong."""
    before, threads = server.descriptors(), server.threads()
    visitor = come(server, request)
    eventually(lambda: server.threads() > threads, DELAY / 3)
    visitor.reset()
    if not eventually(lambda: server.descriptors() <= before, DELAY / 2):
        raise Wrong(
            "that its descriptor is free as soon as it has left",
            "the server kept it open while the timer ran",
        )


def responses(visitor: Visitor) -> int:
    """How many answers have come by now."""
    try:
        while visitor.receive(0.1):
            pass
    except NoResponse:  # nothing more
        pass
    return visitor.received.count(b"HTTP/1.1 200 OK\r\n")


def test_who_stays(server: Serving) -> None:
    """A client that stays gets the page, twice on one connection."""
    with server.visit() as visitor:
        for _ in range(2):
            visitor.send(get())
            visitor.expect_page()


def test_timers(start: Start) -> None:
    """Each wait has a timer's thread of its own, as before."""
    server: Serving = start("--delay", "30")
    before = server.threads()
    with together([server.visit(PAGE) for _ in range(4)]) as made:
        wanted = before + len(made)
        if not eventually(lambda: server.threads() >= wanted):
            raise Wrong(
                f"{len(made)} more threads, one for each wait",
                f"there are {server.threads() - before} more",
                [f"{len(made)} clients asked at once, --delay 30"],
            )


def test_no_harm(start: Start) -> None:
    """A client that leaves during its timer does no harm to others."""
    server: Serving = start("--delay", f"{DELAY}")
    leave(server)
    # Long enough for the timer to go off.
    eventually(server.ended, DELAY + 0.5)
    server.expect_alive()
    server.expect_page()


def test_next_client(start: Start) -> None:
    """The next client gets nothing that it has not asked for."""
    server: Serving = start("--delay", f"{DELAY}")
    leave(server)
    with server.visit() as visitor:
        visitor.pause(DELAY + 0.5)
        server.falls_asleep()
        if responses(visitor):
            raise Wrong(
                "nothing, for this client has not asked",
                "the answer came that the other client had asked for",
            )
        visitor.send(PAGE)
        visitor.expect_page()


def test_crowd(start: Start, dice: random.Random) -> None:
    """Some leave, others come in their place: to each its own answer."""
    server: Serving = start("--delay", f"{DELAY}")
    leaves = [True, False] * dice.randrange(4, 6)
    dice.shuffle(leaves)
    asked: list[tuple[bytes, Visitor]] = []
    for one_leaves in leaves:
        if one_leaves:
            leave(server, dice.choice([PAGE, HEAD]))
        request = dice.choice([PAGE, HEAD])
        asked.append((request, come(server, request)))
    time.sleep(DELAY + 0.5)  # all timers have gone off
    server.falls_asleep()
    story = [
        f"{len(asked)} clients asked once each, {sum(leaves)} of them in "
        "the place of one that had left"
    ]
    for number, (request, visitor) in enumerate(asked, 1):
        if (count := responses(visitor)) != 1:
            raise Wrong(
                "one answer to each",
                f"client {number} got {count} answers", story,
            )
        if (b"<html" in visitor.received) != (request == PAGE):
            raise Wrong(
                "its own answer for each: to GET the page, to HEAD no body",
                f"client {number} got somebody else's", story,
            )


def test_no_work(start: Start, dice: random.Random) -> None:
    """No work is done for those who have left."""
    server: Serving = start("--delay", f"{LATE}", "--compute", WORK)
    idle = server.cpu()
    server.expect_page()
    one = server.cpu() - idle
    gone = dice.randrange(3, 5)
    for _ in range(gone):
        leave(server)
    before = server.cpu()
    eventually(server.ended, LATE + 0.5)
    server.expect_alive()
    server.expect_page()  # answered when all that was due before is done
    if server.cpu() - before > one * (1 + gone / 2):
        raise Wrong(
            "a server that does nothing for those who have left",
            "it computed as if they were still there",
            [f"{gone} clients left during their timers (--compute {WORK})"],
        )
