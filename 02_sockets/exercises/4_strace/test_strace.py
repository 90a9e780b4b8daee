"""02.4: the answer arrives whole, whatever the client sends with it."""

import random
import select

from tools.common.raw_client import NoAnswer, read_answers
from tools.learn.plugin import Start
from tools.learn.student import Serving, Visitor, Wrong, eventually, get

WHOLE = "one whole answer with status 405, and then the orderly end"
RESET = "the connection was reset"


def post(size: int) -> bytes:
    """A POST with a body of so many bytes."""
    return get(method="POST", Content_Length=str(size)) + b"x" * size


def expect_whole(visitor: Visitor) -> None:
    """The answer to a POST, and the end of the connection, no reset."""
    try:
        received = visitor.rest()
        statuses = [answer.status for answer in read_answers(received)]
    except NoAnswer:
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


def test_endless(server: Serving) -> None:
    """Who goes on sending after the answer is left, a moment later."""
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
