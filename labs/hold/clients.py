"""Holds many connections open at once, a request under way in each.

The load of ``./bench.sh hold``, which starts several of these processes.
Each prints a line of JSON (a `Tally`) when all its connections are open,
and another when all responses have arrived.

Every connection has a port of its own on our side. One address has some
28,000 of them, but all of 127.0.0.0/8 is this machine on Linux.
"""

import contextlib
import json
import math
import re
import selectors
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tools.bench.machine import ROOM, raise_open_files
from tools.common.launch import eventually

PER_ADDRESS = 4096  # connections from one address: ports are found quickly
CONNECT_SECONDS = 30.0  # for one connection
QUEUE = 1024  # connections that may wait for accept: a quarter of it
LOOK_EVERY = 64  # connections between two looks at the queue
PAUSE_SECONDS = 0.002  # for the server to accept some
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
# The page that every server sends has 249 bytes.
PAGE = re.compile(rb"HTTP/1\.[01] 200 .*?\r\n\r\n.{249}", re.DOTALL)


@dataclass
class Tally:
    """What became of the connections. Moments: time.monotonic().

    opened: with the request sent; answered: with the right page;
    unanswered: open until the end, without it; error: what was wrong with
    one of the others.
    """

    opened: int = 0
    answered: int = 0
    unanswered: int = 0
    first_open: float = math.inf
    last_open: float = 0.0
    first_response: float = math.inf
    last_response: float = 0.0
    error: str = ""


def total(tallies: list[Tally]) -> Tally:
    """What became of the connections of several processes."""
    how: dict[str, Callable[..., Any]] = {
        "first_open": min, "first_response": min, "last_open": max,
        "last_response": max, "error": max,
    }
    return Tally(**{
        name: how.get(name, sum)(getattr(each, name) for each in tallies)
        for name in asdict(Tally())
    })


def open_all(
    port: int, place: int, connections: int, seconds: float,
    selector: selectors.BaseSelector,
) -> Tally:
    """Open connections within so many seconds, a request on each.

    place: which of the processes we are, since each has addresses of its
    own. Stops at the first connection that fails.
    """
    tally = Tally(first_open=time.monotonic())
    ours = f"127.1.{place}." if sys.platform == "linux" else ""
    for number in range(connections):
        try:
            left = tally.first_open + seconds - time.monotonic()
            if number % LOOK_EVERY == 0 and not eventually(
                lambda: waiting(port) <= QUEUE, left, PAUSE_SECONDS
            ):
                raise TimeoutError("the server does not accept it")
            source = f"{ours}{1 + number // PER_ADDRESS}" if ours else ""
            new = socket.create_connection(
                ("127.0.0.1", port), CONNECT_SECONDS, (source, 0)
            )
            new.sendall(REQUEST)
        except OSError as error:
            tally.error = f"connection {number:,} failed: {error}"
            break
        new.setblocking(False)
        selector.register(new, selectors.EVENT_READ, bytearray())
        tally.opened += 1
    tally.last_open = time.monotonic()
    return tally


def waiting(port: int) -> int:
    """Connections that wait for accept in the fullest queue of a port.

    When a queue is full, Linux lets clients wait for seconds. The first
    lines of /proc/net/tcp are the listening sockets. 0: not known.
    """
    table = b""
    with contextlib.suppress(OSError), open("/proc/net/tcp", "rb", 0) as file:
        table = file.read(4096)
    queues = re.findall(rb":%04X 0+:0+ 0A \w+:(\w+)" % port, table)
    return max((int(each, 16) for each in queues), default=0)


def read_all(
    selector: selectors.BaseSelector, tally: Tally, seconds: float
) -> None:
    """Read the responses for so long at most."""
    deadline = time.monotonic() + seconds
    tally.unanswered = tally.opened
    while tally.unanswered and (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            assert isinstance(key.fileobj, socket.socket)
            if receive(key.fileobj, key.data, tally):
                selector.unregister(key.fileobj)
                key.fileobj.close()
                tally.unanswered -= 1


def receive(held: socket.socket, received: bytearray, tally: Tally) -> bool:
    """Receive once; True if this connection is done."""
    try:
        data = held.recv(4096)
    except OSError as error:
        data, tally.error = b"", f"a connection ended: {error}"
    received += data
    if PAGE.fullmatch(received):
        tally.answered += 1
        tally.last_response = time.monotonic()
        tally.first_response = min(tally.first_response, tally.last_response)
        return True
    if not data:
        seen = bytes(received[:100])
        tally.error = tally.error or f"the server closed after {seen!r}"
    return not data


def main(port: int, place: int, connections: int, *seconds: float) -> None:
    """Hold connections; seconds: for opening them, and for responses."""
    raise_open_files(connections + ROOM)
    with selectors.DefaultSelector() as selector:
        tally = open_all(port, place, connections, seconds[0], selector)
        print(json.dumps(asdict(tally)), flush=True)
        read_all(selector, tally, seconds[1])
        print(json.dumps(asdict(tally)), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), *map(float, sys.argv[4:]))
