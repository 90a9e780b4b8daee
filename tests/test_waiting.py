"""Clients that let a server wait: silent, slow, idle, never reading.

All side by side. A server's time begins when it accepts, so ours begins
before we connect: then none can come too early by our fault.
"""

import contextlib
import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.beside import beside
from tests.marks import rule, slow
from tests.process import Running, eventually, running
from tools.common.raw_client import GET, GET_CLOSE, HOST, Client
from tools.servers import YES, Server

HEAD_SECONDS = 10.0
IDLE_SECONDS = 5.0
EARLY = 0.5  # a server may round
PATIENCE = 30.0  # on top of it, for a very busy machine
REFUSED = (b"", b"HTTP/1.1 408 Request Timeout")


def dropped(
    clients: list[Client], seconds: float,
    every: tuple[tuple[Client, bytes], ...] = (),
) -> float:
    """Wait until all have been dropped; when the first one was.

    The clients in every send one more of their bytes each second.
    """
    begin = time.monotonic()
    first, beats, left = 0.0, 0, list(clients)
    while left:
        now = time.monotonic()
        assert now < begin + seconds, f"{len(left)} not in {seconds} s"
        if now >= begin + beats:
            for client, data in every:
                if client in left:
                    client.send_if_open(data[beats:beats + 1])
            beats += 1
        waiting = [client.socket for client in left]
        readable, _, _ = select.select(waiting, [], [], 0.1)
        for client in list(left):
            if client.socket in readable and not client.receive(1):
                left.remove(client)
                first = first or time.monotonic()
    return first


def patience(process: Running) -> float:
    """Seconds on top of what it may take: little with a sketch."""
    return min(PATIENCE, process.patience)


def assert_dropped(
    process: Running, begin: float, clients: list[Client],
    every: tuple[tuple[Client, bytes], ...] = (),
) -> None:
    """All are dropped after 10 s, with a 408 or without a word."""
    latest = HEAD_SECONDS + (10 if every else patience(process))
    took = dropped(clients, latest, every) - begin
    assert took >= HEAD_SECONDS - EARLY, f"after {took:.1f} s already"
    for client in clients:
        assert client.received.split(b"\r\n")[0] in REFUSED
        client.close()
    process.assert_serves()


@slow
@rule("silent")
@beside
def test_silent(server: Server) -> None:
    with running(server) as process:
        before = process.warm_up()
        begin = time.monotonic()
        clients = [process.client()]
        if server.lessons["silent"] == YES:
            clients += [process.client(b"GET /"), process.client(b"\r\n")]
        assert_dropped(process, begin, clients)
        process.assert_at_rest(before)


@slow
@rule("dribble")
@beside
def test_dribble(server: Server) -> None:
    # Each byte comes well within 10 s: the whole head has to.
    with running(server) as process:
        begin = time.monotonic()
        clients = [process.client()]
        texts = [b"GET / HTTP/1.1\r\nHost: " + b"a" * 50]
        if server.lessons["silent"] == YES:
            clients.append(process.client(b"GET / HTTP/1.1\r\n"))
            texts.append(b"X: y\r\n" * 10)
        every = tuple(zip(clients, texts, strict=True))
        assert_dropped(process, begin, clients, every)


@slow
@rule("idle")
@beside
def test_idle(server: Server) -> None:
    with running(server) as process:
        if server.lessons["keep_alive"] != YES:
            with process.client(GET) as client:
                # A sketch says it by HTTP/1.0.
                assert client.answer().closes or process.sketch
                client.rest()
            return
        clients = [process.client() for _ in range(2)]
        clients[1].ask(GET)
        clients[1].ask(GET)
        begin = time.monotonic()
        for client in clients:
            client.ask(GET)
        # Before 10 s: that is the time for a head.
        took = dropped(clients, HEAD_SECONDS - EARLY) - begin
        assert took >= IDLE_SECONDS - EARLY, f"after {took:.1f} s already"
        for client in clients:
            answers = client.received.count(b"HTTP/1.1")
            assert answers == client.sent.count(b"GET"), "without a word"
            client.close()
        process.assert_serves()


