"""The burst: clients that begin together, and their moments."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.marks import Patch
from tools.bench.recording import burst

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def listening(response: Callable[[socket.socket], bytes]) -> Iterator[int]:
    """A server that says this to each request; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(response(self.request))

    address = ("127.0.0.1", 0)
    with socketserver.ThreadingTCPServer(address, Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_all_begin_before_the_first_is_answered() -> None:
    looks: list[int] = []
    all_sent = threading.Barrier(20)  # nobody is answered before
    there: dict[int, int] = {}

    def response(connection: socket.socket) -> bytes:
        there[connection.getpeername()[1]] = burst.now()
        all_sent.wait(30)
        return PAGE

    before = time.time_ns() // 1000
    with listening(response) as port:
        found = burst.burst(port, 20, lambda: looks.append(burst.now()))
    after = time.time_ns() // 1000
    assert all(look >= max(e.sent for e in found) for look in looks)
    assert len({each.port for each in found}) == 20
    assert max(e.sent for e in found) < min(e.first_byte for e in found)
    for each in found:
        assert each.sent <= there[each.port]
        times = [
            before, each.begun, each.connected, each.sent, each.first_byte,
            each.done, after,
        ]  # fmt: skip
        assert times == sorted(times)


@pytest.mark.parametrize(("response", "sentence"), [
    (PAGE[:-1], "1 bytes came instead of 2"),
    (PAGE.replace(b"200", b"503"), "503"),
    (b"", "the answer was 'nothing'"),
    (b"HTTP/1.1 200 OK\r\n", "200 OK"),  # the head is not whole
])
def test_a_bad_response(response: bytes, sentence: str) -> None:
    with (
        listening(lambda _: response) as port,
        pytest.raises(burst.BurstError, match=sentence),
    ):
        burst.burst(port, 2)


def test_no_response(monkeypatch: Patch) -> None:
    monkeypatch.setattr(burst, "SECONDS", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(burst.BurstError, match=r"no answer within 0\.1 s"),
    ):
        burst.burst(listener.getsockname()[1], 2)


def test_nobody_is_there() -> None:
    with pytest.raises(burst.BurstError, match="refused"):
        burst.burst(1, 2)
