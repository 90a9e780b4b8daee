"""The page as a WSGI and as an ASGI application, for servers of either."""

from collections.abc import Awaitable, Callable
from typing import Any

from tools.bench.peers.page import FIELDS, PAGE

StartResponse = Callable[[str, list[tuple[str, str]]], object]
Message = dict[str, Any]
ASGI_FIELDS = [
    (name.lower().encode(), value.encode()) for name, value in FIELDS
]
START = {
    "type": "http.response.start", "status": 200, "headers": ASGI_FIELDS,
}
BODY = {"type": "http.response.body", "body": PAGE}


def wsgi(environ: Message, start_response: StartResponse) -> list[bytes]:
    """Answer a request of a WSGI server."""
    start_response("200 OK", FIELDS)
    return [PAGE]


async def asgi(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answer a request of an ASGI server."""
    if scope["type"] == "http":
        await send(START)
        await send(BODY)
