"""06.1: calls of coroutines are awaited."""

import random
import socket

from tools.learn.plugin import Start
from tools.learn.student import Program, Wrong, eventually, get

STEPS = 20_000_000  # of computing: some tenths of a second
LEAST = 0.05  # CPU seconds they take on any machine
PIECE, PIECES = 1 << 20, 64  # more than kernels keep for who does not read


def test_waits(start: Start, dice: random.Random) -> None:
    """A request waits for the database twice, then gets the page."""
    delay = dice.choice([0.5, 0.6, 0.7])
    server = start("--delay", f"{delay:g}")
    with server.visit(get()) as visitor:
        try:
            visitor.expect_later(delay * 1.6)
        except Wrong:
            raise Wrong(
                f"an answer after two delays of {delay:g} s",
                "it came long before",
            ) from None
        visitor.expect_page()


def test_computes(start: Start) -> None:
    """A request computes before it is answered."""
    server = start("--delay", "0", "--compute", str(STEPS))
    before = server.cpu()
    with server.visit(get()) as visitor:
        visitor.expect_page(seconds=20)  # on a busy machine
    if server.cpu() - before < LEAST:
        raise Wrong(
            "that the server has computed for this page",
            "it has used hardly any CPU time",
        )


def test_overlap(start: Start, dice: random.Random) -> None:
    """Many requests wait at the same time, in one thread."""
    server = start("--delay", "0.2")  # and another 0.2 s
    before = server.threads()
    server.expect_overlap(dice.randrange(12, 16), 0.4)
    if server.threads() > before:
        raise Wrong("a single thread, as before", "there are more now")


def test_still_sending(start: Start, dice: random.Random) -> None:
    """Who still sends when the answer comes sees an orderly end."""
    server = start("--delay", "0")
    body = b"x" * dice.randrange(250_000, 300_000)
    request = get(method="POST", Content_Length=str(len(body)))
    with server.visit() as visitor:
        # All of it goes to our kernel in one piece.
        visitor.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(body)
        )
        visitor.send(request + body)
        visitor.expect_status(405)
        visitor.expect_closed()


def test_hangs_up(program: Program) -> None:
    """After the last answer it reads until the client ends, then it ends."""
    with program.below("web.py", "LINGER_SECONDS = 60.0"):
        server = program.start("--delay", "0")
    request = get(method="POST", Content_Length=str(PIECE * PIECES))
    with server.visit(request) as visitor:
        visitor.expect_status(405)
        visitor.story.append(f"sent a body of {PIECES} MB")
        for _ in range(PIECES):
            if not visitor.send_if_open(b"x" * PIECE):
                raise Wrong(
                    "a server that reads until the client has ended",
                    "before that it read no more: does it await hang_up?",
                )
        visitor.half_close()
        visitor.expect_closed()


def test_nothing_to_say(start: Start) -> None:
    """Python has nothing to warn of."""
    server = start("--delay", "0.1")
    with server.visit(get()) as visitor:
        visitor.expect_page()
    with server.visit(get("/missing", close=True)) as visitor:
        visitor.expect_status(404)
        visitor.expect_closed()
    eventually(lambda: bool(server.complaints), 0.3)
    if said := server.complaints.strip():
        line = next(
            (line for line in said.splitlines() if "Warning" in line),
            said.splitlines()[-1],
        )
        raise Wrong(
            "a server that says nothing on its terminal",
            line.rpartition("/")[2],
        )
