"""Clients that let a server wait: silent, slow, idle, never reading."""

import contextlib
import select
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.marks import rule, slow
from tests.process import Running, eventually, running
from tools.common.raw_client import GET, GET_CLOSE, Client
from tools.servers import YES, Server

HEAD_SECONDS = 10.0
IDLE_SECONDS = 5.0
EARLY, LATE = 0.5, 5.0  # how far off these may be


def dropped(
    clients: list[Client], seconds: float, every: dict[Client, bytes]
) -> dict[Client, float]:
    """When each client saw the end, in seconds from now.

    Clients in every send one more of their bytes each second.
    """
    begin = time.monotonic()
    ends: dict[Client, float] = {}
    beats = 0
    while len(ends) < len(clients):
        now = time.monotonic() - begin
        if now > seconds:
            break
        if now >= beats:
            for client, data in every.items():
                if client not in ends:
                    client.send_if_open(data[beats:beats + 1])
            beats += 1
        waiting = [c.socket for c in clients if c not in ends]
        readable, _, _ = select.select(waiting, [], [], 0.1)
        for client in clients:
            if client.socket in readable and not client.receive(1):
                ends[client] = time.monotonic() - begin
    return ends


def assert_dropped(
    process: Running, clients: list[Client], lines_up: bool,
    every: dict[Client, bytes] | None = None,
) -> None:
    """All are dropped after 10 s, with a 408 or without a word.

    lines_up: each waits until those before it are dropped.
    """
    latest = HEAD_SECONDS * (len(clients) if lines_up else 1) + LATE
    ends = dropped(clients, latest, every or {})
    for number, client in enumerate(clients, 1):
        assert client in ends, f"number {number} not in {latest} s"
        earliest = HEAD_SECONDS * (number if lines_up else 1) - EARLY
        assert ends[client] >= earliest, f"{number} in {ends[client]:.1f} s"
        answer = client.received.split(b"\r\n")[0]
        assert answer in (b"", b"HTTP/1.1 408 Request Timeout"), answer
        client.close()
    process.assert_serves()


@slow
@rule("silent")
def test_silent(server: Server) -> None:
    with running(server) as process:
        before = process.warm_up()
        clients = [process.client()]
        if server.lessons["silent"] == YES:
            clients += [process.client(b"GET /"), process.client(b"\r\n")]
        assert_dropped(process, clients, False)
        process.assert_at_rest(before)


@slow
@rule("dribble")
def test_dribble(server: Server) -> None:
    # Each byte comes well within 10 s: the whole head has to.
    with running(server) as process:
        clients = [process.client()]
        every = {clients[0]: b"GET / HTTP/1.1\r\nHost: abcdefghijkl"}
        if server.lessons["silent"] == YES:
            clients.append(process.client(b"GET / HTTP/1.1\r\n"))
            every[clients[1]] = b"X: y\r\n" * 10
        assert_dropped(process, clients, False, every)


@slow
@rule("idle")
def test_idle(server: Server) -> None:
    with running(server) as process:
        if server.lessons["keep_alive"] != YES:
            with process.client(GET) as client:
                assert client.answer().closes
                client.rest(2)
            return
        clients = [process.client(), process.client(), process.client()]
        clients[1].ask(GET)
        clients[1].ask(GET)
        for client in clients:
            client.ask(GET)
        ends = dropped(clients[:2], IDLE_SECONDS + LATE, {})
        for client in clients[:2]:
            assert client in ends, "still open after 10 s"
            assert ends[client] >= IDLE_SECONDS - EARLY, ends[client]
            assert client.received.count(b"HTTP/1.1") == (
                client.sent.count(b"GET")
            ), "an idle connection is closed without a word"
            client.close()
        process.assert_serves()
        clients[2].close()


@slow
@rule("idle")
def test_begun_request_is_not_idle(server: Server) -> None:
    # A request that has begun has 10 s, also on a kept connection.
    with running(server) as process, process.client() as client:
        if server.lessons["keep_alive"] == YES:
            client.ask(GET)
        client.send(GET[:20])
        time.sleep(IDLE_SECONDS + 1.5)
        assert client.ask(GET[20:]).status == 200


@slow
@rule("spare")
def test_spare_connection(server: Server) -> None:
    # Browsers open a second connection in advance and leave it silent.
    with running(server) as process:
        spare = process.client()
        first = process.client(GET_CLOSE)
        begin = time.monotonic()
        assert first.answer(timeout=HEAD_SECONDS + LATE).status == 200
        waited = time.monotonic() - begin
        if server.lessons["silent"] == YES:
            assert waited < HEAD_SECONDS / 2, f"{waited:.1f} s"
        # Many at once must not make it worse for those after them, once
        # they have left.
        spares = [process.client() for _ in range(20)]
        for client in [spare, *spares]:
            client.close()
        process.assert_serves()


@slow
@rule("slow-reader")
def test_slow_reader(server: Server) -> None:
    with running(server, "--delay", "0") as process:
        rest = process.warm_up()
        memory = process.memory()
        client = Client(process.port, receive_buffer=4096)
        begin = time.monotonic()
        client.socket.settimeout(0.5)
        # 120,000 requests in 5 MB, answers of more than 40 MB.
        data = GET * 400
        tries = 0
        with contextlib.suppress(OSError):
            for _ in range(300):
                left = data
                while left and tries < 8:
                    try:
                        left = left[client.socket.send(left):]
                        tries = 0
                    except TimeoutError:  # it does not read any more
                        tries += 1
        peak = process.memory()

        def gone() -> bool:
            nonlocal peak
            peak = max(peak, process.memory())
            return process.descriptors() <= rest[0]

        assert eventually(gone, 30, every=0.1), "never dropped"
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
def test_reader_with_breaks_is_kept(server: Server) -> None:
    # Slow is not stopped: each break is shorter than 10 s, together they
    # are longer. After each we take more than the kernel's buffers hold,
    # since a server sees progress only when it can write again.
    if server.lessons["keep_alive"] != YES:
        pytest.skip("one answer fits into the buffers")
    number = 60_000
    with running(server, "--delay", "0") as process:
        with (
            Client(process.port, receive_buffer=1 << 16, timeout=60) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            sending = pool.submit(client.send, GET * number + GET_CLOSE)
            begin = time.monotonic()
            size = 0
            for _ in range(3):
                time.sleep(4)
                size += take(client, 7_000_000)
            assert time.monotonic() - begin > HEAD_SECONDS
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
