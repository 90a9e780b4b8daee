"""Accepting and shutting down, the same in steps 02 and 03."""

from __future__ import annotations

import socket
import time

from web import TICK, count

open_now: set[socket.socket] = set()  # the clients' sockets


def accept(listener: socket.socket) -> socket.socket | None:
    """The next client's socket; None if there is none just now."""
    try:
        sock, _ = listener.accept()
    except (TimeoutError, BlockingIOError, ConnectionError):
        return None  # no client connected, or it is gone again
    except OSError:  # out of file descriptors: wait for free ones
        time.sleep(TICK)
        return None
    open_now.add(sock)
    count(connections=1)
    return sock


def accept_rest(listener: socket.socket) -> list[socket.socket]:
    """Accept the connections already queued, then stop listening."""
    listener.settimeout(0)
    found = []
    with listener:
        while (sock := accept(listener)) is not None:
            found.append(sock)
    return found


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended.

    Not before TICK, since their requests may be on the way to us.
    """
    if open_now:
        time.sleep(TICK)
    for sock in list(open_now):
        try:
            sock.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass
