"""The page every peer sends: that of our own servers.

By hand, and as a WSGI and an ASGI application for servers of either.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

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
START = {
    "type": "http.response.start", "status": 200,
    "headers": [(n.lower().encode(), v.encode()) for n, v in FIELDS],
}
BODY = {"type": "http.response.body", "body": PAGE}


def response(request: bytes) -> tuple[bytes, bool]:
    """The response to a request, and whether the connection stays open.

    The least HTTP that does for a load generator: what is asked for is
    not looked at, and nothing is refused.
    """
    head = request.lower()
    if b" http/1.0\r\n" in head:
        if b"connection: keep-alive" in head:
            return KEPT_1_0, True
        return KEPT, False
    return KEPT, b"connection: close" not in head


def wsgi(
    environ: dict[str, Any],
    start_response: Callable[[str, list[tuple[str, str]]], object],
) -> list[bytes]:
    """Answer a request of a WSGI server."""
    start_response("200 OK", FIELDS)
    return [PAGE]


async def asgi(
    scope: dict[str, Any], receive: object,
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer a request of an ASGI server."""
    if scope["type"] == "http":
        await send(START)
        await send(BODY)


def address() -> tuple[str, int]:
    """Host and port, the first two words of the command line."""
    return sys.argv[1], int(sys.argv[2])
