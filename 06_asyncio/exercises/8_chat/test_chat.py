"""06.8: a chat from an empty file, on the loop of coroutines.py."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tools.common.raw_client import NoResponse
from tools.learn.student import (
    Serving,
    Visitor,
    Wrong,
    eventually,
    shown,
    together,
)

LONGEST = 1000  # bytes of a line
OFFER = 30_000_000  # bytes: several times what the two kernels keep
BUFFER = 1 << 14  # bytes of our own buffer, for who does not read


@contextmanager
def hall(server: Serving, clients: int) -> Iterator[list[Visitor]]:
    """So many clients, all of them accepted."""
    before = server.descriptors()
    with together([server.visit() for _ in range(clients)]) as made:
        eventually(lambda: server.descriptors() >= before + clients)
        server.falls_asleep()
        yield list(made)


def hear(visitor: Visitor, line: bytes) -> None:
    """The next bytes that this one gets are these. Raises Wrong."""
    while len(visitor.received) < len(line):
        try:
            more = visitor.receive(visitor.timeout)
        except NoResponse as error:
            raise Wrong(f"the line {shown(line)}", str(error)) from None
        if not more:
            raise Wrong(
                f"the line {shown(line)}", "the server closed the connection"
            )
    found = visitor.received[: len(line)]
    visitor.received = visitor.received[len(line):]
    if found != line:
        raise Wrong(f"the line {shown(line)}", f"{shown(found)} came")


def say(line: bytes, sayer: Visitor, others: Sequence[Visitor]) -> None:
    """One says a line, and all others hear it."""
    sayer.send(line)
    for other in others:
        hear(other, line)


def test_all_others(server: Serving, dice: random.Random) -> None:
    """Each line reaches all others, in order, and not who said it."""
    with hall(server, dice.randint(3, 5)) as made:
        for number in range(10):
            sayer = dice.choice(made)
            line = f"{number} {dice.random()}\n".encode()
            say(line, sayer, [each for each in made if each is not sayer])
        for each in made:
            each.expect_quiet(0.1)


def test_pieces(server: Serving, dice: random.Random) -> None:
    """A line may come in pieces, and several lines in one."""
    with hall(server, 3) as (sayer, *others):
        line = f"half a line, {dice.random()}\n".encode()
        cut = dice.randrange(1, len(line) - 1)
        sayer.send(line[:cut])
        for each in others:
            each.expect_quiet(0.2)
        sayer.send(line[cut:] + b"second\nthird\n")
        for each in others:
            hear(each, line + b"second\nthird\n")


def test_long_line(server: Serving, dice: random.Random) -> None:
    """Who sends more than 1,000 bytes without an end is closed."""
    with hall(server, 3) as (endless, sayer, other):
        say(b"x" * (LONGEST - 1) + b"\n", endless, [sayer, other])
        endless.send(b"x" * (LONGEST + dice.randint(1, 500)))
        endless.expect_closed()
        say(b"still here\n", sayer, [other])


def test_leaving(server: Serving, dice: random.Random) -> None:
    """However a client leaves, the others still get every line."""
    with hall(server, 6) as made:
        dice.shuffle(made)
        for leave in (Visitor.close, Visitor.reset, Visitor.half_close):
            gone = made.pop()
            gone.send(b"last words\n")
            for each in made:
                hear(each, b"last words\n")
            leave(gone)
            say(b"has left\n", made[0], made[1:])
            server.expect_alive()
        before = server.descriptors()
        made.pop().close()
        if not eventually(lambda: server.descriptors() < before):
            raise Wrong(
                "that it closes the connection of a client that has left",
                "it is still open",
            )


def test_does_not_read(server: Serving) -> None:
    """Who does not read is closed; the others still get every line."""
    sleeper = server.visit(receive_buffer=BUFFER)
    sleeper.story.append("reads nothing")
    line = b"x" * (LONGEST - 1) + b"\n"
    with hall(server, 2) as (sayer, other), together([sleeper]):
        before, said = server.descriptors(), 0
        sayer.story.append("said one long line after the other")
        while server.descriptors() >= before and said < OFFER:
            for _ in range(100):
                sayer.send_if_open(line)
                hear(other, line)
            said += 100 * len(line)
        if said >= OFFER:
            raise Wrong(
                "that the server closes the one that does not read",
                f"it is still connected after {said:,} bytes",
            )
        say(b"still here\n", sayer, [other])


def test_asleep(server: Serving) -> None:
    """There is one thread, and while nobody types it sleeps."""
    with hall(server, 5) as (sayer, *others):
        say(b"a line\n", sayer, others)
        server.expect_idle()
        if server.threads() > 1:
            raise Wrong("one thread", f"there are {server.threads()}")


def test_stop(server: Serving) -> None:
    """After SIGTERM the server ends, though clients are there."""
    with hall(server, 3) as (sayer, *others):
        say(b"a line\n", sayer, others)
        server.signal()
        server.expect_end(4)
