# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""The page on other people's libraries: ``on.py HOST PORT NAME``.

asyncio, uvloop and trio by hand, which shows what the event loop alone
costs; the others with their own HTTP.
"""

import asyncio
import importlib
import socket
import sys
from typing import Any, cast

from tools.bench.peers.page import (
    BACKLOG,
    FIELDS,
    PAGE,
    address,
    response,
    wsgi,
)


class Page(asyncio.Protocol):
    """Answers every request with the page."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with nothing received."""
        self.transport = cast(asyncio.Transport, transport)
        self.received = b""

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        *requests, self.received = (self.received + data).split(b"\r\n\r\n")
        for request in requests:
            text, keep = response(request + b"\r\n")
            self.transport.write(text)
            if not keep:
                self.transport.close()


async def serve() -> None:
    """On the loop that runs."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Page, *address(), backlog=BACKLOG)
    await server.serve_forever()


def on_asyncio(loops: Any = asyncio) -> None:
    """On asyncio's loop, or that of another module."""
    with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
        runner.run(serve())


def on_uvloop() -> None:
    """asyncio's interface on libuv, written in Cython."""
    on_asyncio(importlib.import_module("uvloop"))


def on_trio() -> None:
    """trio's streams by hand."""
    import trio

    async def talk(stream: Any) -> None:
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

    host, port = address()
    trio.run(lambda: trio.serve_tcp(talk, port, host=host, backlog=BACKLOG))


def on_tornado() -> None:
    """Tornado: its web framework on its HTTP server, asyncio's loop."""
    from tornado.web import Application, RequestHandler

    class Handler(RequestHandler):
        def get(self) -> None:
            for name, value in FIELDS:
                self.set_header(name, value)
            self.write(PAGE)

        def compute_etag(self) -> None:
            """None: the other peers send no ETag."""

    async def main() -> None:
        host, port = address()
        app = Application([("/", Handler)], log_function=lambda handler: None)
        app.listen(port, host, backlog=BACKLOG)
        await asyncio.Event().wait()

    asyncio.run(main())


def on_gevent() -> None:
    """gevent: its WSGI server, a greenlet for each connection."""
    from gevent.pywsgi import WSGIServer

    listener = WSGIServer.get_listener(address(), BACKLOG, socket.AF_INET)
    # It sends head and page in two pieces: without this the second waits
    # until the client has acknowledged the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    WSGIServer(listener, wsgi, log=None).serve_forever()


def on_eventlet() -> None:
    """eventlet: its WSGI server, a green thread for each connection."""
    import eventlet.wsgi

    listener = eventlet.listen(address(), backlog=BACKLOG)
    eventlet.wsgi.server(listener, wsgi, log_output=False)


if __name__ == "__main__":
    globals()[f"on_{sys.argv[3]}"]()
