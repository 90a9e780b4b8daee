"""07.3: what follows a send, in a loop that lives on completions."""

import random
from collections.abc import Callable

from tools.common.raw_client import Client
from tools.learn.student import (
    ANSWER_SECONDS,
    Program,
    Serving,
    Wrong,
    eventually,
    get,
    together,
)

Start = Callable[..., Serving]

# Put below emulated.py: what an engine may do at any time, this one does
# always. It says in a file how often it was asked to send.
FEW_BYTES = """\
RECV_SIZE = {few}
open("sends", "a").close()
Whole = Engine


class Engine(Whole):
    def send(self, fd, data):
        with open("sends", "a") as file:
            file.write("x")
        super().send(fd, data[:{few}])
"""

# A slow client, which takes ten bytes at a time. Between two of its takes,
# web.py's clock goes on by a second.
SLOW_CLOCK = """\
skipped = 0


def clock():
    return time.monotonic() + skipped
"""
SLOW_SENDS = """\
import web

Whole = Engine


class Engine(Whole):
    def send(self, fd, data):
        web.skipped += 1
        time.sleep(0.03)
        super().send(fd, data[:10])
"""
SHORT = "IDLE_SECONDS = LINGER_SECONDS = 0.5"


def test_page(server: Serving) -> None:
    """The first request gets the page, as before."""
    server.expect_page()


def test_kept(server: Serving, dice: random.Random) -> None:
    """A client that stays is answered each time it asks."""
    with server.visit() as visitor:
        for _ in range(dice.randrange(3, 6)):
            visitor.send(get())
            visitor.expect_page()
            visitor.expect_quiet(0.2)


def test_pipelined(server: Serving, dice: random.Random) -> None:
    """Several requests sent at once are answered, in their order."""
    missing = [dice.random() < 0.5 for _ in range(dice.randrange(3, 7))]
    with server.visit() as visitor:
        visitor.send(b"".join(get("/missing" if m else "/") for m in missing))
        for number, expected in enumerate(missing, 1):
            status = 404 if expected else 200
            response = visitor.expect_answer(f"{len(missing)} answers")
            if response.status != status:
                raise Wrong(
                    f"status {status} as answer {number}",
                    f"status {response.status} came",
                )


def test_few_bytes(program: Program, dice: random.Random) -> None:
    """Answers come whole, though an engine may send a few bytes only."""
    few = dice.randrange(5, 20)
    with program.below("emulated.py", FEW_BYTES.format(few=few)):
        server = program.start()
        with server.visit(get()) as visitor:
            visitor.story.append(
                f"were answered by an engine that sends {few} bytes a time"
            )
            size = len(visitor.expect_page().raw)
            visitor.send(get("/missing", close=True))
            size += len(visitor.expect_status(404).raw)
            visitor.expect_closed()
        if len(program.left("sends")) < size / few:
            raise Wrong(
                f"that the engine is asked to send, {few} bytes each time",
                "it was not asked often enough for what came",
            )


def test_last_response(start: Start, dice: random.Random) -> None:
    """After the last answer it reads what still comes, then it closes."""
    server = start("--delay", "0.3")
    size = dice.randrange(40_000, 60_000)
    with server.visit(get(close=True)) as visitor:
        Client.send(visitor, b"x" * size)  # too long for its story
        visitor.story.append(f"sent {size} bytes more")
        visitor.expect_page()
        visitor.expect_closed()


def test_hangs_up(program: Program, dice: random.Random) -> None:
    """Our side ends first; then it reads until the client ends its own."""
    with program.below("web.py", "LINGER_SECONDS = LINGER_MOST = 60.0"):
        server = program.start()
    server.expect_page()
    server.falls_asleep()
    before = server.descriptors()
    with server.visit(get(close=True)) as visitor:
        visitor.expect_page()
        visitor.expect_closed()
        for number in range(1, 6):
            visitor.send_if_open(b"x" * dice.randrange(10, 1000))
            visitor.story.append(f"sent piece {number} of a body")
            server.falls_asleep()
            if server.descriptors() <= before:
                raise Wrong(
                    "a server that reads until the client has ended",
                    "it has closed the connection: what did it ask for, "
                    f"after it had received piece {number}?",
                )
        visitor.half_close()
        if not eventually(lambda: server.descriptors() <= before):
            raise Wrong(
                "that the server closes the connection now",
                "it is still open",
            )


def test_slow_client(program: Program) -> None:
    """A client has its 10 s anew whenever it has taken some bytes."""
    with (
        program.below("web.py", SLOW_CLOCK),
        program.below("emulated.py", SLOW_SENDS),
    ):
        server = program.start()
    with server.visit(get()) as visitor:
        visitor.story.append("took ten bytes of its answer each second")
        visitor.expect_page()


def test_silent_clients(program: Program) -> None:
    """Who says nothing more after an answer is parted with."""
    with program.below("web.py", SHORT):
        server = program.start()
    before = server.descriptors()
    for close in (False, True):
        with server.visit(get(close=close)) as visitor:
            visitor.expect_page()
            visitor.story.append("said nothing more, and did not close")
            if not eventually(lambda: server.descriptors() <= before):
                raise Wrong(
                    f"that the server closes the connection ({SHORT})",
                    f"it was still open {ANSWER_SECONDS:g} s later",
                )


def test_clients_gone(server: Serving, dice: random.Random) -> None:
    """Of clients that vanish before their answer nothing is left."""
    server.expect_page()
    before = server.descriptors()
    number = dice.randrange(5, 10)
    with together([server.visit(get()) for _ in range(number)]) as visitors:
        for visitor in visitors:
            visitor.reset()
    if not eventually(lambda: server.descriptors() <= before):
        raise Wrong(
            f"that it closes the {number} connections",
            "some of them are still open",
        )
    server.expect_page()
