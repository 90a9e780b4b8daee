"""Simulated TCP: sockets, the clients at their other end, a selector."""

# ruff: noqa: D102 (what the standard library has documented)
from __future__ import annotations

import errno
import math
import selectors
import socket as real
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from tools.steps.kernel import Kernel

ROOM = 64 * 1024  # bytes that wait for their reader; then send has to
ADDRESS = "127.0.0.1"


class Table:
    """The descriptors of one simulated process; the lowest free is next."""

    def __init__(self, kernel: Kernel, process: int) -> None:
        self.kernel, self.process = kernel, process
        self.open: dict[int, Socket] = {}
        # What a forked process had open already: it opens it once more.
        self.inherited: dict[int, End] = {}

    def add(self, sock: Socket) -> int:
        """A descriptor for a new socket."""
        number = 3
        while number in self.open:
            number += 1
        self.open[number] = sock
        return number


class Pipe:
    """Bytes on their way in one direction, until they are read."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = self.reset = False
        self.wanted: Callable[[], None] = lambda: None  # something changed

    def room(self) -> int:
        """Bytes that can be sent now."""
        return ROOM - len(self.data)


class End:
    """What a descriptor stands for; several processes may hold it.

    queue: the connections that a listener can accept.
    """

    def __init__(
        self, incoming: Pipe | None = None, outgoing: Pipe | None = None
    ) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self.queue: deque[Client] | None = None
        self.holders = 1


class Socket:
    """What `socket.socket` is to a server, over the simulated kernel."""

    table: Table  # set by the modules that are made for a process

    def __init__(
        self, family: int = real.AF_INET, type: int = real.SOCK_STREAM,
        proto: int = 0, fileno: int | None = None,
    ) -> None:
        if fileno is not None:
            raise OSError(errno.EBADF, "not a simulated descriptor")
        self.family, self.type, self.proto = family, type, proto
        self._start(End())

    def _start(self, end: End) -> None:
        self.timeout: float | None = None
        self._io_refs, self._closed = 0, False
        self.kernel = self.table.kernel
        self.fd = self.table.add(self)
        self.end = self.table.inherited.pop(self.fd, end)

    @classmethod
    def between(cls, incoming: Pipe, outgoing: Pipe) -> Socket:
        """A connected socket."""
        new = cls.__new__(cls)
        new.family, new.type, new.proto = real.AF_INET, real.SOCK_STREAM, 0
        new._start(End(incoming, outgoing))
        return new

    # What it is.

    def fileno(self) -> int:
        return self.fd

    def getsockname(self) -> tuple[str, int]:
        return ADDRESS, 8000

    def getpeername(self) -> tuple[str, int]:
        if self.end.incoming is None:
            raise OSError(errno.ENOTCONN, "it is not connected")
        return ADDRESS, 50_000 + self.fd

    def settimeout(self, seconds: float | None) -> None:
        self.timeout = seconds

    def gettimeout(self) -> float | None:
        return self.timeout

    def setblocking(self, flag: bool) -> None:
        self.timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        return self.timeout != 0

    def setsockopt(self, *words: Any) -> None:
        """No option changes what is simulated."""

    def getsockopt(self, *words: Any) -> int:
        return 0

    # Is it ready?

    def readable(self) -> bool:
        """Would accept or recv return at once?"""
        if self.end.queue is not None:
            return bool(self.end.queue)
        pipe = self.end.incoming
        return pipe is not None and bool(
            pipe.data or pipe.ended or pipe.reset
        )

    def writable(self) -> bool:
        """Would send take something at once?"""
        pipe = self.end.outgoing
        return pipe is not None and (
            pipe.room() > 0 or pipe.reset or pipe.ended
        )

    def _wait(self, call: str, ready: Callable[[], bool]) -> None:
        """Raises BlockingIOError, TimeoutError as a real socket does."""
        if self._closed or self.fd < 0:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if self.timeout == 0:
            if not ready():
                self.kernel.note("call", call, self.fd, "nothing")
                raise BlockingIOError(errno.EAGAIN, "it would block")
            return
        until = None
        if self.timeout is not None:
            until = self.kernel.now + self.timeout
        if not self.kernel.wait([call, self.fd], ready, until):
            raise TimeoutError("timed out")

    # A listener.

    def bind(self, address: tuple[str, int]) -> None:
        """Any address is the one that the clients know."""

    def listen(self, backlog: int = 128) -> None:
        if self.end.queue is None:
            self.end.queue = deque()
        self.kernel.note("listen", self.fd)

    def accept(self) -> tuple[Socket, tuple[str, int]]:
        self._wait("accept", self.readable)
        assert self.end.queue is not None
        client = self.end.queue.popleft()
        client.accepted = True
        new = type(self).between(client.sent, client.received)
        self.kernel.note("call", "accept", self.fd, new.fd, client.number)
        return new, new.getpeername()

    # A connection.

    def recv(self, size: int, flags: int = 0) -> bytes:
        self._wait("recv", self.readable)
        pipe = self.end.incoming
        if pipe is None:
            raise OSError(errno.ENOTCONN, "it is not connected")
        if pipe.reset:
            self.kernel.note("call", "recv", self.fd, "reset")
            raise ConnectionResetError(errno.ECONNRESET, "reset by peer")
        data = pipe.data[:size]
        if not flags & real.MSG_PEEK:
            pipe.data = pipe.data[size:]
        self.kernel.note("call", "recv", self.fd, len(data))
        pipe.wanted()
        return data

    def recv_into(
        self, buffer: Any, size: int = 0, flags: int = 0
    ) -> int:
        view = memoryview(buffer).cast("B")
        data = self.recv(size or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        self._wait("send", self.writable)
        pipe = self.end.outgoing
        if pipe is None:
            raise OSError(errno.ENOTCONN, "it is not connected")
        if pipe.reset or pipe.ended:
            self.kernel.note("call", "send", self.fd, "broken")
            raise BrokenPipeError(errno.EPIPE, "the client is gone")
        taken = bytes(memoryview(data).cast("B")[: pipe.room()])
        pipe.data += taken
        self.kernel.note("call", "send", self.fd, len(taken))
        pipe.wanted()
        return len(taken)

    def sendall(self, data: Any, flags: int = 0) -> None:
        left = memoryview(data).cast("B")
        while left:
            left = left[self.send(left, flags):]

    def sendmsg(self, pieces: list[Any], *words: Any) -> int:
        return self.send(b"".join(bytes(each) for each in pieces))

    def shutdown(self, how: int) -> None:
        self.kernel.note("call", "shutdown", self.fd, how)
        if how != real.SHUT_RD and self.end.outgoing:
            self.end.outgoing.ended = True
            self.end.outgoing.wanted()
        if how != real.SHUT_WR and self.end.incoming:
            self.end.incoming.ended = True

    def close(self) -> None:
        self._closed = True
        if self._io_refs <= 0:
            self._real_close()

    def _real_close(self) -> None:
        """Unread bytes make a reset of it (RFC 2525, section 2.17)."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        self.table.open.pop(fd)
        self.kernel.note("call", "close", fd)
        self.end.holders -= 1
        if self.end.holders:  # another process has it open
            return
        for client in self.end.queue or ():
            client.received.reset = True
            client.received.wanted()
        if self.end.outgoing and self.end.incoming:
            if self.end.incoming.data:
                self.end.outgoing.reset = True
            self.end.outgoing.ended = self.end.incoming.ended = True
            self.end.outgoing.wanted()

    def detach(self) -> int:
        """Its descriptor lives on, for calls that take a number."""
        self._closed = True
        return self.fd

    # As the real class has it.

    makefile = real.socket.makefile
    _decref_socketios = real.socket._decref_socketios  # type: ignore

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._closed:
            self.close()


