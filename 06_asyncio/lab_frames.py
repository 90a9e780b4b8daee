"""Lab: an echo of 100 MB frames, and the copies on the way.

A frame is 8 bytes that say how long it is, then that many bytes. The
server receives the whole frame, then sends it back. Every variant below
does that, and each removes a copy that another one makes. Most of the
time goes where the program never looks: into memory.

Run it:     python3 06_asyncio/lab_frames.py
Try this:   python3 06_asyncio/lab_frames.py --only streams,sock
            the same with --profile, or with --shape two, or with
            GLIBC_TUNABLES=glibc.malloc.hugetlb=1 set (Linux): then a
            buffer costs 49 page faults of 2 MiB, not 24,415 of 4 KiB
It runs on Python 3.8 and later; uvloop, Tornado and trio are measured
where they are installed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import importlib
import importlib.util
import itertools
import json
import math
import mmap
import os
import platform
import pstats
import re
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn, TextIO

try:
    import fcntl
    import resource
except ImportError:
    sys.exit("lab_frames.py: it needs Linux or macOS; here, try WSL")

HEAD = struct.Struct("=Q")  # the length, in this machine's byte order
HOST = "127.0.0.1"
SIZE = 100_000_000  # bytes of a frame, as in 2017
FRAMES = 5  # a run has
ROUNDS = 3
MOST_FRAMES, MOST_ROUNDS = 1000, 100
MOST_MEMORY = 5  # frames in memory at once, in the worst variant
CHUNK = 1 << 20  # bytes that "through" and "splice" hold
PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)  # named since 3.10
START_SECONDS = 30  # for a server to start, or a client to come
END_SECONDS = 30  # for a process to end that has been told to
PROFILED = 8  # functions that --profile shows
STOPPING = (signal.SIGINT, signal.SIGTERM)
HUGE = "hugetlb=1"  # what GLIBC_TUNABLES says for huge pages


class FrameError(Exception):
    """It cannot be measured; the text says why."""


# === Memory =========================================================


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


class Streams:
    """asyncio streams: the shortest to write, and the most copies."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    async def open(self, sock: socket.socket) -> None:
        """Take over a connected socket."""
        self.reader, self.writer = await asyncio.open_connection(
            sock=sock
        )

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
        self.writer.write(HEAD.pack(len(frame)))
        self.writer.write(frame)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()


class Callbacks(asyncio.BaseProtocol):
    """What the two protocols below share."""

    transport: asyncio.Transport

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.frames: asyncio.Queue[Any] = asyncio.Queue()

    async def open(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=sock)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.frames.put_nowait(None)

    async def read(self) -> Any:
        return await self.frames.get()

    async def write(self, frame: Any) -> None:
        # Up to Python 3.11 the transport copies what it cannot send
        # at once, and copies again while it sends the rest.
        self.transport.write(HEAD.pack(len(frame)))
        self.transport.write(frame)

    def close(self) -> None:
        self.transport.close()


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


class Sockets:
    """loop.sock_recv_into: the same without a transport's copies."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.head = bytearray(HEAD.size)

    async def open(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.loop = asyncio.get_running_loop()

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

    def close(self) -> None:
        self.sock.close()


class Tornado:
    """Tornado's IOStream, read_bytes: a buffer, and a copy of it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    async def open(self, sock: socket.socket) -> None:
        tornado = importlib.import_module("tornado.iostream")

        sock.setblocking(False)
        self.closed = tornado.StreamClosedError
        self.stream = tornado.IOStream(
            sock, max_buffer_size=2 * self.memory.limit + CHUNK
        )

    async def body(self, size: int) -> Any:
        return await self.stream.read_bytes(self.memory.check(size))

    async def read(self) -> Any:
        try:
            head = await self.stream.read_bytes(HEAD.size)
            return await self.body(*HEAD.unpack(head))
        except self.closed:
            return None

    async def write(self, frame: Any) -> None:
        with contextlib.suppress(self.closed):
            self.stream.write(HEAD.pack(len(frame)))
            await self.stream.write(frame)

    def close(self) -> None:
        self.stream.close()


