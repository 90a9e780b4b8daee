"""The four rules of time in web.py, on each server's own way to wait.

A request that has arrived is never timed out; the deadlines for a head and
for lingering are absolute; progress is bytes that the client took; a server
that lingers reads until its deadline. test_connection.py proves them with a
clock of its own; here only what happens first counts, however slow the
machine is. A server's time begins when it accepts, so ours begins before we
connect, and where we were too slow ourselves nothing is said.
"""

import contextlib
import itertools
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.beside import CROWD, beside
from tests.marks import rule, slow
from tests.process import (
    PATIENCE,
    PYPY,
    Running,
    eventually,
    readable,
    running,
    started,
    take,
)
from tools.common.raw_client import GET, GET_CLOSE, HOST, Client, NoResponse
from tools.servers import SERVERS, YES, Server

HEAD_SECONDS, SEND_SECONDS = 10.0, 10.0
IDLE_SECONDS = 5.0
LINGER_SECONDS, LINGER_MOST = 1.0, 10.0
EARLY = 0.5  # a server may round
OURS = [each for each in SERVERS if each.step > 1]
KEEPING = [each for each in OURS if each.lessons["keep_alive"] == YES]


def named(servers: list[Server]) -> pytest.MarkDecorator:
    """A test of ours, not for the record of the rules."""
    return pytest.mark.parametrize(
        "each", servers, ids=lambda each: f"time-{each.name}"
    )


def since(moment: float) -> float:
    """Seconds since a moment, by our own clock."""
    return time.monotonic() - moment


@contextlib.contextmanager
def paused(process: Running) -> Iterator[None]:
    """None of a server's processes runs meanwhile."""
    stopped = process.processes()
    for each in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            each.suspend()
    try:
        yield
    finally:
        for each in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()


def served(clients: list[Client]) -> bool:
    """Does each of them get its page?"""
    try:
        return {client.response().status for client in clients} == {200}
    except (OSError, NoResponse):
        return False


# A request that has arrived is never timed out.


@named(OURS)
@pytest.mark.parametrize(("first", "seconds"), [
    (0, IDLE_SECONDS + 1),
    pytest.param(1000, 2 * HEAD_SECONDS, marks=pytest.mark.thorough),
])
@slow
@beside
def test_what_arrived_during_a_pause(
    each: Server, first: int, seconds: float
) -> None:
    # The deadline passes while the server does not run: that for another
    # request, or with a part of a head that for the rest. And this is more
    # than arrives in one piece.
    head = GET_CLOSE[:-2] + b"X: " + b"x" * 9_000 + b"\r\n\r\n"
    with running(each) as process:
        begin = time.monotonic()
        kept = [process.client() for _ in range(2 * (each in KEEPING))]
        for client in kept:
            client.ask(GET)
        clients = [*kept, process.client()]
        for client in clients:
            client.send(head[:first])
        if each in KEEPING:  # by now the others have been read
            process.assert_serves()
        with paused(process):
            late = since(begin) > IDLE_SECONDS - EARLY
            for client in clients:
                client.send_if_open(head[first:])
            time.sleep(seconds)
        assert served(clients) or late, "lost"


@pytest.mark.thorough
@named([each for each in KEEPING if each.step != 3 and "ex" not in each.name])
@slow
@beside
def test_what_arrived_during_a_turn(each: Server) -> None:
    # Another client's work takes longer than the deadline.
    missing = GET.replace(b"/ ", b"/missing ")
    workers = ["--workers", "1"] if each.workers else []
    with running(each, "--compute", "250000000", *workers) as process:
        begin = time.monotonic()
        kept = process.client()
        kept.send(missing)
        assert kept.response().status == 404
        busy = process.client(GET_CLOSE)
        spent = process.cpu()
        assert eventually(lambda: process.cpu() > spent + 0.5, PATIENCE)
        kept.send_if_open(missing)
        if since(begin) > IDLE_SECONDS - EARLY:
            return
        assert kept.response(timeout=10 * PATIENCE).status == 404
        assert busy.response(timeout=10 * PATIENCE).status == 200


