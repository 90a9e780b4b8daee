"""Completions made from readiness, for where there is no io_uring.

Readiness says "you may receive now without waiting". A completion says
"here is what was received". Every operating system offers the first,
Linux (io_uring) and Windows (I/O completion ports) the second. This
engine turns the one into the other: it waits for readiness as step 05
does, makes the call itself, and hands over the result.

An engine belongs to one thread. Its operations return at once; what
becomes of them is told by `wait`, a batch at a time:

    accept(listener)     ACCEPTED  result: new descriptor
    receive(fd, stream)  RECEIVED  result: bytes in data, 0: the end
    send(fd, data)       SENT      result: bytes sent, perhaps not all
    send_file(fd, ...)   SENT      the same, with a part of a file
    send_now(fd, ready)  nothing, unless it cannot all be sent at once:
                         then (fd, result) is in `failed` after the
                         next wait. ready: what prepare(answer, last)
                         made; after the last answer fd is closed
    sleep(fd, seconds)   SLEPT     result: 0
    shutdown(fd)         nothing: our side is ended
    refuse(listener)     ACCEPTED  for who is in the queue already, then
                         with ECANCELED: now close the listener
    pause(fd)            nothing: a stream ends with ECANCELED
    cancel(fd)           nothing: what is under way ends with ECANCELED
    close(fd)            nothing: only when nothing is under way

A completion is (kind, fd, result, data, again). A result below zero is
an error number with a minus sign, as the kernel gives it; a receive
with ECANCELED has to be asked for again. `again` says that the
operation is still under way and will complete again: accept does so
until an error, receive if it is a stream.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import mmap
import selectors
import socket
import time
from typing import NamedTuple

ACCEPTED, RECEIVED, SENT, SLEPT = range(4)
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

# What has become of an operation: kind, fd, result, data, again.
Completion = tuple[int, int, int, bytes, bool]
Piece = bytes | memoryview


class Prepared(NamedTuple):
    """An answer that can be sent again and again."""

    answer: bytes
    last: bool  # is it followed by the end of the connection?
    address: int  # where it is in memory; 0: who cares


class Engine:
    """Operations in, completions out, over a selector."""

    name = "emulated"

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.sockets: dict[int, socket.socket] = {}
        self.accepting: set[int] = set()
        self.receiving: dict[int, bool] = {}  # is it a stream?
        self.sending: dict[int, list[Piece]] = {}
        self.timers: list[tuple[float, int, int]] = []  # due, tie, fd
        self.ties = itertools.count()
        self.watched: dict[int, int] = {}
        self.done: list[Completion] = []
        self.failing: list[tuple[int, int]] = []
        self.failed: list[tuple[int, int]] = []  # of send_now

    def adopt(self, sock: socket.socket) -> None:
        """Take over a socket that did not come from accept."""
        sock.setblocking(False)
        self.sockets[sock.fileno()] = sock

    def accept(self, fd: int) -> None:
        """Accept connections until an error; each is a completion."""
        self.accepting.add(fd)
        self.watch(fd)

    def receive(self, fd: int, stream: bool = False) -> None:
        """Receive what comes next; as a stream, all that comes."""
        self.receiving[fd] = stream
        self.watch(fd)

    def send(self, fd: int, data: bytes) -> None:
        """Send data, or the beginning of it."""
        self.sending[fd] = [data]
        self.send_ready(fd)

    def send_file(
        self, fd: int, head: bytes, file: mmap.mmap, start: int,
        size: int,
    ) -> None:  # fmt: skip
        """Send head and a part of a file, or the beginning of them."""
        part = memoryview(file)[start : start + size]
        self.sending[fd] = [head, part]
        self.send_ready(fd)

    def prepare(self, answer: bytes, last: bool) -> Prepared:
        """What send_now sends; an engine may keep more than this."""
        return Prepared(answer, last, 0)

    def send_now(self, fd: int, ready: Prepared) -> None:
        """Send all of an answer at once, and close after the last."""
        try:
            sent = self.sockets[fd].send(ready.answer)
        except OSError as error:
            sent = -number(error)
        if sent < len(ready.answer):
            self.failing.append((fd, sent))
        elif ready.last:
            self.close(fd)

    def sleep(self, fd: int, seconds: float) -> None:
        """Complete after so many seconds."""
        due = time.monotonic() + seconds
        heapq.heappush(self.timers, (due, next(self.ties), fd))

    def refuse(self, fd: int) -> None:
        """Accept who is in the queue already, and nobody else."""
        self.accept_all(fd)
        self.cancel(fd)

    def shutdown(self, fd: int) -> None:
        """End our side: the client reads to the end of our answer."""
        try:
            self.sockets[fd].shutdown(socket.SHUT_WR)
        except OSError:  # the client is gone; receive will tell
            pass

    def pause(self, fd: int) -> None:
        """End a stream; what else is under way goes on."""
        if fd in self.receiving:
            del self.receiving[fd]
            self.complete(RECEIVED, fd, -errno.ECANCELED)

    def cancel(self, fd: int) -> None:
        """End what is under way; sleep is not, it ends by itself."""
        self.pause(fd)
        if fd in self.sending:
            self.end_send(fd, -errno.ECANCELED)
        if fd in self.accepting:
            self.accepting.discard(fd)
            self.complete(ACCEPTED, fd, -errno.ECANCELED)

    def close(self, fd: int) -> None:
        """Close a socket that has nothing under way."""
        self.unwatch(fd)
        self.sockets.pop(fd).close()

    def wait(self, block: bool = True) -> list[Completion]:
        """Take all completions; if block, wait for the first."""
        self.failed, self.failing = self.failing, []
        seconds = self.patience() if block else 0
        for key, events in self.selector.select(seconds):
            if key.fd in self.accepting:
                self.accept_all(key.fd)
            elif events & READ and key.fd in self.receiving:
                self.receive_now(key.fd)
            elif events & WRITE and key.fd in self.sending:
                self.send_ready(key.fd)
            else:  # ready, and nobody asks: do not wake up for it again
                self.unwatch(key.fd)
                self.watch(key.fd)  # but for what is still under way
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            _, _, fd = heapq.heappop(self.timers)
            self.complete(SLEPT, fd, 0)
        done, self.done = self.done, []
        return done

    def patience(self) -> float | None:
        """Seconds that the selector may wait; None: without end."""
        if self.done or self.failed:
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
        self.done.append((kind, fd, result, data, again))

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
            del self.receiving[fd]
            self.complete(RECEIVED, fd, -number(error))
            return
        again = self.receiving[fd] and bool(data)
        if not again:
            del self.receiving[fd]
        self.complete(RECEIVED, fd, len(data), data, again)

    def send_ready(self, fd: int) -> None:
        """Send what the kernel takes, or wait until there is room."""
        try:
            sent = self.sockets[fd].sendmsg(self.sending[fd])
        except BlockingIOError:  # its buffer is full
            self.watch(fd)
        except OSError as error:
            self.end_send(fd, -number(error))
        else:
            self.end_send(fd, sent)

    def end_send(self, fd: int, result: int) -> None:
        """A send is complete, has failed or was cancelled."""
        del self.sending[fd]
        self.complete(SENT, fd, result)


def number(error: OSError) -> int:
    """The error number of an exception."""
    return error.errno or errno.EIO