class TornadoInto(Tornado):
    """Tornado's IOStream, read_into: it receives into our buffer."""

    async def body(self, size: int) -> bytearray:
        frame = self.memory.buffer(size)
        await self.stream.read_into(frame)
        return frame


class Trio:
    """trio's SocketStream: pieces, joined."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    async def open(self, sock: socket.socket) -> None:
        trio = importlib.import_module("trio")

        own = trio.socket.from_stdlib_socket(sock)
        self.stream = trio.SocketStream(own)

    async def take(self, size: int) -> bytes | None:
        pieces = []
        while size:
            piece = await self.stream.receive_some(min(size, CHUNK))
            if not piece:
                return None
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    async def read(self) -> bytes | None:
        head = await self.take(HEAD.size)
        if head is None:
            return None
        return await self.take(self.memory.check(*HEAD.unpack(head)))

    async def write(self, frame: Any) -> None:
        await self.stream.send_all(HEAD.pack(len(frame)))
        await self.stream.send_all(frame)

    def close(self) -> None:
        self.stream.socket.close()


# === On blocking sockets ============================================


class Reused:
    """recv_into a buffer that has been used before: no page is new."""

    def __init__(self, memory: Memory) -> None:
        self.memory = Memory(True, memory.limit)
        self.head = bytearray(HEAD.size)

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
        size: int = HEAD.unpack(self.head)[0]
        return self.memory.check(size)

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
        """Answer one frame; False: the other side has closed."""
        frame = self.read()
        if frame is None:
            return False
        self.write(frame)
        return True

    def close(self) -> None:
        self.sock.close()


class Fresh(Reused):
    """recv_into a fresh buffer each: no copy, but each page is new."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.memory = Memory(False, memory.limit)


class Join(Reused):
    """recv makes pieces, join copies them into the frame."""

    def read(self) -> bytes | None:
        size = self.size()
        if size is None:
            return None
        pieces = []
        while size:
            piece = self.sock.recv(min(size, CHUNK))
            if not piece:
                return None
            pieces.append(piece)
            size -= len(piece)
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

    def open(self, sock: socket.socket) -> None:
        self.sock = sock
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

    def close(self) -> None:
        super().close()
        os.close(self.out)
        os.close(self.into)


# === The variants ===================================================


class Variant:
    """A way to echo frames.

    link: one of the classes above; runs_on: what runs it; needs: the
    module that must be installed, or the function of os; removes: which
    copy it is rid of; received: copies of a frame in our own memory
    when it is received; sent: when it is sent, up to Python 3.11 and
    from 3.12 on. Counted by tools/bench/count.c, and a test compares:
    3 is what it comes near to, as the first bytes go out at once.
    """

    def __init__(
        self, name: str, link: Callable[[Memory], Any], runs_on: str,
        needs: str, received: int, sent: tuple[int, int], removes: str,
    ) -> None:
        self.name = name
        self.link = link
        self.runs_on = runs_on
        self.needs = needs
        self.removes = removes
        self.copies = received + sent[sys.version_info >= (3, 12)]

    def missing(self) -> str:
        """Why it cannot run here; "" if it can."""
        if self.needs.startswith("os."):
            if not hasattr(os, self.needs[3:]):
                return f"{self.needs} is not in this Python, or system"
        elif self.needs and not importlib.util.find_spec(self.needs):
            return f"{self.needs} is not installed for this Python"
        return ""