# The deadline for a head is absolute, and so is the idle one.


def dropped(
    process: Running, clients: list[Client], dribble: bytes = b""
) -> list[float]:
    """Wait until each has been dropped: at which moments.

    Each sends one more byte of dribble each second.
    """
    begin = time.monotonic()
    when: dict[Client, float] = {}
    beats = 0
    while left := [client for client in clients if client not in when]:
        now = since(begin)
        most = HEAD_SECONDS + min(process.patience, PATIENCE / 2)
        assert now < most, f"{len(left)} still open"
        if now >= beats:
            for client in left:
                client.send_if_open(dribble[beats : beats + 1])
            beats += 1
        for client in readable(left, 0.1):
            if not client.receive(1):
                when[client] = time.monotonic()
    return [when[client] for client in clients]


def assert_dropped(
    process: Running, begun: list[bytes], dribble: bytes = b""
) -> None:
    """All are dropped after 10 s, with a 408 or without a word."""
    begin = time.monotonic()
    clients = [process.client(data) for data in begun]
    took = min(dropped(process, clients, dribble)) - begin
    assert took >= HEAD_SECONDS - EARLY, f"after {took:.1f} s already"
    for client in clients:
        assert client.received.split(b"\r\n")[0] in (
            b"", b"HTTP/1.1 408 Request Timeout"
        )
        client.close()
    process.assert_serves()


@slow
@rule("silent")
@beside
def test_silent(server: Server) -> None:
    with running(server) as process:
        before = process.warm_up()
        alone = server.lessons["silent"] != YES
        assert_dropped(process, [b"", b"GET /", b"\r\n"][: 1 if alone else 3])
        process.assert_at_rest(before)


@slow
@rule("dribble")
@beside
def test_dribble(server: Server) -> None:
    # Each byte comes well within 10 s: the whole head has to.
    with running(server) as process:
        assert_dropped(process, [b"GET / HTTP/1.1\r\n"], b"X: y\r\n" * 20)


@slow
@rule("idle")
@beside
def test_idle(server: Server) -> None:
    with running(server) as process:
        if server.lessons["keep_alive"] != YES:
            with process.client(GET) as client:
                # A sketch says it by HTTP/1.0.
                assert client.response().closes or process.sketch
                client.rest()
            return
        # A request that has begun has 10 s, also on a kept connection:
        # so that one goes last, though it was the first.
        begun, *clients = [process.client() for _ in range(3)]
        begun.ask(GET)
        begun.send(GET[:20])
        begin = time.monotonic()
        for client in (*clients, clients[0]):
            client.ask(GET)
        last, *others = dropped(process, [begun, *clients])
        assert min(others) - begin >= IDLE_SECONDS - EARLY
        assert max(others) <= last
        for client in clients:
            responses = client.received.count(b"HTTP/1.1")
            assert responses == client.sent.count(b"GET"), "without a word"
            client.close()
        begun.close()
        process.assert_serves()


@slow
@rule("spare")
@beside
def test_spare_connection(server: Server) -> None:
    # Browsers open a second connection in advance and leave it silent.
    with running(server) as process:
        spares = [process.client()]
        process.assert_serves(HEAD_SECONDS + process.patience)
        # Many at once must not make it worse for those after them, once
        # they have left.
        spares += [process.client() for _ in range(20)]
        for client in spares:
            client.close()
        process.assert_serves()


# Progress is bytes that the client took.


