"""07.3: what follows a send, in a loop that lives on completions."""

import contextlib
import random
from collections.abc import Callable, Iterator

from tools.common.raw_client import Client
from tools.learn.student import (
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
FEW_BYTES = """

RECV_SIZE = {few}
Whole = Engine


class Engine(Whole):
    def send(self, fd, data):
        with open("sends", "a") as file:
            file.write("x")
        super().send(fd, data[:{few}])
"""


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
            answer = visitor.expect_answer(f"{len(missing)} answers")
            if answer.status != status:
                raise Wrong(
                    f"status {status} as answer {number}",
                    f"status {answer.status} came",
                )


def test_few_bytes(program: Program, dice: random.Random) -> None:
    """Answers come whole, though an engine may send a few bytes only."""
    few = dice.randrange(5, 20)
    with few_bytes(program, few):
        server = program.start()
        with server.visit(get()) as visitor:
            visitor.story.append(
                f"were answered by an engine that sends {few} bytes a time"
            )
            size = len(visitor.expect_page().raw)
            visitor.send(get("/missing", close=True))
            size += len(visitor.expect_status(404).raw)
            visitor.expect_closed()
        asked = program.path.with_name("sends")
        if not asked.exists() or asked.stat().st_size < size / few:
            raise Wrong(
                f"that the engine is asked to send, {few} bytes each time",
                "it was not asked often enough for what came",
            )


@contextlib.contextmanager
def few_bytes(program: Program, few: int) -> Iterator[None]:
    """Meanwhile the engine sends and receives so many bytes a time."""
    path = program.path.with_name("emulated.py")
    whole = path.read_text("utf-8")
    path.write_text(whole + FEW_BYTES.format(few=few), "utf-8")
    try:
        yield
    finally:
        path.write_text(whole, "utf-8")


def test_last_answer(start: Start, dice: random.Random) -> None:
    """After the last answer it reads what still comes, then it closes."""
    server = start("--delay", "0.3")
    size = dice.randrange(40_000, 60_000)
    with server.visit(get(close=True)) as visitor:
        Client.send(visitor, b"x" * size)  # too long for its story
        visitor.story.append(f"sent {size} bytes more")
        visitor.expect_page()
        visitor.expect_closed()


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