VARIANTS = [
    Variant("streams", Streams, "asyncio", "", 2, (3, 0),
            "nothing: every copy there is"),
    Variant("protocol", Pieces, "asyncio", "", 1, (3, 0),
            "the stream's buffer: the pieces are joined once"),
    Variant("buffered", Buffered, "asyncio", "", 0, (3, 0),
            "the join: the kernel writes into the frame"),
    Variant("sock", Sockets, "asyncio", "", 0, (0, 0),
            "the transport's copies while it sends (Python < 3.12)"),
    Variant("uv-streams", Streams, "uvloop", "uvloop", 3, (0, 0),
            "the transport's; but it copies each piece it receives"),
    Variant("uv-protocol", Pieces, "uvloop", "uvloop", 2, (0, 0),
            "the stream's buffer, on uvloop"),
    Variant("uv-buffered", Buffered, "uvloop", "uvloop", 0, (0, 0),
            "the pieces and the join, on uvloop: none is left"),
    Variant("tornado", Tornado, "asyncio", "tornado", 2, (0, 0),
            "nothing when it receives; it sends without a copy"),
    Variant("tornado-into", TornadoInto, "asyncio", "tornado", 0,
            (0, 0), "Tornado's buffer: it receives into ours"),
    Variant("trio", Trio, "trio", "trio", 1, (0, 0),
            "all but the join"),
    Variant("join", Join, "threads", "", 1, (0, 0),
            "the event loop; the join is left"),
    Variant("fresh", Fresh, "threads", "", 0, (0, 0),
            "the join; but the buffer's pages are new"),
    Variant("reused", Reused, "threads", "", 0, (0, 0),
            "new pages: the buffer has been used before"),
    Variant("waitall", WaitAll, "threads", "", 0, (0, 0),
            "calls: the kernel fills the frame in one"),
    Variant("sendfile", Sendfile, "threads", "os.memfd_create", 0,
            (0, 0), "the copy into the kernel: it sends our pages"),
    Variant("through", Through, "threads", "", 0, (0, 0),
            "the way to main memory: 1 MiB at a time, not a frame"),
    Variant("splice", Splice, "threads", "os.splice", 0, (0, 0),
            "our memory altogether; not a whole frame either"),
]
NAMES = [variant.name for variant in VARIANTS]


# === One process: the source's shape ================================


class Job:
    """What one process is to do, and what it notes down."""

    def __init__(
        self, name: str, size: int, frames: int, reuse: bool,
        profile: bool = False, count: bool = False,
    ) -> None:
        self.variant = VARIANTS[NAMES.index(name)]
        self.size = size
        self.frames = frames
        self.reuse = reuse
        self.profiler = cProfile.Profile() if profile else None
        self.count = count
        self.meter = Meter()

    def end(self) -> Any:
        """One end of a connection, with buffers of its own."""
        return self.variant.link(Memory(self.reuse, self.size))

    def loop(self, main: Callable[[], Any]) -> None:
        """Run an async function on the variant's event loop."""
        if self.profiler:
            self.profiler.enable()
        if self.variant.runs_on == "trio":
            trio = importlib.import_module("trio")

            trio.run(main)
        elif self.variant.runs_on == "uvloop":
            uvloop = importlib.import_module("uvloop")

            loop = uvloop.new_event_loop()
            try:
                loop.run_until_complete(main())
            finally:
                loop.close()
        else:
            asyncio.run(main())
        if self.profiler:
            self.profiler.disable()