class Client:
    """One end of a connection, driven by its entry in the scenario.

    connect: when, in seconds; send: pairs of seconds after that and text;
    rate: bytes it reads in a second (none: all at once); reset, close:
    seconds after the beginning at which it leaves.
    """

    def __init__(self, kernel: Kernel, number: int, plan: dict[str, Any]):
        self.kernel, self.number, self.plan = kernel, number, plan
        self.sent, self.received = Pipe(), Pipe()
        self.received.wanted = self.read
        self.got = 0  # bytes
        self.first: float | None = None  # byte of a response, when
        self.last: float | None = None
        self.state = "away"  # open, closed, reset, refused
        self.reading = self.accepted = False

    def begin(self, listeners: Callable[[], list[Socket]]) -> None:
        """Put what it will do on the kernel's calendar."""
        start = self.kernel.now + float(self.plan.get("connect", 0))
        self.kernel.at(start, lambda: self.connect(listeners()))
        for after, text in self.plan.get("send", ()):
            self.kernel.at(start + after, partial(self.send, text))
        for how in ("reset", "close"):
            if how in self.plan:
                self.kernel.at(
                    start + self.plan[how], partial(self.leave, how)
                )

    def connect(self, listeners: list[Socket]) -> None:
        """The handshake: the kernel does it, whatever the server does."""
        if not listeners:
            self.state = "refused"
            self.kernel.note("client", self.number, "refused")
            return
        self.state = "open"
        # Several listen on one port: the kernel deals the clients out.
        listener = listeners[self.number % len(listeners)]
        assert listener.end.queue is not None
        listener.end.queue.append(self)
        self.kernel.note(
            "client", self.number, "connect", listener.fd,
            listener.table.process,
        )

    def send(self, text: str) -> None:
        """Send some of its request."""
        if self.state == "open":
            self.sent.data += text.encode()
            self.kernel.note("client", self.number, "send", len(text))
            self.sent.wanted()

    def leave(self, how: str) -> None:
        """Close its side, or reset the connection."""
        if self.state == "open":
            self.state = "closed" if how == "close" else "reset"
            self.kernel.note("client", self.number, how)
            if how == "reset":
                self.sent.reset = self.received.reset = True
                self.sent.data = b""
            self.sent.ended = True
            self.sent.wanted()

    def read(self) -> None:
        """Something has come: bytes, the end, a reset."""
        if not self.reading and self.state == "open":
            self.reading = True
            self.kernel.at(self.kernel.now, self.take)

    def take(self) -> None:
        """Take what there is, or what its rate allows in a tenth."""
        self.reading = False
        if self.state != "open":
            return
        pipe, rate = self.received, self.plan.get("rate")
        size = len(pipe.data) if rate is None else int(rate / 10)
        data, pipe.data = pipe.data[:size], pipe.data[size:]
        if data:
            if self.first is None:
                self.first = self.kernel.now
            self.last, self.got = self.kernel.now, self.got + len(data)
            self.kernel.note("client", self.number, "receive", len(data))
        if pipe.data:
            self.reading = True
            self.kernel.at(self.kernel.now + 0.1, self.take)
        elif pipe.reset or pipe.ended:
            self.state = "reset" if pipe.reset else "closed"
            word = "was reset" if pipe.reset else "end"
            self.kernel.note("client", self.number, word)
            self.sent.ended = True
            self.sent.wanted()

    def seen(self) -> str:
        """How it stands, in words."""
        if self.got:
            return f"has its response since {self.last:.3f} s"
        known = {"away": "not yet", "closed": "closed without a response"}
        if self.state == "open":
            return "accepted" if self.accepted else "in the queue"
        return known.get(self.state, self.state)

    def ended(self) -> bool:
        """Will it do nothing more?"""
        return self.state not in ("away", "open")


