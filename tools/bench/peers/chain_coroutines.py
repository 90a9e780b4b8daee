"""The numbered pages on the loop of 06_asyncio/coroutines.py."""

import importlib
import socket
import sys
import time
from collections.abc import Generator
from typing import Any

from tools.bench.peers.number import BACKLOG, END, MOST, address, response
from tools.servers import ROOT

FILE = ROOT / "06_asyncio" / "coroutines.py"
SECONDS = 10.0  # for a client to send something, or to take its answer
BATCH = 100  # connections to accept before others get a turn


def load() -> Any:
    """The file as a module, with the web.py beside it."""
    sys.path.insert(0, str(FILE.parent))
    return importlib.import_module(FILE.stem)


mini = load()


def talk(sock: socket.socket) -> Generator[Any, None, None]:
    """Answer the request of one connection."""
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
    """Accept until a signal ends the process."""
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
    mini.loop.run(main())
