"""The variants of the lab about frames: seventeen ways to echo one.

Each removes a copy that another one makes. lab.py runs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import importlib.util
import mmap
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

HEAD = struct.Struct("=Q")  # the length, in this machine's byte order
CHUNK = 1 << 20  # bytes that "through" and "splice" hold
PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)  # named since 3.10


class FrameError(Exception):
    """It cannot be measured; the text says why."""


class Memory:
    """Where frames are received: fresh buffers, or one for all."""

    def __init__(self, reuse: bool, limit: int) -> None:
        self.reuse = reuse
        self.limit = limit  # bytes: nobody may ask for more
        self.kept = bytearray()

    def buffer(self, size: int) -> bytearray:
        """A buffer of that many bytes.

        A fresh one is filled with zeros first: that touches every page
        of it for the first time, and costs as much as a copy.
        """
        self.check(size)
        if not self.reuse:
            return bytearray(size)
        if len(self.kept) != size:
            self.kept = bytearray(size)
        return self.kept

    def check(self, size: int) -> int:
        """The size, if it is no more than what was agreed."""
        if size > self.limit:
            raise FrameError(f"a frame of {size} bytes is too long")
        return size


# === On an event loop ===============================================
# A link is one end of a connection. "read" gives the next frame, or
# None when the other side has closed; "write" sends one.


class Link:
    """What all of them share."""

    sock: Any  # or what stands for it

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.head = bytearray(HEAD.size)

    def close(self) -> None:
        self.sock.close()


class Streams(Link):
    """asyncio streams: the shortest to write, and the most copies."""

    async def open(self, sock: socket.socket) -> None:
        self.reader, self.sock = await asyncio.open_connection(sock=sock)

    async def read(self) -> bytes | None:
        try:
            head = await self.reader.readexactly(HEAD.size)
        except asyncio.IncompleteReadError:
            return None
        size = self.memory.check(*HEAD.unpack(head))
        # recv makes pieces, the reader adds them to its buffer (copy),
        # and cuts the frame out of it (copy).
        return await self.reader.readexactly(size)

    async def write(self, frame: Any) -> None:
        self.sock.write(HEAD.pack(len(frame)))
        self.sock.write(frame)
        await self.sock.drain()


class Callbacks(Link, asyncio.BaseProtocol):
    """What the two protocols below share."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.frames: asyncio.Queue[Any] = asyncio.Queue()

    async def open(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=sock)

    def connection_made(self, transport: Any) -> None:
        self.sock = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.frames.put_nowait(None)

    async def read(self) -> Any:
        return await self.frames.get()

    async def write(self, frame: Any) -> None:
        # Up to Python 3.11 the transport copies what it cannot send
        # at once, and copies again while it sends the rest.
        self.sock.write(HEAD.pack(len(frame)))
        self.sock.write(frame)


class Pieces(Callbacks, asyncio.Protocol):
    """asyncio.Protocol: a list of pieces, joined when all are there."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.pieces: list[bytes] = []
        self.missing = -1  # bytes of the frame; -1: no head yet

    def data_received(self, data: bytes) -> None:
        if self.missing < 0:
            data = b"".join([*self.pieces, data])
            self.pieces = []
            if len(data) >= HEAD.size:
                size = self.memory.check(*HEAD.unpack_from(data))
                self.missing = size
                data = data[HEAD.size:]
        self.pieces.append(data)
        if self.missing >= 0:
            self.missing -= len(data)
            if self.missing == 0:
                # One copy less than streams: this is the only one.
                self.frames.put_nowait(b"".join(self.pieces))
                self.pieces, self.missing = [], -1


class Buffered(Callbacks, asyncio.BufferedProtocol):
    """asyncio.BufferedProtocol: the kernel writes into our buffer."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.head = bytearray(HEAD.size)
        self.frame = self.head  # what is being received
        self.have = 0

    def get_buffer(self, hint: int) -> memoryview:
        """Where the next bytes go: no pieces, so nothing to join."""
        return memoryview(self.frame)[self.have:]

    def buffer_updated(self, count: int) -> None:
        self.have += count
        if self.have < len(self.frame):
            return
        self.have = 0
        if self.frame is self.head:
            self.frame = self.memory.buffer(*HEAD.unpack(self.head))
        else:
            self.frames.put_nowait(self.frame)
            self.frame = self.head


