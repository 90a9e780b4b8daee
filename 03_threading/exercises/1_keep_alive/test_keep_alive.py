"""03.1: a connection stays open for more requests."""

import random

from tools.learn.plugin import Start
from tools.learn.student import (
    Program,
    Serving,
    Visitor,
    Wrong,
    get,
    telling,
)

OLD = b"GET / HTTP/1.0\r\n\r\n"
OLD_KEEP = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
# Requests that can be told apart by the status of their answers.
KINDS = [
    (get(), 200),
    (get("/missing"), 404),
    (get(method="DELETE"), 405),
    (get(method="BREW"), 501),
]


def expect_kept(visitor: Visitor) -> None:
    """The page, an answer that keeps the connection, and no more."""
    if visitor.expect_page().closes:
        raise Wrong(
            "an answer that lets the connection stay open",
            "its head says 'Connection: close'",
        )
    visitor.expect_quiet(0.2)


def expect_last(visitor: Visitor) -> None:
    """The page, an answer that says it is the last, and the end."""
    if not visitor.expect_page().closes:
        raise Wrong(
            "an answer with 'Connection: close', and the end",
            "its head does not say so",
        )
    visitor.expect_closed()


def test_close_on_request(server: Serving) -> None:
    """A client that says Connection: close gets the page and the end."""
    with server.visit(get(close=True)) as visitor:
        expect_last(visitor)


def test_one_after_the_other(
    server: Serving, dice: random.Random
) -> None:
    """Several requests on one connection get a page each."""
    with server.visit() as visitor:
        for _ in range(dice.randint(3, 5)):
            visitor.send(get())
            expect_kept(visitor)


def test_http10(server: Serving) -> None:
    """An HTTP/1.0 client is kept only if it asks for it, and is told so."""
    with server.visit(OLD) as visitor:
        visitor.expect_page()
        visitor.expect_closed()
    with server.visit(OLD_KEEP) as visitor:
        said = visitor.expect_page().get("Connection")
        if said.lower() != "keep-alive":
            raise Wrong(
                "an answer with Connection: keep-alive",
                f"the field was {said!r}",
            )
        visitor.send(OLD_KEEP)
        visitor.expect_page()


def test_all_at_once(server: Serving, dice: random.Random) -> None:
    """Requests in one piece are answered in order (BREW, no method: 501)."""
    chosen = dice.choices(KINDS, k=4)
    with server.visit() as visitor:
        visitor.send(b"".join(request for request, _ in chosen))
        for _, status in chosen:
            visitor.expect_status(status)
        visitor.expect_quiet(0.2)


def test_one_and_a_half(server: Serving, dice: random.Random) -> None:
    """What comes of the next request with this one is not lost."""
    request = get()
    cut = dice.randrange(1, len(request) - 1)
    with server.visit(request + request[:cut]) as visitor:
        expect_kept(visitor)
        visitor.send(request[cut:])
        visitor.expect_page()


def test_most(start: Start, dice: random.Random) -> None:
    """With --most N, the Nth answer is the last on its connection."""
    most = dice.randint(2, 4)
    server = start("--most", str(most))
    for _ in range(2):  # each connection counts for itself
        with telling(
            f"--most {most}",
            f"We asked {most} times on one connection, one after the other",
        ), server.visit() as visitor:
            for _ in range(most - 1):
                visitor.send(get())
                expect_kept(visitor)
            visitor.send(get())
            expect_last(visitor)
    with telling(
        f"--most {most}", f"We sent {most + 2} requests in one piece"
    ), server.visit(get() * (most + 2)) as visitor:
        for _ in range(most - 1):
            visitor.expect_page()
        expect_last(visitor)


def test_stopping(start: Start) -> None:
    """An answer that is sent while the server stops is the last."""
    server = start("--delay", "3")  # less than the grace of 5 s
    with telling(
        "We asked for / on a connection, and again",
        "while the second request was in work, we sent SIGTERM",
    ), server.visit(get()) as visitor:
        expect_kept(visitor)
        visitor.send(get())
        server.falls_asleep()  # it has the request, and waits
        server.signal()
        expect_last(visitor)
        server.expect_end()


def test_bad_request(server: Serving) -> None:
    """After a bad request, the connection is closed as before."""
    with server.visit(get()) as visitor:
        expect_kept(visitor)
        visitor.send(b"nonsense\r\n\r\n" + get())
        visitor.expect_status(400)
        visitor.expect_closed()


def test_first_request(program: Program) -> None:
    """A client has HEAD_SECONDS for its first request, and no longer."""
    with program.below("web.py", "HEAD_SECONDS, IDLE_SECONDS = 60.0, 0.2"):
        server = program.start()
    with telling(
        "HEAD_SECONDS = 60, IDLE_SECONDS = 0.2",
        "We connected, and sent nothing for a second",
    ), server.visit() as visitor:
        visitor.expect_quiet(1)
        visitor.send(get())
        visitor.expect_page()
    with program.below("web.py", "HEAD_SECONDS, IDLE_SECONDS = 0.2, 60.0"):
        server = program.start()
    with telling(
        "HEAD_SECONDS = 0.2, IDLE_SECONDS = 60",
        "We connected, and sent nothing",
    ), server.visit() as visitor:
        visitor.expect_closed()
    with telling(
        "HEAD_SECONDS = 0.2, IDLE_SECONDS = 60",
        "We had a response, and sent nothing for a second",
    ):
        with server.frozen():  # its time does not begin before we have sent
            visitor = server.visit(get())
        with visitor:
            visitor.expect_page()
            visitor.expect_quiet(1)
            visitor.send(get())
            visitor.expect_page()


def test_idle(server: Serving) -> None:
    """A client that asks no more is sent away after five seconds."""
    with server.visit(get()) as visitor:
        expect_kept(visitor)
        visitor.expect_later(3)
        visitor.expect_closed(5)
    server.expect_page()
