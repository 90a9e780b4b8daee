"""04.1: a client that does not read holds up nobody."""

import random
import re
import select

from tools.common.raw_client import Response
from tools.learn.plugin import Start
from tools.learn.student import (
    ANSWER_SECONDS,
    Program,
    Serving,
    Visitor,
    Wrong,
    clock,
    eventually,
    get,
    ready,
)

LONGEST = 60.0  # seconds for all that the greedy client does at once
SPINS = 6.0  # CPU seconds, more than all that it asks for takes
PAGE, MISSING = get(), get("/missing")
LAST = get(close=True)
STATUS = re.compile(rb"^HTTP/1\.1 ([0-9]{3}) ", re.MULTILINE)

# Put below clients.py: it writes into a file how many bytes each send was
# given, and where a turn of the loop begins. A send takes half of them, as
# it may whenever there is not much room.
NOTES = """\
import os


def note(what):
    with open("notes", "a") as file:
        file.write(f"{what} ")


class Noting(socket.socket):
    def send(self, data, *flags):
        note(len(data))
        return super().send(data[: len(data) // 2 + 1], *flags)

    def sendall(self, data, *flags):
        note(len(data))
        super().sendall(data, *flags)


def write(fd, data, first=os.write):
    if fd > 2:
        note(len(data))
    return first(fd, data)


class NotedClient(Client):
    def __init__(self, sock):
        super().__init__(Noting(fileno=sock.detach()))
        self.sock.setblocking(False)


class Turns(selectors.DefaultSelector):
    def select(self, timeout=None):
        note("turn")
        return super().select(timeout)


os.write = write
Client = NotedClient
selectors.DefaultSelector = Turns
"""


class Greedy:
    """A client that asks a lot and reads nothing, until it reads."""

    def __init__(self, server: Serving, dice: random.Random) -> None:
        self.responses = {each: response(server, each)
                        for each in (PAGE, MISSING, LAST)}
        count = dice.randrange(15_000, 17_000)
        self.asked = dice.choices([PAGE, MISSING], weights=(9, 1), k=count)
        self.asked.append(LAST)
        self.left = b"".join(self.asked)
        self.visitor = server.visit(receive_buffer=4096)
        self.visitor.story.append(f"sent {count} requests, read nothing")
        self.visitor.socket.setblocking(False)
        # All answers together are more than the kernel keeps for us: at
        # last the server takes nothing more, or has no more to do. A
        # second, since kernels try a full connection less and less often.
        used = server.cpu()
        while (
            (taken := self.step(0.1, reading=False) is not None)
            or not server.falls_asleep(1.0, longest=2.0)
            or self.step(0.1, reading=False) is not None
        ):
            if taken:
                used = server.cpu()
            elif server.cpu() > used + SPINS:
                raise Wrong(
                    "a server that sleeps until this client reads",
                    "it kept the CPU busy: what wakes it, again and again?",
                )

    def step(self, seconds: float, reading: bool) -> bytes | None:
        """Send and read what is possible now; None if nothing is."""
        us = [self.visitor.socket]
        may_read, may_write, _ = select.select(
            us if reading else [], us if self.left else [], [], seconds
        )
        try:
            if may_write:
                sent = us[0].send(self.left[:1 << 16])
                self.left = self.left[sent:]
            data = us[0].recv(1 << 20) if may_read else b""
        except OSError:
            return None
        return data if may_write or data else None

    def read(self) -> None:
        """At last read, to the end. Raises Wrong if answers are wrong."""
        self.visitor.story.append("then read all that came")
        received = bytearray()
        deadline = clock() + LONGEST
        while clock() < deadline and (
            ready([self.visitor.socket], ANSWER_SECONDS)
            and (data := self.step(0, reading=True)) is not None
        ):
            received += data
        right = [self.responses[each] for each in self.asked]
        came = [int(word) for word in STATUS.findall(received)]
        if len(came) != len(right):
            raise Wrong(
                f"an answer to each of {len(right)} requests",
                f"{len(came)} answers came",
            )
        if came != [each.status for each in right]:
            raise Wrong("the answers in order", "another order came")
        if len(received) != sum(len(each.raw) for each in right):
            raise Wrong(
                "each byte of each answer, once",
                "some bytes are missing or came twice",
            )


def response(server: Serving, request: bytes) -> Response:
    """What comes for a request."""
    with server.visit(request) as visitor:
        found = visitor.expect_answer()
        visitor.story.clear()  # it is the greedy client's that matters
        return found


def test_one_page(server: Serving) -> None:
    """A client that reads gets the page, twice on one connection."""
    with server.visit() as visitor:
        for _ in range(2):
            visitor.send(get())
            visitor.expect_page()


def test_nothing_to_do(server: Serving) -> None:
    """While a client that has its page stays, the server sleeps."""
    with server.visit(get()) as visitor:
        visitor.expect_page()
        server.expect_idle()


def test_pieces(program: Program, dice: random.Random) -> None:
    """Nobody is sent more than --piece bytes in a turn of the loop."""
    piece = dice.randrange(20, 60)
    with program.below("clients.py", NOTES):
        server = program.start("--piece", str(piece))
    with server.visit(get() + get("/missing", close=True)) as visitor:
        visitor.story.append(
            f"(--piece {piece}, and each send took half of what it was given)"
        )
        visitor.expect_page()
        visitor.expect_status(404)
        visitor.expect_closed()
    notes = program.left("notes").decode("ascii", "replace")
    sent = [
        sum(map(int, re.findall("[0-9]{1,9}", turn)))
        for turn in notes.split("turn")
    ]
    if sum(sent) < len(visitor.received):
        raise Wrong(
            f"that all {len(visitor.received)} bytes are sent with send",
            f"it was called for {sum(sent)} of them",
        )
    if max(sent) > piece:
        raise Wrong(
            f"at most {piece} bytes in a turn of the loop",
            f"in one of them the server sent {max(sent)}",
        )


def test_vanished(server: Serving, dice: random.Random) -> None:
    """Who asks five times and vanishes does no harm."""
    for leave in (Visitor.reset, Visitor.close):
        with server.visit(5 * get()) as visitor:
            visitor.pause(dice.choice([0, 0.06]))
            leave(visitor)
        eventually(server.ended, 0.5)
        server.expect_alive()
        server.expect_page()


def test_neighbour(start: Start, dice: random.Random) -> None:
    """While one client reads nothing, others get the page."""
    server = start("--delay", "0")
    greedy = Greedy(server, dice)
    for _ in range(dice.randrange(3, 6)):
        with server.visit(LAST) as visitor:
            visitor.expect_page()
            visitor.story.clear()  # only who gets nothing is told of
    if server.threads() > 1:
        raise Wrong("a loop that does it in one thread", "it has threads")
    greedy.visitor.socket.close()


def test_nothing_lost(start: Start, dice: random.Random) -> None:
    """When it reads at last, all its answers come, in order."""
    server = start("--delay", "0")
    greedy = Greedy(server, dice)
    greedy.read()


def test_asleep(start: Start, dice: random.Random) -> None:
    """The server sleeps meanwhile, and afterwards as well."""
    server = start("--delay", "0")
    greedy = Greedy(server, dice)
    server.expect_idle()
    greedy.read()
    with server.visit(get()) as visitor:  # stays, with nothing to say
        visitor.expect_page()
        server.expect_idle()
