"""A client of --directory: it gets a file, or a part of one."""

from __future__ import annotations

import fcntl
import functools
import sys
import termios
from collections.abc import Callable

from client import Client
from files import Files, Transfer
from web import SEND, SEND_SECONDS, connection_field, shutting_down

SLOWEST = 16 * 1024  # bytes a second, or a client is dropped


def client_for(directory: str | None) -> Callable[[int], Client]:
    """What makes a client of a new connection's descriptor."""
    if not directory:
        return Client
    return functools.partial(FileClient, Files(directory))


class FileClient(Client):
    """Responds with a file where a Client responds with the page."""

    def __init__(self, files: Files, fd: int) -> None:
        super().__init__(fd)
        self.files = files
        self.sent = self.taken = 0  # bytes: by us, by the client

    def try_parse(self, begins: bool) -> None:
        """Keep the head: in its fields are conditions and a range."""
        self.head = self.received
        super().try_parse(begins)

    def work_done(self) -> None:
        """Respond with a file, if the target leads to one."""
        request = self.request
        assert request
        if request.status in (200, 404):
            keep = request.keep_alive and not shutting_down
            found = self.files.respond(
                request.method, request.target,
                self.head[: request.size],
                connection_field(request, keep),
            )  # fmt: skip
            if isinstance(found, Transfer):
                self.transfer = found if found.memory else None
                self.send_response(found.head, last=not keep)
                return
            self.request = request._replace(status=found)
        super().work_done()

    def data_sent(self, size: int) -> None:
        """Note that this many bytes of the response were sent."""
        self.sent += size
        if self.transfer:
            self.transfer.advance(size)
            if not self.transfer.done:
                self.wait_for(SEND, max(SEND_SECONDS, self.time_left()))
                return
            self.transfer = None
            size = len(self.unsent)
        super().data_sent(size)

    def check_progress(self) -> None:
        """Give a slow client time for what it has taken at once.

        Its kernel may take megabytes before it reads any, and then no
        more until it has read a good part of them.
        """
        if self.next is not SEND:
            return
        taken = self.sent - bytes_queued(self.fd)
        if taken > self.taken:
            seconds = (taken - self.taken) / SLOWEST
            self.taken = taken
            left = max(SEND_SECONDS, self.time_left())
            self.wait_for(SEND, max(seconds, left))


def bytes_queued(fd: int) -> int:
    """Bytes sent, but not taken by the client (tcp(7), SIOCOUTQ)."""
    try:
        found = fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(found, sys.byteorder)
