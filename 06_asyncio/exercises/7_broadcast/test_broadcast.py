"""06.7: a listener that reads gets every line, whatever the others do.

Lines are said one after the other. The next one is said when the client
that says them has its page, and all listeners that read have the line. So
speed does not matter.
"""

import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tools.common.raw_client import NoResponse
from tools.learn.plugin import Start
from tools.learn.student import Serving, Visitor, Wrong, get, together

BUFFER = 1 << 16  # bytes of our own buffer, so that it matters little
LINE = 6000  # bytes of a long line
OFFER = 2_000_000  # bytes: several times what the two kernels keep
SLACK = 4 * LINE  # bytes that a server may count in another way
ASLEEP = "one listener does not read"
SOON = 3.5  # seconds; after 5 the emergency brake of main() would end it


def listen(server: Serving) -> Visitor:
    """A client that listens; it has got the head already."""
    visitor = server.visit(get("/?listen"), receive_buffer=BUFFER)
    while b"\r\n\r\n" not in visitor.received:
        receive(visitor, "the head of an endless answer, with status 200")
    head, _, visitor.received = visitor.received.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise Wrong("status 200 for /?listen", repr(head[:30]))
    return visitor


def receive(visitor: Visitor, expected: str) -> None:
    """Something more. Raises Wrong if nothing comes."""
    try:
        if visitor.receive(visitor.timeout):
            return
        came = "the server closed the connection"
    except NoResponse:
        came = f"nothing came within {visitor.timeout:g} s"
    raise Wrong(expected, came)


def expect_line(visitor: Visitor, line: bytes, expected: str) -> None:
    """The next line, which has to be this one. Raises Wrong."""
    while len(visitor.received) < len(line):
        receive(visitor, expected)
    found = visitor.received[: len(line)]
    visitor.received = visitor.received[len(line):]
    if found != line:
        raise Wrong(expected, f"{found[:30]!r} came instead")


class Hall:
    """A client that says lines, and listeners that read them."""

    def __init__(self, server: Serving, readers: int) -> None:
        self.readers = [listen(server) for _ in range(readers)]
        self.sayer = server.visit()
        self.sayer.story.append("said one line after the other")
        self.said = 0  # bytes

    def say(self, word: str, others: str) -> None:
        """A line reaches all readers. others: what else is going on."""
        line = f"{word}\n".encode()
        self.said += len(line)
        self.sayer.send_if_open(get(f"/?say={word}"))
        try:
            self.sayer.expect_page()
        except Wrong as error:
            raise Wrong(
                f"the page for the client that said a line, while {others}",
                error.came,
            ) from None
        expected = f"the next line for all that read, while {others}"
        for reader in self.readers:
            expect_line(reader, line, expected)

    def go_on(self, others: str, words: Sequence[str] = "abc") -> None:
        """A few lines more."""
        for word in words:
            self.say(word, others)


@contextmanager
def hall(server: Serving, readers: int) -> Iterator[Hall]:
    """With so many listeners that read."""
    found = Hall(server, readers)
    with together([*found.readers, found.sayer]):
        yield found


def fall_asleep(server: Serving) -> Visitor:
    """A listener that does not read."""
    visitor = listen(server)
    visitor.story.append("then did not read")
    return visitor


def say_until_dropped(server: Serving, found: Hall) -> bool:
    """Say long lines until the server has closed a connection."""
    process = server.own()
    found.go_on(ASLEEP)  # all of them are accepted by now
    before = process.num_fds()
    while found.said < OFFER:
        found.say(f"{found.said:0{LINE - 1}}", ASLEEP)
        if process.num_fds() < before:
            return True
    return False


def drained(visitor: Visitor) -> int:
    """How many bytes still come until the server's end."""
    size = len(visitor.received)
    visitor.received = b""
    while not visitor.ended:
        receive_any(visitor)
        size += len(visitor.received)
        visitor.received = b""
    return size


def receive_any(visitor: Visitor) -> None:
    """Something more, or the end. Raises Wrong if nothing comes."""
    try:
        visitor.receive(visitor.timeout)
    except NoResponse:
        raise Wrong(
            "the end of the connection, after what the kernel had",
            f"nothing came within {visitor.timeout:g} s",
        ) from None


def test_everybody(server: Serving, dice: random.Random) -> None:
    """Every listener gets every line, in order; the page is as before."""
    server.expect_page()
    with hall(server, dice.randrange(3, 6)) as found:
        words = [f"{number}-{dice.random()}" for number in range(20)]
        found.go_on("all of them read", words)


def test_one_does_not_read(start: Start) -> None:
    """One listener does not read: the others still get every line."""
    server = start("--delay", "0")
    with fall_asleep(server), hall(server, 2) as found:
        say_until_dropped(server, found)
        found.go_on(ASLEEP)


def test_dropped(start: Start, dice: random.Random) -> None:
    """A listener that does not read is dropped when --behind bytes wait."""
    behind = dice.randrange(100, 250) * 1000
    server = start("--delay", "0", "--behind", str(behind))
    with fall_asleep(server) as sleeper, hall(server, 1) as found:
        if not say_until_dropped(server, found):
            raise Wrong(
                "that the listener that does not read is dropped",
                f"it is still connected after {OFFER:,} bytes: how many of "
                "them wait in the server's memory?",
            )
        waited = found.said - drained(sleeper)
        if abs(waited - behind) > SLACK:
            size = "more" if waited > behind else "fewer"
            raise Wrong(
                f"that it is dropped when {behind:,} bytes wait for it (a "
                "few lines more or less)",
                f"{size} bytes were waiting: all that was said, without what "
                "it could still read after that",
            )


def test_late_reader(start: Start) -> None:
    """A listener that reads late, but not too late, misses nothing."""
    server = start("--delay", "0", "--behind", "1000000")
    lines = [f"{number:0{LINE - 1}}\n".encode() for number in range(100)]
    with fall_asleep(server) as late, hall(server, 0) as found:
        for line in lines:
            found.say(line.decode().strip(), ASLEEP)
        late.story.append("now reads")
        for line in lines:
            expect_line(late, line, "every line, in order")


def test_vanished(start: Start, dice: random.Random) -> None:
    """Some listeners vanish: the others still get every line."""
    server = start("--delay", "0")
    with hall(server, 2) as found:
        for _ in range(dice.randrange(3, 6)):
            gone = [listen(server) for _ in range(2)]
            found.go_on("all of them read")
            dice.choice(gone).reset()
            found.go_on("one has vanished")
            with together(gone):
                pass
            found.go_on("two have vanished")


def test_stop(start: Start) -> None:
    """The server can be stopped while clients listen."""
    server = start("--delay", "0")
    with fall_asleep(server), hall(server, 2) as found:
        found.go_on(ASLEEP)
        server.signal(signal.SIGTERM)
        found.sayer.story.append("(we sent SIGTERM to the server)")
        server.expect_end(SOON)
