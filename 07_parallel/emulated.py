"""Completions made from readiness, for where there is no io_uring.

Readiness says "you may receive now without waiting". A completion says
"here is what was received". Every operating system offers the first,
Linux (io_uring) and Windows (I/O completion ports) the second. This
engine turns the one into the other: it waits for readiness as step 05
does, makes the call itself, and hands over the result.

An engine belongs to one thread. Its operations return at once; what
becomes of them is told by `wait`, a batch at a time:

    accept(listener)     ACCEPTED  result: new descriptor    again: yes
    receive(fd)          RECEIVED  result: bytes in data, 0: the end
    send(fd, data)       SENT      result: bytes sent: all of them
    sleep(fd, seconds)   SLEPT     result: 0
    shutdown(fd)         nothing: our side is ended
    cancel(fd)           nothing: what is under way ends with ECANCELED
    close(fd)            nothing: only when nothing is under way

A result below zero is an error number with a minus sign, as the kernel
gives it. An operation that stays under way after its completion says
`again`; without it, it has to be asked for once more.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import selectors
import socket
import time
from typing import NamedTuple

ACCEPTED, RECEIVED, SENT, SLEPT = range(4)
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Completion(NamedTuple):
    """What has become of an operation."""

    kind: int  # ACCEPTED, RECEIVED, SENT or SLEPT
    fd: int  # of the socket it was asked for
    result: int  # below zero: minus an error number
    data: bytes = b""  # what was received
    again: bool = False  # is the operation still under way?


class Engine:
    """Operations in, completions out, over a selector."""

    name = "emulated"

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.sockets: dict[int, socket.socket] = {}
        self.accepting: set[int] = set()
        self.receiving: set[int] = set()
        self.sending: dict[int, tuple[bytes, int]] = {}  # rest, sent
        self.timers: list[tuple[float, int, int]] = []  # due, tie, fd
        self.ties = itertools.count()
        self.watched: dict[int, int] = {}
        self.done: list[Completion] = []

    def adopt(self, sock: socket.socket) -> None:
        """Take over a socket that did not come from accept."""
        sock.setblocking(False)
        self.sockets[sock.fileno()] = sock

    def accept(self, fd: int) -> None:
        """Accept connections until an error; each is a completion."""
        self.accepting.add(fd)
        self.watch(fd)

    def receive(self, fd: int) -> None:
        """Receive what comes next."""
        self.receiving.add(fd)
        self.watch(fd)

    def send(self, fd: int, data: bytes) -> None:
        """Send all of data; mostly the kernel takes it at once."""
        self.sending[fd] = (data, 0)
        self.send_rest(fd)

    def sleep(self, fd: int, seconds: float) -> None:
        """Complete after so many seconds."""
        due = time.monotonic() + seconds
        heapq.heappush(self.timers, (due, next(self.ties), fd))

    def shutdown(self, fd: int) -> None:
        """End our side: the client reads to the end of our answer."""
        try:
            self.sockets[fd].shutdown(socket.SHUT_WR)
        except OSError:  # the client is gone; receive will tell
            pass

    def cancel(self, fd: int) -> None:
        """End what is under way; sleep is not, it ends by itself."""
        if fd in self.receiving:
            self.receiving.discard(fd)
            self.complete(RECEIVED, fd, -errno.ECANCELED)
        if fd in self.sending:
            del self.sending[fd]
            self.complete(SENT, fd, -errno.ECANCELED)
        if fd in self.accepting:
            self.accepting.discard(fd)
            self.complete(ACCEPTED, fd, -errno.ECANCELED)

    def close(self, fd: int) -> None:
        """Close a socket that has nothing under way."""
        self.unwatch(fd)
        self.sockets.pop(fd).close()

    def wait(self) -> list[Completion]:
        """Wait until there are completions, and take them all."""
        for key, events in self.selector.select(self.pause()):
            if key.fd in self.accepting:
                self.accept_all(key.fd)
            elif events & READ and key.fd in self.receiving:
                self.receive_now(key.fd)
            elif events & WRITE and key.fd in self.sending:
                self.send_rest(key.fd)
            else:  # ready, and nobody asks: do not wake up for it again
                self.unwatch(key.fd)
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            _, _, fd = heapq.heappop(self.timers)
            self.complete(SLEPT, fd, 0)
        done, self.done = self.done, []
        return done

    def pause(self) -> float | None:
        """Seconds that the selector may wait; None: without end."""
        if self.done:
            return 0
        if self.timers:
            return max(self.timers[0][0] - time.monotonic(), 0)
        return None

    def watch(self, fd: int) -> None:
        """Let the selector look out for what is under way here.

        A socket that was watched for reading stays so until it becomes
        ready with nobody interested: mostly the next receive comes
        first, and that saves two system calls for each request.
        """
        wanted = 0
        if fd in self.accepting or fd in self.receiving:
            wanted |= READ
        if fd in self.sending:
            wanted |= WRITE
        if wanted and wanted != self.watched.get(fd, 0):
            if fd in self.watched:
                self.selector.modify(fd, wanted)
            else:
                self.selector.register(fd, wanted)
            self.watched[fd] = wanted

    def unwatch(self, fd: int) -> None:
        """The selector must forget a socket before it is closed."""
        if self.watched.pop(fd, 0):
            self.selector.unregister(fd)

    def complete(
        self,
        kind: int,
        fd: int,
        result: int,
        data: bytes = b"",
        again: bool = False,
    ) -> None:
        """Put a completion where wait will find it."""
        self.done.append(Completion(kind, fd, result, data, again))

    def accept_all(self, fd: int) -> None:
        """Empty the accept queue."""
        while True:
            try:
                sock, _ = self.sockets[fd].accept()
            except (BlockingIOError, ConnectionError):  # nobody, gone
                return
            except OSError as error:
                self.accepting.discard(fd)
                self.unwatch(fd)
                self.complete(ACCEPTED, fd, -number(error))
                return
            self.adopt(sock)
            self.complete(ACCEPTED, fd, sock.fileno(), again=True)

    def receive_now(self, fd: int) -> None:
        """The socket is readable: receive, and say so."""
        try:
            data = self.sockets[fd].recv(RECV_SIZE)
        except BlockingIOError:  # not ready after all: wait again
            return
        except OSError as error:
            self.receiving.discard(fd)
            self.complete(RECEIVED, fd, -number(error))
            return
        self.receiving.discard(fd)
        self.complete(RECEIVED, fd, len(data), data)

    def send_rest(self, fd: int) -> None:
        """Send what the kernel takes; go on when there is room."""
        data, sent = self.sending[fd]
        try:
            now = self.sockets[fd].send(data)
        except BlockingIOError:  # its buffer is full
            now = 0
        except OSError as error:
            del self.sending[fd]
            self.complete(SENT, fd, -number(error))
            return
        if now < len(data):
            self.sending[fd] = (data[now:], sent + now)
            self.watch(fd)
        else:
            del self.sending[fd]
            self.complete(SENT, fd, sent + now)


def number(error: OSError) -> int:
    """The error number of an exception."""
    return error.errno or errno.EIO
