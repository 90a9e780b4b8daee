"""02.1: a request may come in any number of pieces, or only half."""

import random

from tools.learn.student import Serving, get


def test_one_piece(server: Serving) -> None:
    """A request in one piece gets the page, as before."""
    with server.visit(get()) as visitor:
        visitor.expect_page()


def test_two_pieces(server: Serving, dice: random.Random) -> None:
    """A request in two pieces, half a second apart, gets the page."""
    request = get()
    cut = dice.randrange(1, len(request) - 1)
    with server.visit() as visitor:
        visitor.send(request[:cut])
        visitor.expect_quiet(0.5)
        visitor.send(request[cut:])
        visitor.expect_page()


def test_byte_by_byte(server: Serving) -> None:
    """A request that comes byte by byte gets the page."""
    with server.visit() as visitor:
        visitor.send_slowly(get(), pause=0.01)
        visitor.expect_page()


def test_half_a_request(server: Serving, dice: random.Random) -> None:
    """Half a request and the end gets 400, wherever it is cut."""
    for half in (
        b"GET / HTTP/1.1\r\nHost: te",
        get()[:dice.randrange(1, len(get()) - 1)],
    ):
        with server.visit(half) as visitor:
            visitor.half_close()
            visitor.expect_status(400)
            visitor.expect_closed()
    server.expect_page()


def test_nothing(server: Serving) -> None:
    """Not a byte and the end: no answer, and the next one is served."""
    with server.visit() as visitor:
        visitor.half_close()
        visitor.expect_closed()
    server.expect_page()