class Meter:
    """CPU seconds, page faults and the clock, from start to stop."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.usage = resource.getrusage(resource.RUSAGE_SELF)
        self.begun = time.perf_counter()

    def stop(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.begun
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": seconds,
            "user": usage.ru_utime - self.usage.ru_utime,
            "system": usage.ru_stime - self.usage.ru_stime,
            "faults": usage.ru_minflt - self.usage.ru_minflt,
        }


def frame_of(size: int) -> bytearray:
    """A frame that does not repeat itself soon."""
    noise = os.urandom(min(size, 1_000_003))
    frame = bytearray(noise * (size // len(noise) + 1))
    del frame[size:]
    return frame


def stamp(frame: bytearray, number: int) -> None:
    """Make a frame differ from the last one, at both ends."""
    mark = HEAD.pack(number)[:len(frame)]
    frame[:len(mark)] = mark
    frame[-len(mark):] = mark


def check(frame: bytearray, answer: Any) -> None:
    """That the answer is the frame: length and ends. Costs no time."""
    if answer is None:
        raise FrameError("the server closed before it had answered")
    ends = slice(0, 64), slice(-64, None)
    if len(answer) != len(frame) or any(
        bytes(memoryview(answer)[end]) != frame[end] for end in ends
    ):
        raise FrameError("the echo is not what was sent")


def check_all(frame: bytearray, answer: Any) -> None:
    """That every byte is right. Takes a while: not on the clock."""
    check(frame, answer)
    if zlib.crc32(answer) != zlib.crc32(frame):
        raise FrameError("the echo is not what was sent")


def connect(port: int) -> socket.socket:
    """A connection to a server on this machine."""
    sock = socket.create_connection((HOST, port), START_SECONDS)
    return ready(sock)


def ready(sock: socket.socket) -> socket.socket:
    """Blocking, and no waiting for more to send (asyncio's default)."""
    sock.setblocking(True)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


async def accept(job: Job, listener: socket.socket) -> socket.socket:
    """The next connection: the loop waits for it."""
    if job.variant.runs_on == "trio":
        trio = importlib.import_module("trio")

        theirs = trio.socket.from_stdlib_socket(listener)
        sock = (await theirs.accept())[0]
        return socket.socket(fileno=sock.detach())
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    return (await loop.sock_accept(listener))[0]


async def echo_link(job: Job, sock: socket.socket) -> None:
    """The server's side of a connection, on a loop."""
    link = job.end()
    await link.open(ready(sock))
    try:
        for number in itertools.count(1):
            frame = await link.read()
            if frame is None:
                break
            await link.write(frame)
            if number == 1:  # in the second shape it is the warm-up
                job.meter.start()
    finally:
        link.close()


def echo_blocking(job: Job, link: Any, sock: socket.socket) -> None:
    """The server's side of a connection, in a thread."""
    if job.profiler:
        job.profiler.enable()
    link.open(ready(sock))
    try:
        if link.echo():
            job.meter.start()
            while link.echo():
                pass
    finally:
        link.close()
    if job.profiler:
        job.profiler.disable()


def one_process(job: Job) -> dict[str, Any]:
    """Client and server together, a connection for each frame."""
    with socket.create_server((HOST, 0)) as listener:
        listener.setblocking(True)
        frame = frame_of(job.size)
        if job.variant.runs_on == "threads":
            return _one_with_threads(job, listener, frame)
        found: dict[str, Any] = {}
        job.loop(lambda: _one_on_a_loop(job, listener, frame, found))
        check_all(frame, found.pop("answer"))
        return found


async def _one_on_a_loop(
    job: Job, listener: socket.socket, frame: bytearray,
    found: dict[str, Any],
) -> None:
    port = listener.getsockname()[1]
    meter = Meter()
    for number in range(job.frames):
        stamp(frame, number)
        sock = connect(port)
        other = await accept(job, listener)
        answer = await _both(job, sock, other, frame)
        check(frame, answer)
    found.update(meter.stop(), answer=answer)


async def _both(
    job: Job, sock: socket.socket, other: socket.socket,
    frame: bytearray,
) -> Any:
    """One frame there and back: both sides at once on one loop."""
    if job.variant.runs_on == "trio":
        trio = importlib.import_module("trio")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo_link, job, other)
            return await _ask(job, sock, frame)
    server = asyncio.ensure_future(echo_link(job, other))
    answer = await _ask(job, sock, frame)
    await server
    return answer


async def _ask(job: Job, sock: socket.socket, frame: bytearray) -> Any:
    link = job.end()
    await link.open(sock)
    await link.write(frame)
    answer = await link.read()
    link.close()
    return answer


def _one_with_threads(
    job: Job, listener: socket.socket, frame: bytearray
) -> dict[str, Any]:
    broken: list[Exception] = []

    def serve() -> None:
        try:
            for _ in range(job.frames):
                echo_blocking(job, link, listener.accept()[0])
        except Exception as error:
            broken.append(error)

    client, link = job.end(), job.end()
    meter = Meter()
    server = threading.Thread(target=serve, daemon=True)
    server.start()
    for number in range(job.frames):
        stamp(frame, number)
        client.open(connect(listener.getsockname()[1]))
        answer = ask_blocking(client, frame)
        if broken:
            raise broken[0]
        check(frame, answer)
        client.close()
    server.join()
    found = meter.stop()
    check_all(frame, answer)
    return found


def ask_blocking(link: Any, frame: bytearray) -> Any:
    """Send a frame in a thread, and receive the answer meanwhile.

    A server that sends on at once would stand still otherwise: both
    sides would wait for each other to read.
    """
    def send() -> None:
        with contextlib.suppress(OSError):  # read() says it as well
            link.write(frame)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    answer = link.read()
    sender.join()
    return answer


