"""05.3: a limit that does not hold any more must not go off."""

import random

from tools.learn.plugin import Start
from tools.learn.student import Serving, Wrong, get, ready, together

IDLE = 1.0  # seconds: how long a client may say nothing, in the tests

# So many clients connect, and those ask for a page, in this order: an entry
# that is taken out of the heap without care leaves most of them in disorder.
CLIENTS = 24
ASKING = (1, 18, 11, 8, 14, 0, 16, 19, 5, 9, 20, 10, 7, 4, 15)


def test_idle(start: Start) -> None:
    """A client that says nothing more is parted with, as before."""
    server: Serving = start("--delay", "0", "--idle", f"{IDLE / 2}")
    with server.visit(get()) as visitor:
        visitor.expect_page()
        visitor.expect_closed()


def test_long_work(start: Start) -> None:
    """A request may work for longer than its client may take."""
    limits = ("--idle", f"{IDLE:g}", "--head", f"{IDLE:g}")
    options = ("--delay", f"{IDLE * 1.5:g}", *limits)
    server: Serving = start(*options)
    with server.visit() as visitor:
        visitor.story[0] = f"connected ({' '.join(options)})"
        for _ in range(2):
            visitor.send(get())
            visitor.expect_page()


def test_busy_client(start: Start, dice: random.Random) -> None:
    """Who asks again in time is kept, who does not is parted with."""
    limit = f"--idle {IDLE * 1.5:g}"
    server: Serving = start("--delay", "0", *limit.split())
    idle = server.visit(get())
    idle.expect_page()
    with server.visit() as busy:
        try:
            for _ in range(dice.randrange(9, 12)):
                busy.send(get())
                busy.expect_page()
                busy.pause(IDLE * 0.28)
        except Wrong:
            raise Wrong(
                "that this connection stays open",
                "the server closed it between two requests",
                [f"a client asked often, with short pauses ({limit})"],
            ) from None
        busy.send(get(close=True))
        busy.expect_page()
    try:
        idle.expect_closed()
    except Wrong as error:
        raise Wrong(
            "that the server closes the connection on which nothing comes",
            error.came, [f"beside it a client asked often ({limit})"],
        ) from None


def test_last_limit(start: Start, dice: random.Random) -> None:
    """Who has asked many times and says nothing more is parted with."""
    server: Serving = start("--delay", "0", "--idle", f"{IDLE}")
    with server.visit() as visitor:
        for _ in range(dice.randrange(3, 6)):
            visitor.send(get())
            visitor.expect_page()
        visitor.expect_later(IDLE / 3)
        visitor.expect_closed()


def test_slow_head(start: Start) -> None:
    """The time to be idle ends when a request begins to come."""
    server: Serving = start("--delay", "0", "--idle", f"{IDLE}")
    request = get()
    with server.visit(request) as visitor:
        visitor.expect_page()
        visitor.send(request[:10])
        visitor.pause(IDLE * 1.5)
        try:
            visitor.expect_quiet(0.01)
        except Wrong:
            raise Wrong(
                "that the server waits for the rest of the second request",
                "it has answered before that, or closed",
            ) from None
        visitor.send(request[10:])
        visitor.expect_page()


def test_half_a_head(start: Start) -> None:
    """Who does not send the rest of a head gets a 408, as before."""
    server: Serving = start("--delay", "0", "--head", f"{IDLE / 2}")
    with server.visit(get()) as visitor:
        visitor.expect_page()
        visitor.send(get()[:10])
        visitor.expect_status(408)
        visitor.expect_closed()


def all_in_time(server: Serving) -> bool:
    """Are those that asked parted with well before those that did not?"""
    with together([server.visit() for _ in range(CLIENTS)]) as made:
        for number in ASKING:
            made[number].send(get())
            made[number].expect_page()
        asked = {made[number].socket for number in ASKING}
        left = {visitor.socket for visitor in made}
        while asked & left:
            found = ready(list(left), IDLE * 6)
            if not found or set(found) - asked:  # the turn of the silent
                return False
            left -= set(found)
    return True


def test_order(start: Start) -> None:
    """With many limits cancelled, the others still go off in their order."""
    limits = ("--idle", f"{IDLE:g}", "--head", f"{IDLE * 5:g}")
    server: Serving = start("--delay", "0", *limits)
    if not all_in_time(server):
        raise Wrong(
            "that those who asked are parted with first",
            "one was still there when the time of the silent ones came: "
            "is the heap in order?",
            [f"{CLIENTS} clients connected, {len(ASKING)} of them asked for "
             f"the page, and nothing more came ({' '.join(limits)})"],
        )
