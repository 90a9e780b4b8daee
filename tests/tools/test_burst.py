"""The burst: clients that begin together, and their moments."""

import socket
import socketserver
import threading
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
    all_sent = threading.Barrier(20)  # no client is answered before
    there: dict[int, int] = {}

    def response(connection: socket.socket) -> bytes:
        there[connection.getpeername()[1]] = burst.now()
        all_sent.wait(30)
        return PAGE

    with listening(response) as port:
        found = burst.burst(port, 20, lambda: looks.append(burst.now()))
    last = max(each.sent for each in found)
    assert all(look >= last for look in looks)
    assert {each.port for each in found} == {*there} and len(there) == 20
    for each in found:
        assert each.begun <= each.connected <= each.sent <= there[each.port]
        assert last < each.first_byte <= each.done


@pytest.mark.parametrize("response", [
    PAGE[:-1], PAGE.replace(b"200", b"503"), b"", b"nonsense\r\n\r\n",
])
def test_a_bad_response(response: bytes) -> None:
    with (
        listening(lambda _: response) as port,
        pytest.raises(burst.BurstError, match=r"response was|not an HTTP"),
    ):
        burst.burst(port, 2)


def test_no_response(monkeypatch: Patch) -> None:
    monkeypatch.setattr(burst, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(burst.BurstError, match=r"within 0\.1 s"):
            burst.burst(port, 2)
    with pytest.raises(burst.BurstError, match="refused"):
        burst.burst(1, 2)
