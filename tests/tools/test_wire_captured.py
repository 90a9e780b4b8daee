"""x_wire: the committed bytes are those of today's servers and clients."""

import argparse
import io
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import x_wire
from tools.bench.server import ServerError, start
from tools.data import exchange
from tools.data.results import Machine, Results
from tools.servers import by_name

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
# What differs from one second, one Python or one curl to the next.
CHANGES = re.compile(
    rb"(?m)^(Date|Server): [^\r]*|(?<=^User-Agent: curl/)[0-9.]+"
)


def plain(data: bytes) -> bytes:
    return CHANGES.sub(rb"\1", data)


def test_every_exchange_is_committed() -> None:
    files = exchange.REFERENCE.glob("*.json")
    assert {file.stem for file in files} == set(x_wire.REQUESTS)


@pytest.mark.parametrize("name", x_wire.REQUESTS)
def test_the_servers_still_say_the_committed_bytes(name: str) -> None:
    request = x_wire.REQUESTS[name]
    kept = exchange.load(exchange.REFERENCE / f"{name}.json")
    assert (kept.name, kept.server) == (name, request.server)
    assert (kept.sent, kept.half_closed) == (request.sent, request.half_close)
    with start(by_name(kept.server), 0.0) as process:
        received = x_wire.converse(process, request)
    assert plain(received) == plain(kept.received)
    assert received.count(b"\r\nDate: ") == received.count(b"HTTP/1.")


def sent_by(*words: str) -> bytes:
    """What a client sends; it is told a port of ours in the last word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        port = listener.getsockname()[1]
        caught = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                caught.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.0 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        subprocess.run(
            [*words, f"http://127.0.0.1:{port}/"], capture_output=True,
            timeout=30,
        )
        thread.join()
    return caught[0].replace(b":%d\r" % port, b":8000\r")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get", ["curl", "--noproxy", "*"]),
        ("head", ["curl", "--noproxy", "*", "--head"]),
        ("http10", ["ab", "-n", "1"]),
        ("http10-keep-alive", ["ab", "-n", "1", "-k"]),
    ],
)
def test_the_clients_still_send_the_committed_bytes(
    name: str, words: list[str]
) -> None:
    if not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]} on this machine")
    assert plain(sent_by(*words)) == plain(x_wire.REQUESTS[name].sent)


def results() -> Results:
    return Results(
        "./bench.sh wire", "wire", "2000-01-02T03:04:05+00:00", "abc",
        MACHINE, {},
    )


def test_a_run_is_saved_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    one = {"head": x_wire.REQUESTS["head"]}
    monkeypatch.setattr(x_wire, "REQUESTS", one)
    monkeypatch.setattr(exchange, "REFERENCE", tmp_path / "reference")
    made = results()
    for reference in (False, True):
        options = argparse.Namespace(reference=reference)
        console = Console(file=file, width=100)
        assert x_wire.run(options, made, tmp_path / "own", console) == 0
    assert not made.points  # so the folder is left to us
    for folder in ("own", "reference"):
        kept = exchange.load(tmp_path / folder / "head.json")
        assert kept.sent.startswith(b"HEAD / ")
        assert kept.received.endswith(b"\r\n\r\n")
        assert kept.versions == {"python": "CPython 3.11.7"}
    assert "-> HEAD / HTTP/1.1" in file.getvalue()
    assert "<- HTTP/1.1 200 OK" in file.getvalue()


def test_a_server_that_does_not_close_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(x_wire, "SECONDS", 0.3)
    request = x_wire.Request("03", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    with (
        start(by_name("03"), 0.0) as process,
        pytest.raises(ServerError, match="03 has not answered and closed"),
    ):
        x_wire.converse(process, request)