class Sockets(Link):
    """loop.sock_recv_into: the same without a transport's copies."""

    async def open(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock, self.loop = sock, asyncio.get_running_loop()

    async def fill(self, buffer: bytearray) -> bool:
        view = memoryview(buffer)
        while view:
            count = await self.loop.sock_recv_into(self.sock, view)
            if not count:
                return False
            view = view[count:]
        return True

    async def read(self) -> bytearray | None:
        if not await self.fill(self.head):
            return None
        frame = self.memory.buffer(*HEAD.unpack(self.head))
        return frame if await self.fill(frame) else None

    async def write(self, frame: Any) -> None:
        await self.loop.sock_sendall(self.sock, HEAD.pack(len(frame)))
        await self.loop.sock_sendall(self.sock, frame)


class Tornado(Link):
    """Tornado's IOStream, read_bytes: a buffer, and a copy of it."""

    async def open(self, sock: socket.socket) -> None:
        tornado = importlib.import_module("tornado.iostream")
        sock.setblocking(False)
        self.closed = tornado.StreamClosedError
        self.sock = tornado.IOStream(
            sock, max_buffer_size=2 * self.memory.limit + CHUNK
        )

    async def body(self, size: int) -> Any:
        return await self.sock.read_bytes(self.memory.check(size))

    async def read(self) -> Any:
        try:
            head = await self.sock.read_bytes(HEAD.size)
            return await self.body(*HEAD.unpack(head))
        except self.closed:
            return None

    async def write(self, frame: Any) -> None:
        with contextlib.suppress(self.closed):
            self.sock.write(HEAD.pack(len(frame)))
            await self.sock.write(frame)


class TornadoInto(Tornado):
    """Tornado's IOStream, read_into: it receives into our buffer."""

    async def body(self, size: int) -> bytearray:
        frame = self.memory.buffer(size)
        await self.sock.read_into(frame)
        return frame


class Trio(Link):
    """trio's SocketStream: pieces, joined."""

    async def open(self, sock: socket.socket) -> None:
        trio = importlib.import_module("trio")
        self.sock = trio.socket.from_stdlib_socket(sock)
        self.stream = trio.SocketStream(self.sock)

    async def take(self, size: int) -> bytes:
        pieces = []
        while size:
            pieces.append(await self.stream.receive_some(min(size, CHUNK)))
            if not pieces[-1]:
                break
            size -= len(pieces[-1])
        return b"".join(pieces)

    async def read(self) -> bytes | None:
        head = await self.take(HEAD.size)
        if not head:
            return None
        return await self.take(self.memory.check(*HEAD.unpack(head)))

    async def write(self, frame: Any) -> None:
        await self.stream.send_all(HEAD.pack(len(frame)))
        await self.stream.send_all(frame)


# === On blocking sockets ============================================


class Reused(Link):
    """recv_into a buffer that has been used before: no page is new."""

    reuse = True

    def __init__(self, memory: Memory) -> None:
        super().__init__(Memory(self.reuse, memory.limit))

    def open(self, sock: socket.socket) -> None:
        self.sock = sock

    def fill(self, buffer: Any, flags: int = 0) -> bool:
        view = memoryview(buffer)
        while view:
            count = self.sock.recv_into(view, 0, flags)
            if not count:
                return False
            view = view[count:]
        return True

    def size(self) -> int | None:
        """The length of the next frame; None: there is none."""
        if not self.fill(self.head):
            return None
        return self.memory.check(*HEAD.unpack(self.head))

    def read(self) -> Any:
        size = self.size()
        if size is None:
            return None
        frame = self.memory.buffer(size)
        return frame if self.fill(frame) else None

    def write(self, frame: Any) -> None:
        self.sock.sendall(HEAD.pack(len(frame)))
        self.sock.sendall(frame)

    def echo(self) -> bool:
        """Send one frame back; False: the other side has closed."""
        frame = self.read()
        if frame is not None:
            self.write(frame)
        return frame is not None


class Fresh(Reused):
    """recv_into a fresh buffer each: no copy, but each page is new."""

    reuse = False


class Join(Reused):
    """recv makes pieces, join copies them into the frame."""

    def read(self) -> bytes | None:
        size = self.size()
        if size is None:
            return None
        pieces = []
        while size:
            pieces.append(self.sock.recv(min(size, CHUNK)))
            if not pieces[-1]:
                return None
            size -= len(pieces[-1])
        return b"".join(pieces)


class WaitAll(Reused):
    """recv_into with MSG_WAITALL: the frame in one call."""

    def fill(self, buffer: Any, flags: int = 0) -> bool:
        return super().fill(buffer, socket.MSG_WAITALL)


class Sendfile(Reused):
    """sendfile from a file in memory: the kernel sends our own pages.

    That removes the copy into the kernel. The pages must not change
    until the other side has read them: here it has, because the next
    frame only comes after that.
    """

    pages: mmap.mmap | None = None

    def echo(self) -> bool:
        size = self.size()
        if size is None:
            return False
        if self.pages is None or len(self.pages) != size:
            self.file = os.memfd_create("frame")
            os.ftruncate(self.file, size)
            self.pages = mmap.mmap(self.file, size)
        if not self.fill(self.pages):
            return False
        self.sock.send(self.head, socket.MSG_MORE)
        sent = 0
        while sent < size:
            sent += os.sendfile(
                self.sock.fileno(), self.file, sent, size - sent
            )
        return True


class Through(Reused):
    """A buffer of 1 MiB, sent on at once: it stays in the CPU's cache.

    It does not wait for the whole frame, so it is another service.
    """

    buffer = bytearray(CHUNK)

    def echo(self) -> bool:
        size = self.size()
        if size is None:
            return False
        self.sock.sendall(self.head)
        view = memoryview(self.buffer)
        while size:
            count = self.sock.recv_into(view, min(size, CHUNK))
            if not count:
                return False
            self.sock.sendall(view[:count])
            size -= count
        return True


class Splice(Reused):
    """splice: from socket to pipe to socket, never in our memory.

    Like "through" it does not wait for the whole frame: a pipe is
    small.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.out, self.into = os.pipe()
        with contextlib.suppress(OSError):  # the usual size will do
            fcntl.fcntl(self.into, PIPE_SIZE, CHUNK)

    def echo(self) -> bool:
        size = self.size()
        if size is None:
            return False
        self.sock.sendall(self.head)
        splice = os.splice  # type: ignore[attr-defined,unused-ignore]
        sock = self.sock.fileno()
        while size:
            held = splice(sock, self.into, size)
            if not held:
                return False
            size -= held
            while held:
                held -= splice(self.out, sock, held)
        return True


class Variant(NamedTuple):
    """A way to echo frames.

    runs_on: what runs its links; needs: the module that must be
    installed, or the function of os; old, new: copies of a frame in our
    own memory, for each echo, up to Python 3.11 and from 3.12 on (a
    test counts them).
    """

    name: str
    link: Callable[[Memory], Any]
    runs_on: str
    old: int
    new: int
    needs: str = ""

    @property
    def copies(self) -> int:
        """On this Python."""
        return self.new if sys.version_info >= (3, 12) else self.old

    def missing(self) -> str:
        """Why it cannot run here; "" if it can."""
        if self.needs.startswith("os."):
            if not hasattr(os, self.needs[3:]):
                return f"{self.needs} is not in this Python, or system"
        elif self.needs and not importlib.util.find_spec(self.needs):
            return f"{self.needs} is not installed for this Python"
        return ""


VARIANTS = {each.name: each for each in (
    Variant("streams", Streams, "asyncio", 5, 2),
    Variant("protocol", Pieces, "asyncio", 4, 1),
    Variant("buffered", Buffered, "asyncio", 3, 0),
    Variant("sock", Sockets, "asyncio", 0, 0),
    Variant("uv-streams", Streams, "uvloop", 3, 3, "uvloop"),
    Variant("uv-protocol", Pieces, "uvloop", 2, 2, "uvloop"),
    Variant("uv-buffered", Buffered, "uvloop", 0, 0, "uvloop"),
    Variant("tornado", Tornado, "asyncio", 2, 2, "tornado"),
    Variant("tornado-into", TornadoInto, "asyncio", 0, 0, "tornado"),
    Variant("trio", Trio, "trio", 1, 1, "trio"),
    Variant("join", Join, "threads", 1, 1),
    Variant("fresh", Fresh, "threads", 0, 0),
    Variant("reused", Reused, "threads", 0, 0),
    Variant("waitall", WaitAll, "threads", 0, 0),
    Variant("sendfile", Sendfile, "threads", 0, 0, "os.memfd_create"),
    Variant("through", Through, "threads", 0, 0),
    Variant("splice", Splice, "threads", 0, 0, "os.splice"),
)}
