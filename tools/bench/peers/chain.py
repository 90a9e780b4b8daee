# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""The numbered pages on several libraries' sockets: ``chain.py NAME ...``.

Behind the name stand host and port.
"""

import asyncio
import importlib
import socket
import sys
import time
from collections.abc import Generator
from typing import Any

from tools.bench.peers.number import END, MOST, response
from tools.bench.peers.page import BACKLOG, address
from tools.servers import ROOT

SECONDS = 10.0  # for a client to send something, or to take its response
BATCH = 100  # connections to accept before others get a turn


def on_asyncio() -> None:
    """On asyncio's streams."""

    async def talk(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            writer.write(response(await reader.readuntil(END)))
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()  # the client is gone

    async def main() -> None:
        server = await asyncio.start_server(talk, *address(), backlog=BACKLOG)
        await server.serve_forever()

    asyncio.run(main())


def on_tornado() -> None:
    """On Tornado's IOStream, below its HTTP server."""
    from tornado.iostream import StreamClosedError
    from tornado.tcpserver import TCPServer

    class Pages(TCPServer):
        async def handle_stream(self, stream: Any, address: Any) -> None:
            try:
                await stream.write(response(await stream.read_until(END)))
            except StreamClosedError:
                pass  # the client is gone
            finally:
                stream.close()

    async def main() -> None:
        host, port = address()
        Pages().listen(port, host, backlog=BACKLOG)
        await asyncio.Event().wait()

    asyncio.run(main())


def talk_blocking(sock: Any) -> None:
    """Answer the request of one connection, for gevent and eventlet.

    It waits in recv; each of them brings a socket that switches to another
    greenlet meanwhile.
    """
    received = b""
    try:
        while END not in received and len(received) < MOST:
            data = sock.recv(MOST)
            if not data:
                return
            received += data
        sock.sendall(response(received))
    except OSError:
        pass  # the client is gone
    finally:
        sock.close()


def on_gevent() -> None:
    """On gevent: a greenlet for each connection."""
    from gevent.server import StreamServer

    listener = StreamServer.get_listener(address(), BACKLOG, socket.AF_INET)
    StreamServer(listener, lambda s, _: talk_blocking(s)).serve_forever()


def on_eventlet() -> None:
    """On eventlet: a green thread for each connection."""
    import eventlet

    listener = eventlet.listen(address(), backlog=BACKLOG)
    while True:
        eventlet.spawn_n(talk_blocking, listener.accept()[0])


def on_coroutines() -> None:
    """On the loop of 06_asyncio/coroutines.py, with the web.py beside it."""
    sys.path.insert(0, str(ROOT / "06_asyncio"))
    mini: Any = importlib.import_module("coroutines")

    def talk(sock: socket.socket) -> Generator[Any, None, None]:
        received = b""
        try:
            sock.setblocking(False)
            while END not in received and len(received) < MOST:
                deadline = time.monotonic() + SECONDS
                yield from mini.ready(sock, mini.READABLE, deadline)
                data = sock.recv(MOST)
                if not data:
                    return
                received += data
            text = response(received)
            while text:
                try:
                    text = text[sock.send(text):]
                except BlockingIOError:
                    deadline = time.monotonic() + SECONDS
                    yield from mini.ready(sock, mini.WRITABLE, deadline)
        except OSError:  # the client is gone, or too slow
            pass
        finally:
            sock.close()

    def main() -> Generator[Any, None, None]:
        listener = socket.create_server(address(), backlog=BACKLOG)
        listener.setblocking(False)
        while True:
            try:
                deadline = time.monotonic() + SECONDS
                yield from mini.ready(listener, mini.READABLE, deadline)
                for _ in range(BATCH):
                    sock, _ = listener.accept()
                    mini.loop.start(talk(sock))
            except (TimeoutError, BlockingIOError, ConnectionError):
                pass  # nobody is there, or has left again

    mini.loop.run(main())


if __name__ == "__main__":
    globals()[f"on_{sys.argv[1]}"]()