# === Two processes ==================================================


def serve(job: Job) -> dict[str, Any]:
    """The server alone: prints its port, answers one connection.

    What the first frame costs is not in its figures.
    """
    with socket.create_server((HOST, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        listener.settimeout(START_SECONDS)
        if job.variant.runs_on == "threads":
            echo_blocking(job, job.end(), listener.accept()[0])
            return job.meter.stop()
        sock = listener.accept()[0]
        job.loop(lambda: echo_link(job, sock))
        return job.meter.stop()


class Client:
    """The same for every server: blocking, and its buffers reused."""

    def __init__(self, size: int) -> None:
        self.frame = frame_of(size)
        self.link = Reused(Memory(True, size))

    def run(self, port: int, frames: int) -> float:
        """Seconds for so many frames, after one to warm up."""
        try:
            self.link.open(connect(port))
            for number in range(frames + 1):
                if number == 1:
                    begun = time.perf_counter()
                stamp(self.frame, number)
                answer = ask_blocking(self.link, self.frame)
                check(self.frame, answer)
            seconds = time.perf_counter() - begun
            check_all(self.frame, answer)
        except OSError as error:
            raise FrameError(
                f"the connection broke: {error.strerror}"
            ) from error
        finally:
            if hasattr(self.link, "sock"):
                self.link.close()
        return seconds


# === Counting =======================================================

RECEIVES = ("recv", "recv_into")
SENDS = ("send", "sendall", "sendmsg")


def count_calls(calls: dict[str, int]) -> None:
    """Count calls on sockets from now on: Python's, not C's."""
    def counted(call: Callable[..., Any], key: str) -> Any:
        def count(*words: Any, **options: Any) -> Any:
            calls[key] += 1
            return call(*words, **options)

        return count

    for key, names in (("receives", RECEIVES), ("sends", SENDS)):
        for name in names:
            call = getattr(socket.socket, name)
            setattr(socket.socket, name, counted(call, key))
    for name, key in (("splice", "receives"), ("sendfile", "sends")):
        if hasattr(os, name):
            setattr(os, name, counted(getattr(os, name), key))


def top(profiler: cProfile.Profile) -> list[list[Any]]:
    """The functions that took most: name, share of the time."""
    rows = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    whole = sum(row[2] for row in rows.values()) or 1.0
    most = sorted(rows.items(), key=lambda item: -item[1][2])
    return [
        [_called(*where), round(row[2] / whole, 4)]
        for where, row in most[:PROFILED]
    ]


def _called(file: str, line: int, name: str) -> str:
    """A function as the profile names it, in words."""
    match = re.match(r"<(?:method|built-in method) (.*)>", name)
    if match is None:
        return f"{name} ({os.path.basename(file)})"
    # "'recv' of '_socket.socket' objects", "posix.splice"
    word = re.match(r"'(\w+)' of '([\w.]+)' objects", match[1])
    if word is None:
        return match[1]
    return f"{word[2].rpartition('.')[2]}.{word[1]}"


# === A process for each run =========================================
# So that no run finds the memory that another one has left.


def child(kind: str, job: Job) -> int:
    """Do one job, print what came of it as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    calls = {"receives": 0, "sends": 0}
    if job.count:
        count_calls(calls)
        tracemalloc.start()
    try:
        found = serve(job) if kind == "serve" else one_process(job)
        if job.count:
            found.update(calls)
            peak = tracemalloc.get_traced_memory()[1]
            found["peak_frames"] = peak / job.size
        if job.profiler:
            found["profile"] = top(job.profiler)
    except FrameError as error:
        found = {"error": str(error)}
    except MemoryError:
        found = {"error": "there is not enough memory for it"}
    except Exception as error:  # whatever a library raises
        found = {"error": f"it broke, {type(error).__name__}: {error}"}
    print(json.dumps(found), flush=True)
    return 0


@contextlib.contextmanager
def no_interrupt() -> Iterator[None]:
    """Ctrl-C has to wait meanwhile.

    Or a process that has just been started would be nobody's.
    """
    came: list[int] = []
    usual = {
        number: signal.signal(number, lambda n, frame: came.append(n))
        for number in STOPPING
    }
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def result(
    process: subprocess.Popen[str], seconds: float | None = None
) -> dict[str, Any]:
    """What a process printed last, when it has ended.

    seconds: that it may take to end. Raises FrameError.
    """
    try:
        process.wait(seconds)
        assert process.stdout
        lines = process.stdout.read().splitlines()
        return dict(json.loads(lines[-1]))
    except subprocess.TimeoutExpired:
        raise FrameError("the process does not end") from None
    except (IndexError, TypeError, ValueError):
        raise FrameError(
            f"the process ended with status {process.returncode} and "
            "no figures"
        ) from None


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """The same, if it is not an error."""
    if "error" in found:
        raise FrameError(found["error"])
    return found


class Lab:
    """Runs the variants one after another, round by round."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.client: Client | None = None
        self.process: subprocess.Popen[str] | None = None

    def measure(
        self, variant: Variant | None, frames: int, **words: bool
    ) -> dict[str, Any]:
        """One run. variant: None for --server."""
        two = self.options.shape == "two"
        job = {
            "kind": "serve" if two else "one", "frames": frames,
            "name": variant.name if variant else "",
            "size": self.options.size, "reuse": two,
            **words,
        }
        command = [sys.executable, __file__, "--child", json.dumps(job)]
        if variant is None:
            command = shlex.split(self.options.server)
        try:
            process = self._start(command)
            if not two:
                return checked(result(process))
            return self._two(process, frames)
        finally:
            self.end()

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        try:
            with no_interrupt():
                self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, text=True,
                )
        except OSError as error:
            raise FrameError(
                f"{command[0]} does not start: {error.strerror}"
            ) from error
        return self.process

    def end(self) -> None:
        """End the process, if there is one and it still runs."""
        with no_interrupt():
            process, self.process = self.process, None
            if process is not None:
                process.kill()
                process.communicate()

    def _two(
        self, process: subprocess.Popen[str], frames: int
    ) -> dict[str, Any]:
        assert process.stdout
        said = process.stdout.readline().strip()
        if not said.isdecimal():
            with contextlib.suppress(ValueError, KeyError):
                raise FrameError(json.loads(said)["error"])
            raise FrameError("the server does not say its port")
        if self.client is None:
            self.client = Client(self.options.size)
        try:
            seconds = self.client.run(int(said), frames)
        except FrameError:
            found = {}
            with contextlib.suppress(FrameError):
                found = result(process, END_SECONDS)
            checked(found)  # the server may know better
            raise
        found = checked(result(process, END_SECONDS))
        return {**found, "seconds": seconds}

    def run(self, variant: Variant | None) -> dict[str, Any]:
        """A timed run, as MB/s."""
        found = self.measure(
            variant, self.options.frames, profile=self.options.profile
        )
        moved = self.options.size * self.options.frames / 1e6
        found["mb_per_second"] = moved / found["seconds"]
        return found

    def count(self, variant: Variant | None) -> dict[str, Any]:
        """Calls for a frame, and the memory held at most."""
        if variant is None:
            return {}
        # The first frame of two is not like the others everywhere.
        found = self.measure(variant, 1, count=True)
        frames = 2 if self.options.shape == "two" else 1
        counts = {
            "peak_frames": found["peak_frames"],
            "receives": found["receives"] / frames,
            "sends": found["sends"] / frames,
        }
        if variant.runs_on == "uvloop":  # its calls are made in C
            del counts["receives"], counts["sends"]
        return counts


# === Command line ===================================================


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"lab_frames.py: {message}\n")


