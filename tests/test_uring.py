"""The engines of 07 as such: the same promises, kept in two ways.

Each test here runs with both engines, so the emulated one is proved equal;
that they send files is proved over sockets.
io_uring is tried with all the flags this kernel takes, and again with
fewer and fewer, as an older kernel would take them.
"""

import contextlib
import errno
import os
import random
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.marks import Patch
from tests.process import load, take, why_no_uring
from tools.common.raw_client import Client
from tools.servers import ROOT

Completion = tuple[int, int, int, bytes, bool]
GUARD = -1  # the descriptor of the sleep that ends a test that hangs
PATIENCE = 60.0  # seconds until it does

FOLDER = ROOT / "07_parallel"
EMULATED, URING = (load(FOLDER / f"{n}.py") for n in ("emulated", "uring"))
ACCEPTED, RECEIVED, SENT, SLEPT = range(4)
# With all flags; what an older kernel takes is for the thorough run.
ENGINES = ["emulated", "uring-0", *(
    pytest.param(f"uring-{number}", marks=pytest.mark.thorough)
    for number in range(1, len(URING.FLAGS))
)]
STREAM = pytest.mark.parametrize("stream", [False, True])
CLOSE = pytest.mark.parametrize("close", [False, True])


class Bench:
    """An engine, a listening socket, and what has completed."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.clients: list[Client] = []
        self.done: list[Completion] = []
        self.failed: list[tuple[int, int]] = []
        engine.adopt(self.listener)
        engine.sleep(GUARD, PATIENCE)

    def send_now(self, fd: int, data: bytes, close: bool) -> None:
        """Prepare a response, send it, and let the engine do so."""
        self.engine.send_now(fd, self.engine.prepare(data, close))
        self.moment()

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait for completions until it is true."""
        while not ready():
            done = self.engine.wait()
            self.failed += self.engine.failed
            for each in done:
                assert each[1] != GUARD, f"it hangs: {self.done[-20:]}"
                self.done.append(each)

    def of(self, kind: int, fd: int | None = None) -> list[Completion]:
        """The completions of this kind so far."""
        return [
            each for each in self.done
            if each[0] == kind and fd in (None, each[1])
        ]

    def next(self, kind: int, fd: int | None = None) -> Completion:
        """Wait for a completion of this kind, and take it out."""
        self.until(lambda: bool(self.of(kind, fd)))
        found = self.of(kind, fd)[0]
        self.done.remove(found)
        return found

    def connect(self, number: int) -> list[tuple[Client, int]]:
        """Clients, and the descriptors of their other ends."""
        here, port = self.listener.fileno(), self.listener.getsockname()[1]
        self.engine.accept(here)
        pairs = []
        for _ in range(number):
            # Its kernel must not take more and more the more it reads.
            client = Client(port, timeout=PATIENCE, receive_buffer=1 << 16)
            self.clients.append(client)
            _, listener, fd, _, again = self.next(ACCEPTED)
            assert (listener, again) == (here, True)
            assert fd >= 0, os.strerror(-fd)
            pairs.append((client, fd))
        self.engine.cancel(here)
        assert self.next(ACCEPTED)[2] == -errno.ECANCELED
        return pairs

    def moment(self, seconds: float = 0) -> None:
        """Let the engine do what it has been told."""
        self.engine.sleep(1 << 20, seconds)
        self.next(SLEPT, 1 << 20)

    def one(self) -> tuple[Client, int]:
        """One client."""
        return self.connect(1)[0]

    def all_of(self, fds: dict[int, bool]) -> dict[int, bytes]:
        """All that comes from each until its end; streams where True."""
        parts: dict[int, list[bytes]] = defaultdict(list)
        for fd, stream in fds.items():
            self.engine.receive(fd, stream)
        left = set(fds)
        while left:
            _, fd, result, data, again = self.next(RECEIVED)
            assert fd in left and fds[fd] >= again
            parts[fd].append(data)
            if result <= 0 and result != -errno.ECANCELED:
                assert not again, "the end comes once"
                left.discard(fd)
            elif not again:  # or there was no buffer free
                self.engine.receive(fd, fds[fd])
        return {fd: b"".join(parts[fd]) for fd in fds}

    def finish_send(self, fd: int, data: bytes) -> None:
        """A send is complete when a part is sent: ask for the rest."""
        while data:
            sent = self.next(SENT)[2]
            assert 0 < sent <= len(data)
            data = data[sent:]
            if data:
                self.engine.send(fd, data)

    def fill(self, fd: int, data: bytes) -> bytes:
        """Send until there is no room any more; what is then under way."""
        self.engine.send(fd, data)
        while True:
            self.moment(0.2)
            if not self.of(SENT):
                return data
            sent = self.next(SENT)[2]
            assert 0 < sent < len(data), "nobody has read it"
            data = data[sent:]
            self.engine.send(fd, data)