@slow
@rule("slow-reader")
@beside
def test_slow_reader(server: Server) -> None:
    with running(server, "--delay", "0") as process:
        rest = process.warm_up()
        memory = peak = process.memory()
        begin = time.monotonic()
        client = Client(process.port, receive_buffer=4096)
        client.socket.settimeout(4)
        # Not accepted yet, it would look like one that was dropped.
        assert eventually(
            lambda: process.descriptors() > rest[0], PATIENCE, 0.1
        ), "not accepted"
        # 120,000 requests in 5 MB, responses of more than 40 MB: it stops
        # reading at some point, or hangs up.
        with contextlib.suppress(OSError):
            for _ in range(300):
                client.socket.sendall(GET * 400)

        def gone() -> bool:
            nonlocal peak
            peak = max(peak, process.memory())
            return process.descriptors() <= rest[0]

        for _ in range(4):  # it may have little of the CPU, and be busy
            spent = process.cpu()
            dropped = eventually(gone, PATIENCE, 0.1)
            if dropped or process.cpu() < spent + 0.2:
                break
        assert dropped, "not dropped"
        if server.lessons["keep_alive"] == YES:
            took = since(begin)
            assert took >= SEND_SECONDS - EARLY, f"after {took:.1f} s"
        grown = (peak - memory) / 2**20
        most = 64 if PYPY else 16  # PyPy collects garbage later
        assert grown < most, f"memory grew by {grown:.0f} MiB"
        client.close()
        process.assert_serves()
        process.assert_at_rest(rest)


@named(KEEPING)
@slow
@beside
def test_reader_with_breaks_is_kept(each: Server) -> None:
    # Slow is not stopped: each break is shorter than 10 s, together they
    # are longer. After each we take more than the kernel's buffers hold,
    # since a server sees progress only when it can write again.
    number, longest = 42_000, 0.0
    with (
        running(each, "--delay", "0") as process,
        Client(process.port, receive_buffer=1 << 16, timeout=60) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        sending = pool.submit(client.send_if_open, GET * number + GET_CLOSE)
        size = 0
        for _ in range(2):
            begin = time.monotonic()
            time.sleep(SEND_SECONDS / 2 + EARLY)
            longest = max(longest, since(begin))
            size += len(take(client.socket, 7_000_000))
        size += len(take(client.socket))
        sending.result()
        late = longest > SEND_SECONDS - EARLY
        assert size > number * 249 or late, f"only {size} bytes came"


# A server that lingers reads until its deadline, which is absolute.


@rule("drain-ends")
@beside
def test_draining_ends(server: Server) -> None:
    # It closes by itself, though our side is still open and even sends;
    # but not before its time, unless we were silent for a second.
    data = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n"
    with running(server) as process:
        moments = [time.monotonic()]
        with process.client(data) as client:
            assert client.response().status == 405
            client.rest()

            def closed() -> bool:
                moments.append(time.monotonic())
                return not client.send_if_open(b"x")

            assert eventually(
                closed, LINGER_MOST + process.patience, 0.05
            ), "the server keeps it open"
        took = moments[-1] - moments[0]
        silent = max(b - a for a, b in itertools.pairwise(moments))
        if server in OURS and silent < LINGER_SECONDS - EARLY:
            assert took > LINGER_MOST - EARLY, f"after {took:.1f} s"


# And no descriptors to accept with.


@slow
@rule("no-descriptors")
@beside
def test_no_descriptors_left(server: Server) -> None:
    limit, crowd = 48, 150
    with CROWD, started(server, descriptors=limit) as process:
        process.assert_serves()
        clients = [connecting(process.port) for _ in range(crowd)]
        # Quickly full, where connections are taken at all.
        eventually(lambda: limit in [
            each.num_fds() for each in process.processes()
        ], 1)
        assert not process.busy(2), "a busy loop"
        for client in clients:
            client.close()
        process.assert_serves()
        # Nor is it a reason to spin when it stops.
        clients = [connecting(process.port) for _ in range(crowd)]
        process.signal(signal.SIGTERM)
        assert not process.busy(2), "a busy loop"
        process.assert_ends()
        for client in clients:
            client.close()


def connecting(port: int) -> socket.socket:
    """A silent connection, which the kernel may complete when it can."""
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    return client