def size_of(text: str) -> int:
    """Bytes, as in 100M, 64k or 1000."""
    match = re.match(r"^(\d+)([kMG]?)$", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size such as 100M, 64k or 1000"
        )
    units = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
    size = int(match[1]) * units[match[2]]
    if not size:
        raise argparse.ArgumentTypeError(
            "a frame of nothing cannot be measured: name a size"
        )
    if size > 10**15:
        raise argparse.ArgumentTypeError(
            "no machine has memory for that"
        )
    return size


def whole(most: int) -> Callable[[str], int]:
    """A check for argparse: a whole number from 1 on."""
    def check_it(text: str) -> int:
        if not (text.isdecimal() and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from 1 to {most}"
            )
        return int(text)

    return check_it


def chosen(text: str) -> list[Variant]:
    """The variants named, in the order given."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in NAMES:
            raise argparse.ArgumentTypeError(
                f"there is no variant {word!r}; there are "
                + ", ".join(NAMES)
            )
    if not words:
        raise argparse.ArgumentTypeError("no variant is named")
    return [VARIANTS[NAMES.index(word)] for word in words]


def one_chosen(text: str) -> Variant:
    """The variant named."""
    variants = chosen(text)
    if len(variants) > 1:
        raise argparse.ArgumentTypeError("name one variant")
    return variants[0]


def parse(words: list[str]) -> argparse.Namespace:
    """The options. Exits with status 2 if they make no sense."""
    parser = Parser(
        description=(__doc__ or "").split("\n\n")[0] + " Each variant "
        "echoes frames; --list says which copy it removes.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--size", type=size_of, default=SIZE, metavar="BYTES",
        help="of a frame, as in 64k (default: 100M)")
    add("--frames", type=whole(MOST_FRAMES), default=FRAMES,
        metavar="N", help=f"in a run (default: {FRAMES})")
    add("--rounds", type=whole(MOST_ROUNDS), default=ROUNDS,
        metavar="N", help="runs of each variant, interleaved; the "
        f"median counts (default: {ROUNDS})")
    add("--shape", choices=("one", "two"), default="one",
        help="one: client and server in one process, a connection and "
        "new buffers for each frame, as in 2017; two: the server in a "
        "process of its own, one connection, reused buffers")
    add("--only", type=chosen, metavar="LIST",
        help="these variants, as in --only streams,splice")
    add("--server", metavar="COMMAND",
        help="measure another server, with --shape two: a program that "
        "prints its port, echoes the frames of one connection, and "
        "prints its user and system seconds as JSON")
    add("--serve", metavar="NAME", type=one_chosen,
        help="be such a server: what --server measures, for strace or "
        "perf in front of it")
    add("--no-counts", action="store_true",
        help="leave out the run that counts calls and memory")
    add("--profile", action="store_true",
        help="show the functions that take the time (it slows them)")
    add("--json", action="store_true", help="print JSON, not a table")
    add("--list", action="store_true",
        help="print the variants, and end")
    add("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.server is not None:
        if options.shape != "two" or options.only:
            parser.error("--server needs --shape two, and no --only")
        if not shlex.split(options.server):
            parser.error("--server names no program")
    if not options.child:
        short = too_little(options.size)
        if short:
            parser.error(short)
    return options


def too_little(size: int) -> str:
    """A sentence if the memory is not enough for such frames."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            match = re.search(r"MemAvailable: *(\d+) kB", file.read())
    except OSError:
        return ""
    free = int(match[1]) * 1024 if match else size * MOST_MEMORY
    if size * MOST_MEMORY <= free:
        return ""
    return (
        f"frames of {size / 1e6:,.0f} MB need up to "
        f"{size * MOST_MEMORY / 1e6:,.0f} MB of memory, "
        f"{free / 1e6:,.0f} MB are free: name a smaller --size"
    )