class Selector(selectors._BaseSelectorImpl):
    """All selectors of the standard library in one."""

    table: Table
    call = "select"  # as the trace names it
    quiet = False  # is it a part of something else?

    def note(self, kind: str, *details: Any) -> None:
        """Write down what it is asked."""
        if not self.quiet:
            self.table.kernel.note(kind, *details)

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        key = super().register(fileobj, events, data)
        self.note("watch", key.fd, events)
        return key

    def unregister(self, fileobj: Any) -> Any:
        key = super().unregister(fileobj)
        self.note("unwatch", key.fd)
        return key

    def select(self, timeout: float | None = None) -> list[Any]:
        kernel = self.table.kernel
        until = None
        if timeout is not None:  # rounded up, as the kernel does
            until = kernel.now + math.ceil(max(timeout, 0) * 1e6) / 1e6
        call = [self.call, len(self.get_map())]
        kernel.wait(call, lambda: bool(self._ready()), until)
        found = list(self._ready())
        self.note("ready", [key.fd for key, _ in found])
        return found

    def _ready(self) -> list[Any]:
        """(key, events) of each that is ready."""
        found = []
        for key in self.get_map().values():
            sock = self.table.open.get(key.fd)
            if sock is not None:
                events = key.events & (
                    sock.readable() * selectors.EVENT_READ
                    | sock.writable() * selectors.EVENT_WRITE
                )
                if events:
                    found.append((key, events))
        return found


def socket_pair() -> tuple[Socket, Socket]:
    """Two connected sockets."""
    one, other = Pipe(), Pipe()
    return Socket.between(one, other), Socket.between(other, one)


def create_server(address: Any, **options: Any) -> Socket:
    """A listening socket."""
    listener = Socket()
    listener.listen()
    return listener
