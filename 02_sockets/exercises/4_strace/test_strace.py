"""02.4: the answer arrives whole, whatever the client sends with it."""

import random
import select
import time

from tools.common.raw_client import NoResponse, read_responses
from tools.learn.plugin import Start
from tools.learn.student import (
    Serving,
    Visitor,
    Wrong,
    eventually,
    get,
    telling,
)

WHOLE = "one whole answer with status 405, and then the orderly end"
RESET = "the connection was reset"


def post(size: int) -> bytes:
    """A POST with a body of so many bytes."""
    return get(method="POST", Content_Length=str(size)) + b"x" * size


def expect_whole(visitor: Visitor) -> None:
    """The answer to a POST, and the end of the connection, no reset."""
    try:
        received = visitor.rest()
        statuses = [response.status for response in read_responses(received)]
    except NoResponse:
        reset = visitor.ended.startswith("reset")
        raise Wrong(
            WHOLE, RESET if reset
            else "it was neither ended nor reset, for too long",
        ) from None
    if statuses != [405]:
        raise Wrong(WHOLE, f"the answers had the statuses {statuses}")


def test_page(server: Serving) -> None:
    """A request without a body gets the page, as before."""
    for _ in range(3):
        with server.visit(get()) as visitor:
            visitor.expect_page()
            visitor.expect_closed()


def test_end(start: Start) -> None:
    """Who waits for our end gets it at once, whatever --linger says."""
    with start("--linger", "30").visit(get()) as visitor:
        visitor.expect_page()
        visitor.expect_closed()


def test_body(start: Start, dice: random.Random) -> None:
    """Who sends a body too gets the whole answer, and no reset."""
    server = start("--delay", "0.5")
    size = dice.randrange(40_000, 60_000)
    # While the server works for the first, all of the second arrives.
    with server.visit(get()) as first, server.visit(post(size)) as second:
        first.expect_page()
        first.close()
        expect_whole(second)


def test_large_body(server: Serving, dice: random.Random) -> None:
    """A body that fits into no buffer does no harm either."""
    size = dice.randrange(5_000_000, 7_000_000)
    with server.visit() as visitor:
        visitor.story.append(f"sent a POST with {size} bytes of body")
        if not visitor.send_if_open(post(size)):
            raise Wrong(WHOLE, RESET)
        expect_whole(visitor)


def test_others_are_served(server: Serving) -> None:
    """Who does not close after the answer holds up nobody for long."""
    with server.visit(get()) as stays:
        stays.expect_page()
        server.expect_page()


def test_endless(start: Start) -> None:
    """Who goes on sending after the answer is left, a moment later."""
    server = start("--linger", "0.5")
    with server.visit(post(0)) as stays:
        stays.expect_status(405)
        with server.visit(get()) as neighbour:
            stays.story.append("went on sending, a byte at a time")

            def served() -> bool:
                stays.send_if_open(b"x")
                return bool(select.select([neighbour.socket], [], [], 0.1)[0])

            if not eventually(served, 6):
                raise Wrong(
                    "that the next client is served",
                    "the server still listened to this one",
                )


def test_long_enough(start: Start) -> None:
    """With --linger 30, it still listens when two seconds have passed."""
    server = start("--linger", "30")
    with server.visit(post(0)) as stays:
        stays.expect_status(405)
        stays.story.append("went on sending, a byte at a time")

        end = time.monotonic() + 2  # and not later, however busy it is
        while time.monotonic() < end:
            if not stays.send_if_open(b"x"):
                raise Wrong(
                    "that the server listens for 30 s", "it closed before 2 s"
                )
            time.sleep(0.02)
    server.expect_page()  # closed: now it need not listen any longer


def test_too_late_already(start: Start) -> None:
    """When the server looks again, its time may be over already."""
    server = start("--linger", "1")
    with server.visit(post(0)) as stays, telling(
        "--linger 1", "We connected, sent a POST, got the answer",
        "the server stood still for 1.5 s: the computer was too busy",
        "We sent a byte meanwhile",
    ):
        stays.expect_status(405)
        server.falls_asleep()
        with server.frozen():
            stays.send(b"x")
            stays.pause(1.5)
        server.expect_page()
        server.expect_alive()
