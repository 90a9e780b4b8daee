"""The numbered pages on the loop of 06_asyncio/coroutines.py."""

import importlib
import socket
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from labs.chain.number import BACKLOG, END, MOST, address, response
from tools.servers import ROOT

FILE = ROOT / "06_asyncio" / "coroutines.py"
SECONDS = 10.0  # for a client to send something, or to take its response
BATCH = 100  # connections to accept before others get a turn


def load() -> Any:
    """The file as a module, with the web.py beside it."""
    sys.path.insert(0, str(FILE.parent))
    return importlib.import_module(FILE.stem)


mini = load()


def receive(sock: socket.socket) -> Generator[Any, None, bytes]:
    """The request of one connection; empty if the client has left."""
    sock.setblocking(False)
    received = b""
    while END not in received and len(received) < MOST:
        deadline = time.monotonic() + SECONDS
        yield from mini.ready(sock, mini.READABLE, deadline)
        data = sock.recv(MOST)
        if not data:
            return b""
        received += data
    return received


def send(sock: socket.socket, text: bytes) -> Generator[Any, None, None]:
    """Send all of it."""
    while text:
        try:
            text = text[sock.send(text):]
        except BlockingIOError:
            deadline = time.monotonic() + SECONDS
            yield from mini.ready(sock, mini.WRITABLE, deadline)


def talk(sock: socket.socket) -> Generator[Any, None, None]:
    """Answer the request of one connection."""
    try:
        if request := (yield from receive(sock)):
            yield from send(sock, response(request))
    except OSError:  # the client is gone, or too slow
        pass
    finally:
        sock.close()


def main(
    talk: Callable[[socket.socket], Generator[Any, None, None]]
) -> Generator[Any, None, None]:
    """Accept until a signal ends the process; talk: to each client."""
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


if __name__ == "__main__":
    mini.loop.run(main(talk))
