"""02.1: a request may come in any number of pieces, or only half."""

import random

from tools.learn.student import Program, Serving, Wrong, eventually, get

# Put below accepting.py: each recv leaves a byte in a file, so that the next
# piece is sent when the server has asked for the one before.
NOTES = """\
open("received", "w").close()


class Noting(socket.socket):
    def recv(self, *words):
        data = super().recv(*words)
        with open("received", "a") as file:
            file.write("x")
        return data


def accept(listener, first=accept):
    sock = first(listener)
    if sock is None:
        return None
    open_now.discard(sock)
    noting = Noting(fileno=sock.detach())
    open_now.add(noting)
    return noting
"""


def test_one_piece(server: Serving) -> None:
    """A request in one piece gets the page, as before."""
    with server.visit(get()) as visitor:
        visitor.expect_page()


def wait_until_read(program: Program, times: int) -> None:
    """Until recv has returned so often; or for long enough."""
    eventually(lambda: len(program.left("received")) >= times)


def test_pieces(program: Program, dice: random.Random) -> None:
    """Each piece is sent when the one before is received; the page comes."""
    with program.below("accepting.py", NOTES):
        server = program.start()
    request = get()
    cuts = sorted(dice.sample(range(1, len(request) - 1), 3))
    with server.visit() as visitor:
        for number, (start, end) in enumerate(
            zip([0, *cuts], cuts, strict=False), 1
        ):
            visitor.send(request[start:end])
            wait_until_read(program, number)
            try:
                visitor.expect_quiet(0.3)
            except Wrong as error:
                raise Wrong(
                    f"that it calls recv again: {end} of {len(request)} "
                    "bytes are received", error.came,
                ) from None
        visitor.send(request[cuts[-1]:])
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
