"""06.5: a server that is stopped finishes what it has begun."""

import random
import signal
import socket

from tools.learn.plugin import Start
from tools.learn.student import (
    Program,
    Serving,
    Wrong,
    eventually,
    get,
    together,
)

SOON = 3.5  # seconds; after 5 the emergency brake of main() would end it


def stop(server: Serving, number: int = signal.SIGTERM) -> None:
    """Send the signal when all requests so far are under way."""
    server.falls_asleep()
    server.signal(number)


def refused(server: Serving) -> bool:
    """Is a new client turned away at the door?"""
    try:
        socket.create_connection(("127.0.0.1", server.port), 1).close()
    except ConnectionError:
        return True
    return False


def test_page(server: Serving) -> None:
    """Requests one after the other on a connection, as before."""
    with server.visit() as visitor:
        for _ in range(3):
            visitor.send(get())
            visitor.expect_page()


def test_finishes(start: Start, dice: random.Random) -> None:
    """Who has asked before the signal gets the page, then the end."""
    number = dice.choice([signal.SIGINT, signal.SIGTERM])
    clients = dice.randrange(3, 7)
    server = start("--delay", "1.5")
    made = [server.visit(get(close=n % 2 == 0)) for n in range(clients)]
    with together(made):
        stop(server, number)
        for visitor in made:
            visitor.story.append(f"(we sent {number.name} to the server)")
        for visitor in made:
            visitor.expect_page()
            visitor.expect_closed()
    said = server.expect_end(SOON)
    if f"Answered {clients} requests" not in said:
        raise Wrong(
            f"a closing line that counts {clients} requests",
            "its numbers are others" if "Answered" in said
            else "it did not come",
        )


def test_refuses(program: Program) -> None:
    """After the signal new clients are refused, while old ones wait."""
    with program.below("web.py", "GRACE_SECONDS = 60"):
        server = program.start("--delay", "60", "--grace", "60")
    with server.visit(get()) as visitor:
        stop(server)
        visitor.story.append("(we sent SIGTERM to the server)")
        if not eventually(lambda: refused(server), 1.5):
            raise Wrong(
                "that new clients are refused",
                "we could still connect 1.5 s after the signal",
            )
        visitor.expect_quiet(0.2)


def test_kept_connection(start: Start) -> None:
    """The last answer on a kept connection says Connection: close."""
    server = start("--delay", "1.2")
    with server.visit(get() + get()) as visitor:
        stop(server)
        visitor.story.append("(we sent SIGTERM to the server)")
        response = visitor.expect_page()
        if not response.closes:
            raise Wrong(
                "Connection: close in this answer, since none will follow",
                "it was not there",
            )
        visitor.expect_closed()
    server.expect_end(SOON)


def test_waits_for_nobody_else(start: Start, dice: random.Random) -> None:
    """Clients that have not asked do not hold up the end."""
    server = start("--delay", "0")
    half = get()[: dice.randrange(1, len(get()) - 1)]
    made = [server.visit(), server.visit(half), server.visit(get())]
    with together(made):
        made[-1].expect_page()
        stop(server)
        for visitor in made:
            visitor.story.append("(we sent SIGTERM to the server)")
        server.expect_end(SOON)


def test_nobody_there(server: Serving) -> None:
    """With no client at all it ends as well."""
    server.signal()
    server.expect_end(SOON)


def test_grace(start: Start) -> None:
    """Who is still at work after --grace 0.5 is cut off."""
    server = start("--delay", "30", "--grace", "0.5")
    with server.visit(get()) as visitor:
        stop(server)
        visitor.story.append("(we sent SIGTERM to the server)")
        server.expect_end(SOON)