@pytest.fixture(params=ENGINES)
def bench(
    request: pytest.FixtureRequest, monkeypatch: Patch
) -> Iterator[Bench]:
    name, _, number = request.param.partition("-")
    if name == "emulated":
        made = Bench(EMULATED.Engine())
    else:
        if why_no_uring():
            pytest.skip(why_no_uring())
        monkeypatch.setattr(URING, "FLAGS", URING.FLAGS[int(number):])
        made = Bench(URING.Engine())
    yield made
    port = made.listener.getsockname()[1]
    for one in (*made.clients, *made.engine.sockets.values()):
        one.close()
    for fd in range(4096):  # io_uring leaves what it accepted to us
        with contextlib.suppress(OSError):  # not open, or no socket
            one = socket.socket(fileno=fd)
            mine = one.getsockname()[1:2] == (port,)
            one.close() if mine else one.detach()


# The other side of a conversation: it ends, since clients have a time-out.
BESIDE = ThreadPoolExecutor(4)


@STREAM
def test_how_a_client_leaves(bench: Bench, stream: bool) -> None:
    client, fd = bench.one()
    bench.engine.receive(fd, stream)
    client.half_close()
    assert bench.next(RECEIVED) == (RECEIVED, fd, 0, b"", False)
    bench.engine.send(fd, b"still")
    assert bench.next(SENT)[2] == 5
    bench.engine.shutdown(fd)
    assert take(client.socket) == b"still"
    client, fd = bench.one()
    bench.engine.receive(fd, stream)
    client.reset()
    reset_ = (RECEIVED, fd, -errno.ECONNRESET, b"", False)
    assert bench.next(RECEIVED, fd) == reset_
    bench.engine.send(fd, b"to nobody")
    assert bench.next(SENT, fd)[2] == -errno.EPIPE
    bench.engine.close(fd)


@pytest.mark.parametrize("can_stream", [True, False])
def test_every_buffer_many_times(bench: Bench, can_stream: bool) -> None:
    if not can_stream:
        bench.engine.can_stream = False  # nothing to the emulated one
    # Every second client's data come as a stream. Before the engine looks,
    # more has come than its pool can take; then pieces of every size.
    pairs = bench.connect(80)
    data = {fd: random.Random(fd).randbytes(200_000) for _, fd in pairs}
    left = {client: data[fd][60_000:] for client, fd in pairs}
    for client, fd in pairs:
        client.send(data[fd][:60_000])

    def work() -> None:
        draw = random.Random(7)
        while left:
            client = draw.choice(list(left))
            size = draw.choice([1, 100, 2047, 2048, 2049, 5000, 30_000])
            client.send(left[client][:size])
            left[client] = left[client][size:]
            if not left[client]:
                client.half_close()
                del left[client]

    thread = BESIDE.submit(work)
    streams = {fd: bool(number % 2) for number, fd in enumerate(data)}
    assert bench.all_of(streams) == data
    thread.result()


def test_sending_and_receiving_at_once(bench: Bench) -> None:
    # A send that waits for room does not hold up what comes in, unless it
    # is paused; when it is through, receiving goes on.
    client, fd = bench.one()
    bench.engine.receive(fd, True)
    data = random.Random(1).randbytes(8_000_000)
    rest = bench.fill(fd, data)
    client.send(b"one")
    assert bench.next(RECEIVED) == (RECEIVED, fd, 3, b"one", True)
    bench.engine.pause(fd)
    assert bench.next(RECEIVED)[2] == -errno.ECANCELED
    client.send(b"two")
    bench.moment(0.05)
    assert not bench.of(RECEIVED)
    reading = BESIDE.submit(take, client.socket, len(data))
    bench.finish_send(fd, rest)  # the send has gone on
    assert reading.result() == data
    bench.engine.receive(fd, True)
    assert bench.next(RECEIVED)[3] == b"two"
    rest = bench.fill(fd, data)
    reading = BESIDE.submit(take, client.socket, len(data))
    bench.finish_send(fd, rest)
    assert reading.result() == data
    client.send(b"three")
    assert bench.next(RECEIVED)[3] == b"three"


