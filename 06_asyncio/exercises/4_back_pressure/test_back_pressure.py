"""06.4: who does not read his answers has to wait with his requests."""

import random
import re
import select
import socket

from tools.learn.plugin import Start
from tools.learn.student import (
    Program,
    Serving,
    Visitor,
    Wrong,
    eventually,
    get,
)

OFFER = 2_500_000  # bytes of requests: far more than any kernel's buffers
GROWTH = 8 * 2**20  # bytes; the answers to the whole offer are four times that
LINGER = 1.5  # seconds: longer than the server waits for our end
BUFFER = 1 << 16  # bytes of our own buffers, so that they matter little
# Put below web.py: else it is dropped for another reason after 5 s.
NEVER_IDLE = "IDLE_SECONDS = 600.0"
STATUS = re.compile(rb"^HTTP/1\.1 (\d+) ", re.MULTILINE)


def greedy(server: Serving) -> Visitor:
    """A client that is going to ask a lot and read nothing."""
    visitor = server.visit(receive_buffer=BUFFER)
    visitor.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    visitor.story.append("sent one request after the other, read no answer")
    return visitor


def push(server: Serving, visitor: Visitor) -> bool:
    """Send as much as the server takes. Has it taken the whole offer?

    It takes no more when it sleeps though there is something to read.

    Raises ConnectionError if the server hangs up.
    """
    requests = get() * 500
    visitor.socket.settimeout(0.1)
    sent = 0
    while sent < OFFER:
        try:
            sent += visitor.socket.send(requests[sent % len(get()):])
        except TimeoutError:
            if server.falls_asleep() and not writable(visitor):
                return False
    return True


def writable(visitor: Visitor) -> bool:
    """Could we send more now?"""
    return bool(select.select([], [visitor.socket], [], 0)[1])


def test_page(server: Serving) -> None:
    """Requests one after the other on a connection, as before."""
    with server.visit() as visitor:
        for _ in range(3):
            visitor.send(get())
            visitor.expect_page()


def test_has_to_wait(start: Start) -> None:
    """A client that never reads can send no more after a while."""
    server = start("--delay", "0", "--patience", "30")
    with greedy(server) as visitor:
        wanted = "that the server takes no more requests after a while"
        try:
            taken = push(server, visitor)
        except ConnectionError:
            raise Wrong(
                wanted, "it closed the connection, before --patience 30"
            ) from None
        if taken:
            raise Wrong(wanted, f"it has taken {OFFER:,} bytes of them")
        server.expect_page()  # nobody else has to wait


def test_memory(start: Start) -> None:
    """A client that never reads costs hardly any memory."""
    server = start("--delay", "0", "--patience", "30")
    server.expect_page()
    limit = server.memory() + GROWTH
    with greedy(server) as visitor:
        try:
            push(server, visitor)
        except ConnectionError:
            pass  # that is for the test above
        server.falls_asleep()
        if server.memory() > limit:
            raise Wrong(
                "a server that keeps few answers for it",
                f"its memory grew by more than {GROWTH >> 20} MiB",
            )


def test_late_reader(start: Start, dice: random.Random) -> None:
    """A client that reads late gets all its answers, in order."""
    server = start("--delay", "0", "--patience", "30")
    paths = dice.choices(["/", "/missing"], k=20_000)
    data = b"".join(get(path) for path in paths) + get(close=True)
    with server.visit(receive_buffer=BUFFER) as visitor:
        visitor.story.append(
            "sent 20,001 requests in one go, the last with Connection: "
            "close, waited a while"
        )
        visitor.send_if_open(data)
        server.falls_asleep(LINGER)  # it does not wait for us any more
        while not visitor.ended:
            visitor.receive(visitor.timeout)
        came = [int(status) for status in STATUS.findall(visitor.received)]
        visitor.story.append("then read all that came")
        expected = [200 if path == "/" else 404 for path in paths] + [200]
        if came != expected:
            raise Wrong(
                "20,001 answers in order, then the end",
                "the first came, but not all" if came == expected[:len(came)]
                else "they came in another order",
            )


def test_dropped(program: Program) -> None:
    """Who does not read at all for --patience 0.8 is dropped."""
    with program.below("web.py", NEVER_IDLE):
        server = program.start("--delay", "0", "--patience", "0.8")
    before = server.descriptors()
    with greedy(server) as visitor:
        try:
            push(server, visitor)
        except ConnectionError:
            pass  # already
        if not eventually(lambda: server.descriptors() <= before, 5):
            raise Wrong(
                "that the server drops this connection",
                "it has kept it for 5 s",
            )
    server.expect_page()


def test_nothing_else(start: Start) -> None:
    """No other wait is shortened by --patience 0.4."""
    server = start("--delay", "0.8", "--patience", "0.4")
    with server.visit(get()) as visitor:
        visitor.expect_page()
        visitor.expect_quiet(0.8)
        visitor.send(get())
        visitor.expect_page()
