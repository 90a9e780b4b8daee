"""Exercise 06.8: from an empty file, a chat.

Run it:     python3 server.py
The task:   task.md
"""

import contextlib
import socket
from argparse import Namespace

import web
from coroutines import READABLE, Coroutine, loop, ready

LONGEST = 1000  # bytes of a line
SILENCE = 3600.0  # seconds that a client may say nothing
here: set[socket.socket] = set()  # the clients


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run our own event loop until a signal arrives."""
    loop.run(accept_all(listener))


def accept_all(listener: socket.socket) -> Coroutine:
    """Start a task for each client until a signal arrives."""
    listener.setblocking(False)
    web.announce(listener)
    while not web.shutting_down:
        try:
            yield from ready(listener, READABLE, web.clock() + web.TICK)
            sock, _ = listener.accept()
        except (TimeoutError, BlockingIOError, ConnectionError):
            continue  # no client connected, or it is gone again
        sock.setblocking(False)
        here.add(sock)
        loop.start(listen_to(sock))


def listen_to(sock: socket.socket) -> Coroutine:
    """Pass on what this client says, until it leaves."""
    received = b""
    try:
        while len(received) <= LONGEST:
            yield from ready(sock, READABLE, web.clock() + SILENCE)
            data = sock.recv(web.RECV_SIZE)
            if not data:
                break
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                tell_others(sock, line + b"\n")
    except OSError:  # it is gone
        pass
    finally:
        here.discard(sock)
        sock.close()


def tell_others(sender: socket.socket, line: bytes) -> None:
    """All others get this line; who has no room for it is closed."""
    for sock in here - {sender}:
        with contextlib.suppress(OSError):  # no room at all, or gone
            if sock.send(line) == len(line):
                continue
        here.discard(sock)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)  # its own task closes it


if __name__ == "__main__":
    web.main(serve)
