"""02.3: nobody may hold up everybody."""

import random

from tools.learn.plugin import Start
from tools.learn.student import Visitor, Wrong, clock, get, ready, telling

LONGEST = 4.0  # seconds for a server whose patience is one second
DROPPED = "that the server gives up: a 408, or a close"


def expect_dropped(visitor: Visitor) -> None:
    """The server answers 408, or closes without a word."""
    if not ready([visitor.socket], LONGEST):
        raise Wrong(DROPPED, f"nothing happened within {LONGEST:g} s")
    if visitor.receive(1):
        visitor.expect_status(408)


def dribble(visitor: Visitor, data: bytes, pause: float) -> None:
    """Send a byte now and then until something comes back.

    Raises Wrong if nothing does.
    """
    visitor.story.append(f"sent a byte every {pause:g} s")
    deadline = clock() + LONGEST
    for byte in data:
        visitor.send_if_open(bytes([byte]))
        if ready([visitor.socket], pause):
            return
        if clock() > deadline:
            break
    raise Wrong(DROPPED, f"it still listened {LONGEST:g} s later")


def test_page(start: Start) -> None:
    """A request gets the page, as before."""
    start("--patience", "1").expect_page()


def test_silent(start: Start) -> None:
    """A client that says nothing is dropped, and the next one served."""
    server = start("--patience", "1")
    with server.visit() as silent, server.visit(get()) as neighbour:
        expect_dropped(silent)
        neighbour.expect_page()


def test_half(start: Start, dice: random.Random) -> None:
    """A client that stops in the middle of its request is told: 408."""
    server = start("--patience", "1")
    with server.visit(get()[:dice.randrange(1, 20)]) as visitor:
        visitor.expect_status(408, seconds=LONGEST)
        visitor.expect_closed()


def test_dribble(start: Start) -> None:
    """A byte now and then does not buy a client more time."""
    server = start("--patience", "1")
    with server.visit() as slow, server.visit(get()) as neighbour:
        dribble(slow, b"GET /" + b"x" * 100, pause=0.3)
        expect_dropped(slow)
        neighbour.expect_page()


def test_too_late_already(start: Start) -> None:
    """When the server looks again, its patience may be over already."""
    server = start("--patience", "1")
    with server.visit(b"GET ") as slow, telling(
        "--patience 1", "We connected, sent 'GET '",
        "the server stood still for 1.5 s: the computer was too busy",
        "We sent '/' meanwhile",
    ):
        server.falls_asleep()
        with server.frozen():
            slow.send(b"/")
            slow.pause(1.5)
        slow.expect_status(408, seconds=LONGEST)
        server.expect_page()


def test_patient(start: Start, dice: random.Random) -> None:
    """Who takes a while, but not too long, gets the page."""
    server = start("--patience", "20")
    request = get()
    cut = dice.randrange(5, 20)
    with server.visit(request[:cut]) as visitor:
        visitor.expect_quiet(1.5)
        visitor.send(request[cut:])
        visitor.expect_page()
