"""The lab about the price of WSGI: our server of it, and all of them."""

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

import pytest

from labs.chain import measure as chain
from labs.chain import number
from labs.wsgi import measure, on_coroutines, page
from tests.marks import Patch
from tests.tools.experiment import run
from tools.bench.experiments import labs
from tools.bench.peers import start
from tools.bench.server import Running, free_port
from tools.servers import ROOT

REQUEST = (b"GET /a%20b?c=d HTTP/1.0\r\nHost: x:1\r\nContent-Type: t\r\n\r\n"
           b"rest")
HEAD = b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n"


@pytest.fixture(autouse=True)
def address(monkeypatch: Patch) -> None:
    monkeypatch.setattr(sys, "argv", ["", "127.0.0.1", "8000"])


def test_what_the_application_is_told() -> None:
    told = on_coroutines.environment(REQUEST)
    assert told["wsgi.input"].read() == b"rest"
    assert {name: told[name] for name in (
        "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "SERVER_PROTOCOL",
        "SERVER_PORT", "HTTP_HOST", "CONTENT_TYPE",
    )} == {
        "REQUEST_METHOD": "GET", "PATH_INFO": "/a b", "QUERY_STRING": "c=d",
        "SERVER_PROTOCOL": "HTTP/1.0", "SERVER_PORT": "8000",
        "HTTP_HOST": "x:1", "CONTENT_TYPE": "t",
    }  # fmt: skip
    with pytest.raises(ValueError):
        on_coroutines.environment(b"GET /\r\n\r\n")


class Body:
    """Pieces, and whether it was closed."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces, self.closed = pieces, False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.pieces)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("pieces", "written", "sent"), [
    ([b"one", b"two"], [], [HEAD + b"one", b"two"]),
    ([b"", b"one"], [], [HEAD + b"one"]), ([], [], [HEAD]),
    ([b"two"], [b"one"], [HEAD + b"onetwo"]), ([], [b"a"], [HEAD + b"a"]),
])
def test_the_head_goes_with_the_first_piece(
    pieces: list[bytes], written: list[bytes], sent: list[bytes]
) -> None:
    body = Body(*pieces)

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Body:
        write = start("200 OK", [("A", "b")])
        for piece in written:
            write(piece)
        return body

    assert [*on_coroutines.answer(app, {})] == sent and body.closed


def test_it_keeps_the_rules_of_wsgi(capfd: pytest.CaptureFixture[str]) -> None:
    """As far as the standard library's validator knows them."""
    app = validator(page.application)
    request = REQUEST.replace(b"/a%20b", b"/7").replace(b"rest", b"")
    told = on_coroutines.environment(request)
    pieces = on_coroutines.answer(app, told)
    assert b"".join(pieces) == number.HEAD + number.BODY % number.following(7)
    assert capfd.readouterr().out == "GET /7\n"


def test_our_server_of_it_serves_the_chain() -> None:
    port = free_port()
    words = sys.executable, "-m", "labs.wsgi.on_coroutines"
    with Running((*words, "127.0.0.1", str(port)), ROOT, port):
        assert chain.chain(port, 20) == number.after(20)
        for nonsense in (b"", b"\r\n\r\n", b"GET /x HTTP/1.0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), 60) as sock:
                sock.sendall(nonsense)
                sock.shutdown(socket.SHUT_WR)
                assert sock.recv(100) == b""
        assert chain.chain(port, 2) == number.after(2)


@pytest.mark.thorough
def test_smoke(tmp_path: Path, monkeypatch: Patch) -> None:
    """All that can be had; what cannot be is skipped with the reason."""
    peers = [*measure.PLAIN, *measure.WSGI]
    missing = start.missing(peers, print)
    if "coroutines" in missing:
        pytest.skip("the environment of the peers cannot be made")
    missing["waitress-wsgi"] = "no waitress: get it"
    monkeypatch.setattr(start, "missing", lambda peers, say: missing)
    words = ("wsgi", "--fetches", "50", "--requests", "200",
             "--chain-clients", "10", "--repeats", "1")
    status, kept = run(labs, tmp_path, *words)
    assert status == 0
    assert [p.server for p in kept.points if p.status == "ok"] == [
        p.name for p in peers if p.name not in missing
    ]
    for point in kept.points:
        assert point.reason == missing.get(point.server, "")
        for one in point.runs:
            assert one.requests == 200 and one.figure("cpu_ms")
            assert one.extra["chain_end"] == number.after(50)
            assert one.body_bytes == 44