@slow
@rule("idle")
@beside
def test_begun_request_is_not_idle(server: Server) -> None:
    # A request that has begun has 10 s, also on a kept connection.
    with running(server) as process, process.client() as client:
        if server.lessons["keep_alive"] == YES:
            client.ask(GET)
        client.send(GET[:20])
        time.sleep(IDLE_SECONDS + 1)
        assert client.ask(GET[20:]).status == 200


@slow
@rule("spare")
@beside
def test_spare_connection(server: Server) -> None:
    # Browsers open a second connection in advance and leave it silent.
    with running(server) as process:
        spare = process.client()
        begin = time.monotonic()
        process.assert_serves(HEAD_SECONDS + patience(process))
        if server.lessons["silent"] == YES:
            assert time.monotonic() - begin < HEAD_SECONDS - EARLY
        # Many at once must not make it worse for those after them, once
        # they have left.
        spares = [process.client() for _ in range(20)]
        for client in [spare, *spares]:
            client.close()
        process.assert_serves()


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
        # 120,000 requests in 5 MB, answers of more than 40 MB: it stops
        # reading at some point, or hangs up.
        with contextlib.suppress(OSError):
            for _ in range(300):
                client.socket.sendall(GET * 400)

        def gone() -> bool:
            nonlocal peak
            peak = max(peak, process.memory())
            return process.descriptors() <= rest[0]

        assert eventually(gone, HEAD_SECONDS + PATIENCE, 0.1), "not dropped"
        took = time.monotonic() - begin
        if server.lessons["keep_alive"] == YES:
            assert took >= HEAD_SECONDS - EARLY, f"after {took:.1f} s"
        grown = (peak - memory) / 2**20
        assert grown < 16, f"memory grew by {grown:.0f} MiB"
        client.close()
        process.assert_serves()
        process.assert_at_rest(rest)


@slow
@rule("slow-reader")
@beside
def test_reader_with_breaks_is_kept(server: Server) -> None:
    # Slow is not stopped: each break is shorter than 10 s, together they
    # are longer. After each we take more than the kernel's buffers hold,
    # since a server sees progress only when it can write again.
    if server.lessons["keep_alive"] != YES:
        pytest.skip("one answer fits into the buffers")
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
                size += take(client, 7_000_000)
            size += take(client, 1 << 30)
            sending.result()
        assert size > number * 249, f"only {size} bytes came"


def take(client: Client, wanted: int) -> int:
    """Receive this many bytes, or all until the end; how many came."""
    size = 0
    while size < wanted:
        received = client.socket.recv(1 << 18)
        if not received:
            break
        size += len(received)
    return size


@slow
@rule("no-descriptors")
@beside
def test_no_descriptors_left(server: Server) -> None:
    limit, crowd = 48, 150
    with running(server, descriptors=limit) as process:
        process.assert_serves()
        clients = [connecting(process.port) for _ in range(crowd)]
        # Quickly full, where connections are taken at all.
        eventually(lambda: busiest(process) >= limit, 1)
        spent = process.cpu()
        time.sleep(2)
        spent = process.cpu() - spent
        assert spent < 0.6, f"{spent:.1f} CPU seconds in 2 s: a busy loop"
        for client in clients:
            client.close()
        process.assert_serves()
        process.assert_serves()


@rule("drain-ends")
@beside
def test_draining_ends(server: Server) -> None:
    # The server drains for a moment only: then it closes by itself,
    # though our side is still open and even sends.
    data = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n"
    with running(server) as process:
        rest, _ = process.warm_up()
        with process.client(data) as client:
            assert client.answer().status == 405
            client.rest()

            def closed() -> bool:
                client.send_if_open(b"x")
                return process.descriptors() <= rest

            assert eventually(closed, PATIENCE), "the server keeps it open"


def busiest(process: Running) -> int:
    """The descriptors of the process that has most of them."""
    return max(each.num_fds() for each in process.processes())


def connecting(port: int) -> socket.socket:
    """A silent connection, which the kernel may complete when it can."""
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    return client
