"""The burst: clients that begin together, and their moments."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.marks import Patch, Said
from tools.bench.recording import burst

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def listening(answer: Callable[[socket.socket], bytes]) -> Iterator[int]:
    """A server that says this to each request; its port."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(answer(self.request))

    address = ("127.0.0.1", 0)
    with socketserver.ThreadingTCPServer(address, Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_all_begin_before_the_first_is_answered(capsys: Said) -> None:
    all_sent = threading.Barrier(20)  # nobody is answered before
    there: dict[int, int] = {}

    def answer(connection: socket.socket) -> bytes:
        there[connection.getpeername()[1]] = burst.now()
        all_sent.wait(30)
        return PAGE

    before = time.time_ns() // 1000
    with listening(answer) as port:
        found = burst.burst("127.0.0.1", port, 20)
    after = time.time_ns() // 1000
    assert capsys.readouterr().out == "sent\n"
    assert len({each.port for each in found}) == 20
    assert max(e.sent for e in found) < min(e.first_byte for e in found)
    for each in found:
        assert each.sent <= there[each.port]
        times = [
            before, each.begun, each.connected, each.sent, each.first_byte,
            each.done, after,
        ]  # fmt: skip
        assert times == sorted(times)


@pytest.mark.parametrize(("answer", "sentence"), [
    (PAGE[:-1], "1 bytes came instead of 2"),
    (PAGE.replace(b"200", b"503"), "503"),
    (b"", "the answer was 'nothing'"),
    (b"HTTP/1.1 200 OK\r\n", "200 OK"),  # the head is not whole
])
def test_a_bad_answer(answer: bytes, sentence: str) -> None:
    with (
        listening(lambda _: answer) as port,
        pytest.raises(burst.BurstError, match=sentence),
    ):
        burst.burst("127.0.0.1", port, 2)


def test_no_answer(monkeypatch: Patch) -> None:
    monkeypatch.setattr(burst, "SECONDS", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(burst.BurstError, match=r"no answer within 0\.1 s"),
    ):
        burst.burst("127.0.0.1", listener.getsockname()[1], 2)


def test_what_the_program_prints_can_be_read(capsys: Said) -> None:
    with listening(lambda _: PAGE) as port:
        assert burst.main(["127.0.0.1", str(port), "2"]) == 0
        found = burst.read(capsys.readouterr().out)
        assert len(found) == 2
        assert found[0].begun <= found[1].begun <= found[0].done
    assert burst.main(["127.0.0.1", str(port), "2"]) == 1
    assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "sent\n", "sent\n[1]", "sent\n[[1"])
def test_nonsense_cannot_be_read(text: str) -> None:
    with pytest.raises(burst.BurstError, match="the clients said"):
        burst.read(text)