def main(words: list[str]) -> int:
    """Measure, print; the exit status. 1: a variant failed."""
    options = parse(words)
    if options.child:
        return child(options.child.pop("kind"), Job(**options.child))
    if options.serve:
        missing = options.serve.missing()
        if missing:
            print(f"lab_frames.py: {missing}", file=sys.stderr)
            return 2
        job = Job(options.serve.name, options.size, 0, True)
        return child("serve", job)
    if options.list:
        for variant in VARIANTS:
            print(f"{variant.name:<13} {variant.link.__doc__}"
                  .splitlines()[0])
            print(f"{'':<13} removes {variant.removes}")
        return 0
    for number in STOPPING:
        signal.signal(number, interrupt)
    rows: list[dict[str, Any]] = [
        {
            "name": variant.name if variant else "server",
            "copies": variant.copies if variant else None,
            "skipped": variant.missing() if variant else "",
            "error": "", "counts": {}, "runs": [],
        }
        for variant in everyone(options)
    ]
    status = 0
    try:
        rounds(options, rows)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        status = 130
    if options.json:
        print(json.dumps(report(options, rows), indent=1))
    else:
        show(options, rows)
    return status or int(any(row["error"] for row in rows))


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A signal ends the run; what was measured is printed."""
    raise KeyboardInterrupt


def everyone(options: argparse.Namespace) -> list[Variant | None]:
    """The variants asked for; None stands for --server."""
    if options.server:
        return [None]
    variants: list[Variant] = options.only or VARIANTS
    return list(variants)


def rounds(
    options: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    """All variants, then all again: a disturbance hits all alike."""
    if (os.cpu_count() or 1) == 1:
        print("This machine has one core: client and server take turns "
              "on it.", file=sys.stderr)
    lab = Lab(options)
    try:
        _rounds(lab, options, rows)
    finally:
        lab.end()


def _rounds(
    lab: Lab, options: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    pairs = [
        (variant, row)
        for variant, row in zip(everyone(options), rows)  # noqa: B905
        if not row["skipped"]
    ]
    for number in range(0 if not options.no_counts else 1,
                        options.rounds + 1):
        for variant, row in pairs:
            if row["error"]:
                continue
            try:
                if number == 0:
                    row["counts"] = lab.count(variant)
                    continue
                run = lab.run(variant)
            except FrameError as error:
                row["error"] = str(error)
                continue
            row["runs"].append(run)
            print(
                f"round {number} of {options.rounds}: {row['name']:<13}"
                f"{run['mb_per_second']:7,.0f} MB/s", file=sys.stderr,
            )


def report(
    options: argparse.Namespace, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Everything, for --json."""
    return {
        "python": platform.python_version(),
        "shape": options.shape, "size": options.size,
        "frames": options.frames,
        "huge_pages": HUGE in os.environ.get("GLIBC_TUNABLES", ""),
        "variants": rows,
    }


