"""Completions made from readiness, for where there is no io_uring.

Readiness says "you may receive now without waiting". A completion says
"here is what was received". Every operating system offers the first,
Linux (io_uring) and Windows (I/O completion ports) the second. This
engine turns the one into the other: it waits for readiness as step 05
does, makes the call itself, and hands over the result.

An engine belongs to one thread. Its operations return at once; their
outcomes are returned by `wait`, a batch at a time:

    accept(listener)     ACCEPTED  result: new descriptor
    receive(fd, stream)  RECEIVED  result: bytes in data, 0: the end
    send(fd, data)       SENT      result: bytes sent, perhaps not all
    send_file(fd, ...)   SENT      the same, with a part of a file
    send_now(fd, ready)  nothing, unless it cannot all be sent at once:
                         then (fd, result) is in `failed` after the
                         next wait. ready: what prepare(response,
                         last) made; after the last one fd is closed
    sleep(fd, seconds)   SLEPT     result: 0
    shutdown(fd)         nothing: our side is closed
    stop_accepting(fd)   ACCEPTED  for connections queued already, then
                         with ECANCELED: now close the listener
    pause(fd)            nothing: a stream ends with ECANCELED
    cancel(fd)           nothing: what is in flight ends with ECANCELED
    close(fd)            nothing: only when nothing is in flight

A completion is (operation, fd, result, data, more). A result below zero
is an error number with a minus sign, as the kernel gives it; a receive
with ECANCELED has to be submitted again. `more` means that the
operation is still in flight and will complete again: accept does so
until an error, receive if it is a stream.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import mmap
import os
import selectors
import socket
import sys
import time
from typing import NamedTuple

if not hasattr(os, "fork"):
    sys.exit("step 07 needs os.fork: Linux, macOS, or WSL on Windows")
ACCEPTED, RECEIVED, SENT, SLEPT = range(4)
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

# The outcome of an operation: operation, fd, result, data, more.
Completion = tuple[int, int, int, bytes, bool]
Piece = bytes | memoryview


class Prepared(NamedTuple):
    """A response that can be sent many times."""

    response: bytes
    last: bool  # is it followed by the end of the connection?
    address: int  # where it is in memory; 0: not used


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
        """Receive what arrives next; as a stream, all that arrives."""
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

    def prepare(self, response: bytes, last: bool) -> Prepared:
        """What send_now sends; an engine may keep more than this."""
        return Prepared(response, last, 0)

    def send_now(self, fd: int, ready: Prepared) -> None:
        """Send a whole response at once, and close after the last."""
        try:
            sent = self.sockets[fd].send(ready.response)
        except OSError as error:
            sent = -number(error)
        if sent < len(ready.response):
            self.failing.append((fd, sent))
        elif ready.last:
            self.close(fd)

    def sleep(self, fd: int, seconds: float) -> None:
        """Complete after this many seconds."""
        due = time.monotonic() + seconds
        heapq.heappush(self.timers, (due, next(self.ties), fd))

    def stop_accepting(self, fd: int) -> None:
        """Accept the connections already queued, then no more."""
        self.accept_all(fd)
        self.cancel(fd)

    def shutdown(self, fd: int) -> None:
        """Close our side; the client reads the response to its end."""
        try:
            self.sockets[fd].shutdown(socket.SHUT_WR)
        except OSError:  # the client is gone; receive will show it
            pass

    def pause(self, fd: int) -> None:
        """End a stream; other operations stay in flight."""
        if fd in self.receiving:
            del self.receiving[fd]
            self.complete(RECEIVED, fd, -errno.ECANCELED)

    def cancel(self, fd: int) -> None:
        """End what is in flight, but not a sleep: it ends by itself."""
        self.pause(fd)
        if fd in self.sending:
            self.end_send(fd, -errno.ECANCELED)
        if fd in self.accepting:
            self.accepting.discard(fd)
            self.complete(ACCEPTED, fd, -errno.ECANCELED)

    def close(self, fd: int) -> None:
        """Close a socket that has nothing in flight."""
        self.unwatch(fd)
        self.sockets.pop(fd).close()

    def wait(self, block: bool = True) -> list[Completion]:
        """Take all completions; if block, wait for the first."""
        self.failed, self.failing = self.failing, []
        seconds = self.timeout() if block else 0
        for key, events in self.selector.select(seconds):
            if key.fd in self.accepting:
                self.accept_all(key.fd)
            elif events & READ and key.fd in self.receiving:
                self.receive_now(key.fd)
            elif events & WRITE and key.fd in self.sending:
                self.send_ready(key.fd)
            else:  # ready, but not asked for: do not wake up again
                self.unwatch(key.fd)
                self.watch(key.fd)  # except for what is still in flight
        now = time.monotonic()
        while self.timers and self.timers[0][0] <= now:
            _, _, fd = heapq.heappop(self.timers)
            self.complete(SLEPT, fd, 0)
        done, self.done = self.done, []
        return done

    def timeout(self) -> float | None:
        """Seconds that the selector may wait; None: without end."""
        if self.done or self.failed:
            return 0
        if self.timers:
            return max(self.timers[0][0] - time.monotonic(), 0)
        return None

    def watch(self, fd: int) -> None:
        """Let the selector wait for what is in flight here.

        A socket that was watched for reading stays so until it becomes
        ready without a receive: mostly the next receive is submitted
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
        operation: int,
        fd: int,
        result: int,
        data: bytes = b"",
        more: bool = False,
    ) -> None:
        """Put a completion where wait will find it."""
        self.done.append((operation, fd, result, data, more))

    def accept_all(self, fd: int) -> None:
        """Empty the accept queue."""
        while True:
            try:
                sock, _ = self.sockets[fd].accept()
            except (BlockingIOError, ConnectionError):  # empty, gone
                return
            except OSError as error:
                self.accepting.discard(fd)
                self.unwatch(fd)
                self.complete(ACCEPTED, fd, -number(error))
                return
            self.adopt(sock)
            self.complete(ACCEPTED, fd, sock.fileno(), more=True)

    def receive_now(self, fd: int) -> None:
        """The socket is readable: receive, and complete."""
        try:
            data = self.sockets[fd].recv(RECV_SIZE)
        except BlockingIOError:  # not ready after all: wait again
            return
        except OSError as error:
            del self.receiving[fd]
            self.complete(RECEIVED, fd, -number(error))
            return
        more = self.receiving[fd] and bool(data)
        if not more:
            del self.receiving[fd]
        self.complete(RECEIVED, fd, len(data), data, more)

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
