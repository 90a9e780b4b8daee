"""03.5: the balancer says who is asking, in a line before HTTP."""

import contextlib
import random

from tools.common.raw_client import NoResponse
from tools.learn.plugin import Start
from tools.learn.student import (
    ANSWER_SECONDS,
    Serving,
    Wrong,
    eventually,
    get,
    named,
)

HERE = "127.0.0.1"  # where the tests connect from
LONGEST = 107  # bytes of a line, its end included


def line(source: str, family: str = "TCP4", to: str = "198.51.100.1") -> bytes:
    """A PROXY line as a balancer sends it."""
    return f"PROXY {family} {source} {to} 56324 80\r\n".encode()


def expect_greeted(server: Serving, *addresses: str) -> None:
    """It has greeted these in this order, and nobody else."""

    def greeted() -> list[str]:
        lines = server.output.splitlines()
        return [x.partition(" ")[2] for x in lines if x.startswith("Hello")]

    eventually(lambda: len(greeted()) >= len(addresses))
    if greeted() != list(addresses):
        raise Wrong(
            "that it prints " + ", ".join(f"Hello {a}" for a in addresses),
            "it printed "
            + (", ".join(f"Hello {a}" for a in greeted()) or "no Hello"),
        )


def expect_dropped(server: Serving, data: bytes) -> None:
    """Who begins like this is closed without an answer, or reset."""
    with server.visit() as visitor:
        visitor.send(data)
        visitor.half_close()
        with contextlib.suppress(NoResponse):
            while visitor.receive(ANSWER_SECONDS):
                pass
        if not visitor.ended or visitor.received:
            raise Wrong(
                "that the server closes the connection without an answer",
                f"{named(visitor.received)} came" if visitor.received
                else "it did not",
            )


def test_no_balancer(server: Serving) -> None:
    """Without --proxy a request is one, and a PROXY line is none."""
    server.expect_page()
    with server.visit(line("192.0.2.7") + get()) as visitor:
        visitor.expect_status(400)
    expect_greeted(server, HERE, HERE)


def test_line(start: Start, dice: random.Random) -> None:
    """The address in the line is the client's, and the page comes."""
    server = start("--proxy", HERE)
    client = f"192.0.2.{dice.randrange(1, 255)}"
    with server.visit(line(client) + get(close=True)) as visitor:
        visitor.expect_page()
        visitor.expect_closed()
    expect_greeted(server, client)


def test_families(start: Start, dice: random.Random) -> None:
    """TCP6 has addresses of its own; UNKNOWN says nothing about anybody."""
    server = start("--proxy", HERE)
    client = f"2001:db8::{dice.randrange(1, 10_000)}"
    unknown = b"PROXY UNKNOWN"
    for first in (
        line(client, "TCP6", "2001:db8::1"), unknown + b"\r\n",
        unknown + b" what else".ljust(LONGEST - len(unknown) - 2) + b"\r\n",
    ):
        with server.visit(first + get(close=True)) as visitor:
            visitor.expect_page()
    expect_greeted(server, client, HERE, HERE)


def test_pieces(start: Start, dice: random.Random) -> None:
    """Line and request come in any pieces, also in one."""
    server = start("--proxy", HERE)
    both = line("192.0.2.7") + get()
    with server.visit() as visitor:
        visitor.send_slowly(both, pause=0.005)
        visitor.expect_page()
    for cut in (dice.randrange(1, 40), both.index(b"\n"), both.index(b"GET")):
        with server.visit() as visitor:
            visitor.send(both[:cut])
            visitor.expect_quiet(0.2)
            visitor.send(both[cut:])
            visitor.expect_page()


def test_once(start: Start) -> None:
    """One line for a connection: the requests after it have none."""
    server = start("--proxy", HERE)
    with server.visit(line("192.0.2.7") + get() + get()) as visitor:
        visitor.expect_page()
        visitor.expect_page()
        visitor.send(line("192.0.2.7") + get())
        visitor.expect_status(400)
    expect_greeted(server, "192.0.2.7")


def test_nothing_else(start: Start, dice: random.Random) -> None:
    """Whatever is no such line is closed without an answer."""
    server = start("--proxy", HERE)
    good = line("192.0.2.7")
    wrong = [
        b"",  # the request alone
        good.replace(b"PROXY", b"proxy"),
        good.replace(b"TCP4", b"TCP5"),
        good.replace(b"TCP4", b"TCP6"),  # with addresses of IPv4
        good.replace(b"192.0.2.7", b"192.0.2.256"),
        good.replace(b"198.51.100.1", b"localhost"),
        good.replace(b"56324", b"65536"),
        good.replace(b" 80", b" -1"),
        good.replace(b" 80", b""),
        good.replace(b" 80", b" 80 80"),
        good.replace(b"TCP4 ", b"TCP4  "),
        good.replace(b"\r\n", b"\n"),
        b"PROXY UNKNOWN " + b"x" * LONGEST + b"\r\n",
    ]
    dice.shuffle(wrong)
    for first in wrong:
        expect_dropped(server, first + get())
    expect_greeted(server)


def test_whom_to_believe(start: Start) -> None:
    """A line from anybody but the balancer is not believed."""
    server = start("--proxy", "192.0.2.200")
    expect_dropped(server, line("192.0.2.7") + get())
    expect_greeted(server)
