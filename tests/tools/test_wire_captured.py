"""wire: the committed bytes are those of today's servers and clients."""

import argparse
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.marks import Patch, Said
from tools.bench.experiments import wire
from tools.bench.server import ServerError, start
from tools.data import exchange
from tools.servers import by_name

# What differs from one second, one Python or one curl to the next.
CHANGES = re.compile(
    rb"(?m)^(Date|Server): [^\r]*|(?<=^User-Agent: curl/)[0-9.]+"
)


def plain(data: bytes) -> bytes:
    return CHANGES.sub(rb"\1", data)


def test_every_exchange_is_committed() -> None:
    files = exchange.REFERENCE.glob("*.json")
    assert {file.stem for file in files} == set(wire.REQUESTS)


@pytest.mark.parametrize("name", sorted({
    request.server for request in wire.REQUESTS.values()
}))  # fmt: skip
def test_the_servers_still_say_the_committed_bytes(name: str) -> None:
    with start(by_name(name), 0.0) as process:
        for stem, request in wire.REQUESTS.items():
            if request.server != name:
                continue
            kept = exchange.load(exchange.REFERENCE / f"{stem}.json")
            assert (kept.name, kept.server) == (stem, name)
            assert kept.sent == request.sent
            assert kept.half_closed == request.half_close
            received = wire.converse(process, request)
            assert plain(received) == plain(kept.received)
            responses = received.count(b"HTTP/1.")
            assert received.count(b"\r\nDate: ") == responses


def sent_by(*words: str) -> bytes:
    """What a client sends; it is told a port of ours in the last word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
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
            timeout=60,
        )
        thread.join()
    return caught[0].replace(b":%d\r" % port, b":8000\r")


@pytest.mark.parametrize(("name", "words"), [
    ("get", ["curl", "--noproxy", "*"]),
    ("head", ["curl", "--noproxy", "*", "--head"]),
    ("http10", ["ab", "-n", "1"]),
    ("http10-keep-alive", ["ab", "-n", "1", "-k"]),
])
def test_the_clients_still_send_the_committed_bytes(
    name: str, words: list[str]
) -> None:
    if not shutil.which(words[0]):
        pytest.skip(f"there is no {words[0]} on this machine")
    assert plain(sent_by(*words)) == plain(wire.REQUESTS[name].sent)


@pytest.mark.parametrize("reference", [False, True])
def test_a_run_is_saved_and_shown(
    reference: bool, tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(wire, "REQUESTS", {"head": wire.REQUESTS["head"]})
    monkeypatch.setattr(exchange, "REFERENCE", tmp_path / "reference")
    options = argparse.Namespace(
        reference=reference, output=None if reference else tmp_path / "own",
        repeats=None, command="./bench.sh wire",
    )
    assert wire.run(options) == 0
    folder = tmp_path / ("reference" if reference else "own")
    kept = exchange.load(folder / "head.json")
    assert kept.sent.startswith(b"HEAD / ")
    assert kept.received.endswith(b"\r\n\r\n")
    assert kept.command == "./bench.sh wire"
    assert kept.versions["python"].startswith("CPython ")
    said = capsys.readouterr().out
    assert "-> HEAD / HTTP/1.1" in said and "<- HTTP/1.1 200 OK" in said


def test_a_server_that_does_not_close_is_an_error(monkeypatch: Patch) -> None:
    monkeypatch.setattr(wire, "SECONDS", 0.3)
    request = wire.Request("03", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    with (
        start(by_name("03"), 0.0) as process,
        pytest.raises(ServerError, match="03 has not answered and closed"),
    ):
        wire.converse(process, request)