def show(
    options: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    """The table: medians, a row for each variant."""
    file: TextIO = sys.stdout
    print(
        f"\nPython {platform.python_version()}, {options.frames} frames"
        f" of {options.size:,} bytes, shape {options.shape}\n\n"
        "variant       MB/s median (min - max)  copies  memory  "
        "calls in/out   CPU s user + system   faults", file=file,
    )
    for row in rows:
        why = row["skipped"] or row["error"]
        if why or not row["runs"]:
            print(f"{row['name']:<13} {why or 'not measured'}")
            continue
        speeds = [run["mb_per_second"] for run in row["runs"]]
        print(
            f"{row['name']:<13} {statistics.median(speeds):7,.0f} "
            f"({min(speeds):6,.0f} - {max(speeds):6,.0f}) "
            f"{text(row['copies'], 7)} {counted(row, 'peak_frames', 7)}"
            f"{counted(row, 'receives', 7)} /{counted(row, 'sends', 5)}"
            f"{middle(row, 'user'):10.2f} + {middle(row, 'system'):.2f}"
            f"{middle(row, 'faults'):12,.0f}"
        )
        for name, share in row["runs"][-1].get("profile", []):
            print(f"{'':<13} {share:6.1%} {name}")
    both = "" if options.shape == "two" else "client and "
    print(
        "\ncopies: of a frame in our own memory, for each echo\n"
        f"memory, calls, CPU, faults: of {both}server; memory held at "
        "most, in frames;\ncalls in Python for a frame; CPU and page "
        "faults of a whole run"
    )


def text(value: float | None, width: int) -> str:
    """A number in short, a dash for none."""
    return f"{'-' if value is None else f'{value:g}':>{width}}"


def counted(row: dict[str, Any], key: str, width: int) -> str:
    """A count of a variant, in short."""
    value = row["counts"].get(key)
    return text(None if value is None else round(value, 1), width)


def middle(row: dict[str, Any], key: str) -> float:
    """The median over the runs; not a number if there is none."""
    values = [run[key] for run in row["runs"] if key in run]
    return statistics.median(values) if values else math.nan


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
