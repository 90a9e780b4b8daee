"""The numbered pages of the chain: each names the next one.

The load of the Syncless benchmark of 2010. The numbers are those of a
linear congruential generator, so that nobody can know the tenth thousandth
without fetching all before it, or computing them as `after` does.
"""

import os

from tools.bench.peers.page import BACKLOG, address

__all__ = ["BACKLOG", "address"]  # the same for all peers
FIRST = 0  # the number of the page /
MODULUS = 2**32
HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n"  # 44 bytes
BODY = b'Hello, World! <a href="/%d">next</a>'  # 44 with ten digits
END = b"\r\n\r\n"
MOST = 8192  # bytes of a request


def following(number: int) -> int:
    """The number that the page of this number names."""
    return ((1664525 * number) % MODULUS + 1013904223) % MODULUS


def after(fetches: int) -> int:
    """The number named by the last of so many pages, from the first."""
    number = FIRST
    for _ in range(fetches):
        number = following(number)
    return number


def response(request: bytes) -> bytes:
    """Head and body for ``GET /12 HTTP/1.0``.

    The least HTTP that does: nothing is refused. The benchmark's servers
    wrote a line for each request too.
    """
    return HEAD + page(request.split(b" ", 2)[1])


def page(path: bytes) -> bytes:
    """The body for a path such as /12; logs a line to stdout."""
    number = int(path[1:] or FIRST)
    os.write(1, b"GET %b\n" % path)
    return BODY % following(number)
