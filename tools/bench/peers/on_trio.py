# mypy: disable-error-code="import-not-found"
"""trio's streams by hand: what its event loop alone costs."""

from typing import Any

import trio

from tools.bench.peers.page import BACKLOG, address, response


async def serve(stream: Any) -> None:
    """Answer the requests of one connection."""
    received = b""
    keep = True
    try:
        while keep and (data := await stream.receive_some()):
            *requests, received = (received + data).split(b"\r\n\r\n")
            for request in requests:
                text, keep = response(request + b"\r\n")
                await stream.send_all(text)
    except trio.BrokenResourceError:
        pass  # the client is gone


if __name__ == "__main__":
    host, port = address()
    trio.run(
        lambda: trio.serve_tcp(serve, port, host=host, backlog=BACKLOG)
    )
