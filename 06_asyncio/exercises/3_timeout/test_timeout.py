"""06.3: how long the server waits for a client to speak."""

import random
import time

from tools.learn.plugin import Start
from tools.learn.student import Serving, Wrong, get, ready

PATIENT = ("--patience", "30")
LATE = 2.2  # seconds; for what should be done in less than one


def test_page(server: Serving, dice: random.Random) -> None:
    """A request gets the page, in one piece or in two, as before."""
    server.expect_page()
    request = get()
    cut = dice.randrange(1, len(request) - 1)
    with server.visit(request[:cut]) as visitor:
        visitor.expect_quiet(0.2)
        visitor.send(request[cut:])
        visitor.expect_page()


def test_silent(start: Start) -> None:
    """Who says nothing is let go after --patience 0.8, not before."""
    server = start("--patience", "0.8", "--idle", "30")
    with server.visit(timeout=LATE) as visitor:
        visitor.expect_later(0.7)
        visitor.expect_closed()


def test_half_a_head(start: Start, dice: random.Random) -> None:
    """Who has sent half a request gets a 408 after --patience 0.8."""
    server = start("--patience", "0.8", "--idle", "30")
    request = get()
    half = request[: dice.randrange(1, len(request) - 1)]
    with server.visit(half, timeout=LATE) as visitor:
        visitor.expect_later(0.7)
        visitor.expect_status(408)
        visitor.expect_closed()


def test_byte_by_byte(start: Start, dice: random.Random) -> None:
    """A byte now and then does not prolong the time for a head."""
    server = start("--patience", "2", "--idle", "30")
    pause = dice.choice([0.1, 0.15, 0.2])
    data = iter(get(X_Slow="x" * 100))

    def dribble() -> None:
        """A byte now and then, for a while."""
        end = time.monotonic() + 0.7
        while time.monotonic() < end and not ready([slow.socket], pause):
            slow.send_if_open(bytes([next(data)]))

    with server.visit(timeout=3 * LATE) as slow:
        slow.story.append(f"sent a byte every {pause:g} s for a while")
        dribble()
        with server.visit() as later:
            later.story.append("sent nothing")
            dribble()
            found = ready([slow.socket, later.socket], slow.timeout)
        if slow.socket not in found:
            raise Wrong(
                "a 408 for client 1 first: it has 2 s for its whole head",
                "client 2, which came later, was let go before it" if found
                else "the server still waits for both",
            )
        slow.expect_status(408)
        slow.expect_closed()


def test_idle(start: Start) -> None:
    """Who keeps the connection and falls silent is let go after --idle."""
    server = start(*PATIENT, "--idle", "1.5")
    with server.visit(timeout=LATE) as visitor:
        for _ in range(2):
            visitor.send(get())
            visitor.expect_page()
            visitor.expect_later(0.2)
        visitor.story.append("said nothing more")
        visitor.expect_closed()


def test_begun_is_not_idle(start: Start, dice: random.Random) -> None:
    """A request that has begun is not idle: it has --patience 30."""
    server = start(*PATIENT, "--idle", "1.2")
    request = get()
    cut = dice.randrange(1, len(request) - 1)
    with server.visit(request) as visitor:
        visitor.expect_page()
        visitor.send(request[:cut])
        visitor.expect_quiet(1.6)
        visitor.send(request[cut:])
        visitor.expect_page()


def test_begun_with_the_first(start: Start, dice: random.Random) -> None:
    """Nor is one whose first bytes came along with the one before."""
    server = start(*PATIENT, "--idle", "0.5")
    request = get()
    cut = dice.randrange(1, len(request) - 1)
    with server.visit(request + request[:cut]) as visitor:
        visitor.expect_page()
        visitor.expect_quiet(0.9)
        visitor.send(request[cut:])
        visitor.expect_page()


def test_work_has_its_time(start: Start) -> None:
    """A page that takes longer than --patience and --idle is delivered."""
    server = start("--delay", "0.9", "--patience", "0.4", "--idle", "0.4")
    with server.visit(get() + get(close=True)) as visitor:
        visitor.expect_page()
        visitor.expect_page()
        visitor.expect_closed()
