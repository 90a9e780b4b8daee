"""Clients that let a server wait: silent, slow, idle, never reading.

All side by side. A server's time begins when it accepts, so ours begins
before we connect: then none can come too early by our fault. That its
time is not longer, test_connection.py says with a clock of its own; here
only what happens first counts, however slow the machine is.
"""

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from tests.beside import beside, beside_with
from tests.marks import rule, slow
from tests.process import PYPY, Running, eventually, readable, running, take
from tools.common.raw_client import GET, GET_CLOSE, HOST, Client
from tools.servers import YES, Server

HEAD_SECONDS = 10.0
IDLE_SECONDS = 5.0
EARLY = 0.5  # a server may round
PATIENCE = 30.0  # on top of it, for a very busy machine
REFUSED = (b"", b"HTTP/1.1 408 Request Timeout")


def dropped(
    clients: list[Client], dribble: bytes = b"", more: float = PATIENCE
) -> list[float]:
    """Wait until each has been dropped: after how many seconds.

    Each sends one more byte of dribble each second.
    """
    begin = time.monotonic()
    when: dict[Client, float] = {}
    beats = 0
    while left := [client for client in clients if client not in when]:
        now = time.monotonic() - begin
        assert now < HEAD_SECONDS + more, f"{len(left)} still open"
        if now >= beats:
            for client in left:
                client.send_if_open(dribble[beats : beats + 1])
            beats += 1
        for client in readable(left, 0.1):
            if not client.receive(1):
                when[client] = time.monotonic() - begin
    return [when[client] for client in clients]


def patience(process: Running) -> float:
    """Seconds on top of what it may take: little with a sketch."""
    return min(PATIENCE, process.patience)


def assert_dropped(
    process: Running, begun: list[bytes], dribble: bytes = b""
) -> None:
    """All are dropped after 10 s, with a 408 or without a word."""
    begin = time.monotonic()
    clients = [process.client(data) for data in begun]
    before = time.monotonic() - begin
    took = before + min(dropped(clients, dribble, patience(process)))
    assert took >= HEAD_SECONDS - EARLY, f"after {took:.1f} s already"
    for client in clients:
        assert client.received.split(b"\r\n")[0] in REFUSED
        client.close()
    process.assert_serves()


@slow
@rule("silent")
@beside_with(60)
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
        before = time.monotonic() - begin
        last, *others = dropped([begun, *clients])
        assert before + min(others) >= IDLE_SECONDS - EARLY
        assert max(others) <= last
        for client in clients:
            responses = client.received.count(b"HTTP/1.1")
            assert responses == client.sent.count(b"GET"), "without a word"
            client.close()
        begun.close()
        process.assert_serves()


@slow
@rule("spare")
@beside_with(30)
def test_spare_connection(server: Server) -> None:
    # Browsers open a second connection in advance and leave it silent.
    with running(server) as process:
        spares = [process.client()]
        process.assert_serves(HEAD_SECONDS + patience(process))
        # Many at once must not make it worse for those after them, once
        # they have left.
        spares += [process.client() for _ in range(20)]
        for client in spares:
            client.close()
        process.assert_serves()


@slow
@rule("slow-reader")
@beside_with(60)
def test_slow_reader(server: Server) -> None:
    with running(server, "--delay", "0") as process:
        rest = process.warm_up()
        memory = peak = process.memory()
        begin = time.monotonic()
        client = Client(process.port, receive_buffer=4096)
        client.socket.settimeout(4)
        # 120,000 requests in 5 MB, answers of more than 40 MB: it stops
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
            dropped = eventually(gone, 3 * PATIENCE, 0.1)
            if dropped or process.cpu() < spent + 0.2:
                break
        assert dropped, "not dropped"
        took = time.monotonic() - begin
        if server.lessons["keep_alive"] == YES:
            assert took >= HEAD_SECONDS - EARLY, f"after {took:.1f} s"
        grown = (peak - memory) / 2**20
        most = 64 if PYPY else 16  # PyPy collects garbage later
        assert grown < most, f"memory grew by {grown:.0f} MiB"
        client.close()
        process.assert_serves()
        process.assert_at_rest(rest)


@slow
@rule("slow-reader", range(7, 8))  # of the others, see test_connection.py
@beside
def test_reader_with_breaks_is_kept(server: Server) -> None:
    # Slow is not stopped: each break is shorter than 10 s, together they
    # are longer. After each we take more than the kernel's buffers hold,
    # since a server sees progress only when it can write again.
    number = 42_000
    with running(server, "--delay", "0") as process:
        with (
            Client(process.port, receive_buffer=1 << 16, timeout=60) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            sending = pool.submit(client.send, GET * number + GET_CLOSE)
            size = 0
            for _ in range(2):
                time.sleep(HEAD_SECONDS / 2 + EARLY)
                size += len(take(client.socket, 7_000_000))
            size += len(take(client.socket))
            sending.result()
        assert size > number * 249, f"only {size} bytes came"


@slow
@rule("no-descriptors")
@beside_with(160)
def test_no_descriptors_left(server: Server) -> None:
    limit, crowd = 48, 150
    with running(server, descriptors=limit) as process:
        process.assert_serves()
        clients = [connecting(process.port) for _ in range(crowd)]
        # Quickly full, where connections are taken at all.
        eventually(lambda: limit in [
            each.num_fds() for each in process.processes()
        ], 1)
        spent = process.cpu()
        time.sleep(2)
        spent = process.cpu() - spent
        assert spent < 0.6, f"{spent:.1f} CPU seconds in 2 s: a busy loop"
        for client in clients:
            client.close()
        process.assert_serves()
        process.assert_serves()


@rule("drain-ends")
@beside_with(60)
def test_draining_ends(server: Server) -> None:
    # The server drains for a moment only: then it closes by itself,
    # though our side is still open and even sends.
    data = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n"
    with running(server) as process:
        rest, _ = process.warm_up()
        with process.client(data) as client:
            assert client.response().status == 405
            client.rest()

            def closed() -> bool:
                client.send_if_open(b"x")
                return process.descriptors() <= rest

            assert eventually(closed, PATIENCE), "the server keeps it open"


def connecting(port: int) -> socket.socket:
    """A silent connection, which the kernel may complete when it can."""
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    return client