@STREAM
def test_cancel_receive(bench: Bench, stream: bool) -> None:
    client, fd = bench.one()
    bench.engine.receive(fd, stream)
    bench.moment(0.05)
    bench.engine.cancel(fd)
    cancelled = (RECEIVED, fd, -errno.ECANCELED, b"", False)
    assert bench.next(RECEIVED) == cancelled
    # Nothing is under way now, and nothing is lost.
    client.send(b"later")
    bench.engine.receive(fd, stream)
    assert bench.next(RECEIVED)[3] == b"later"
    assert bench.engine.wait(block=False) == []


@CLOSE
def test_send_now(bench: Bench, close: bool) -> None:
    client, fd = bench.one()
    # Bytes that are not read turn a close into a reset, and that throws
    # away what the kernel has not sent yet.
    client.send(b"late")
    bench.moment()
    bench.send_now(fd, b"now", close)
    assert client.socket.recv(100) == b"now"
    assert (bench.done, bench.failed) == ([], []), "it says nothing"
    if close:
        assert take(client.socket) == b""
        with pytest.raises(OSError):
            os.fstat(fd)
    else:
        bench.engine.close(fd)


@CLOSE
def test_send_now_what_is_too_much(bench: Bench, close: bool) -> None:
    client, fd = bench.one()
    data = random.Random(6).randbytes(8_000_000)
    sent = result = 0
    # What the client's kernel takes over makes room again, so how often
    # that is depends on the machine.
    while result >= 0:
        sent += result
        bench.send_now(fd, data[sent:], close)
        ((failed, result),) = bench.failed
        bench.failed.clear()
        assert failed == fd
        assert result < len(data) - sent
    assert result == -errno.EAGAIN and sent > 0
    # There is room again later; and then we go on where it stopped.
    bench.engine.send(fd, data[sent:])
    reading = BESIDE.submit(take, client.socket)
    bench.finish_send(fd, data[sent:])
    bench.engine.shutdown(fd)
    assert reading.result() == data


@CLOSE
def test_send_now_to_nobody(bench: Bench, close: bool) -> None:
    client, fd = bench.one()
    client.reset()
    bench.engine.receive(fd)
    assert bench.next(RECEIVED)[2] == -errno.ECONNRESET
    bench.send_now(fd, b"x", close)
    assert bench.failed == [(fd, -errno.EPIPE)]
    os.fstat(fd)  # it is still ours to close
    bench.engine.close(fd)
    bench.moment()
    with pytest.raises(OSError):
        os.fstat(fd)


def test_sleep_in_order(bench: Bench) -> None:
    begin = time.monotonic()
    sleeps = {10: PATIENCE / 2, 11: 0, 12: 0.3, 13: 0.3, 14: 0.6}
    for fd, seconds in sleeps.items():
        bench.engine.sleep(fd, seconds)
    for fd in (11, 12, 13, 14):  # before the first
        assert bench.next(SLEPT) == (SLEPT, fd, 0, b"", False)
        assert time.monotonic() - begin >= sleeps[fd]


def test_more_than_the_rings_hold(bench: Bench) -> None:
    number = 20_000
    draw = random.Random(5)
    for fd in range(number):
        bench.engine.sleep(fd, draw.choice([0, 0.001, 0.1]))
    bench.until(lambda: len(bench.done) >= number)
    assert sorted(each[1] for each in bench.done) == list(range(number))
    assert all(each[2] == 0 for each in bench.done)


def test_where_linux_has_more_names() -> None:
    # macOS has no MSG_NOSIGNAL, MSG_MORE and SOCK_CLOEXEC: importing must
    # work all the same, and say that there is no io_uring.
    script = f"""
import select, socket, sys
for name in ("MSG_NOSIGNAL", "MSG_MORE", "SOCK_CLOEXEC", "TCP_DEFER_ACCEPT"):
    if hasattr(socket, name):
        delattr(socket, name)
sys.platform = "darwin"
sys.path.insert(0, {str(FOLDER)!r})
import options
print(options.choose_engine("auto").name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True,
        check=True,
    )
    assert done.stdout == "emulated\n"
    assert done.stderr == (
        "io_uring is a part of 64-bit Linux: the emulated engine serves\n"
    )
