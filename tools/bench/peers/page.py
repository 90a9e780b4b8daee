"""The page every peer answers with: that of our own servers."""

import sys
from pathlib import Path

PAGE = Path(__file__).with_name("page.html").read_bytes()
TYPE = "text/html; charset=utf-8"
FIELDS = [("Content-Type", TYPE), ("Content-Length", str(len(PAGE)))]
BACKLOG = 4096  # connections that wait to be accepted, as in our servers

# What a server written by hand sends: to HTTP/1.1, and to HTTP/1.0 with
# keep-alive, which has to be told that it gets what it asked for.
STATUS = b"HTTP/1.1 200 OK\r\n"
HEAD = "".join(f"{name}: {value}\r\n" for name, value in FIELDS).encode()
KEPT = STATUS + HEAD + b"\r\n" + PAGE
KEPT_1_0 = STATUS + HEAD + b"Connection: keep-alive\r\n\r\n" + PAGE


def response(request: bytes) -> tuple[bytes, bool]:
    """The answer to a request, and whether the connection stays open.

    The least HTTP that does for a load generator: what is asked for is
    not looked at, and nothing is refused.
    """
    head = request.lower()
    if b" http/1.0\r\n" in head:
        if b"connection: keep-alive" in head:
            return KEPT_1_0, True
        return KEPT, False
    return KEPT, b"connection: close" not in head


def address() -> tuple[str, int]:
    """Host and port, the two words of the command line."""
    return sys.argv[1], int(sys.argv[2])
