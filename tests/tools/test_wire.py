"""wire: the committed bytes are those of today's servers, and all of them."""

import argparse
import dataclasses
import json
import re
from pathlib import Path

import pytest

from tests.marks import Patch, Said
from tools.bench.experiments import wire
from tools.bench.server import ServerError, start
from tools.common.files import DataError
from tools.data import exchange
from tools.servers import by_name

# What differs from one second or one Python to the next.
CHANGES = re.compile(rb"(?m)^(Date|Server): [^\r]*")
EVERY = bytes(range(256))


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
    file = tmp_path / ("reference" if reference else "own") / "head.json"
    kept = exchange.load(file)
    assert kept.received.endswith(b"\r\n\r\n")
    assert kept.command == "./bench.sh wire"
    assert kept.versions["python"].startswith("CPython ")
    said = capsys.readouterr().out
    assert "-> HEAD / HTTP/1.1" in said and "<- HTTP/1.1 200 OK" in said
    # The file can be read: a line of it is a line of the request.
    text = file.read_text()
    assert text.isascii()
    assert json.loads(text)["sent"][0] == "HEAD / HTTP/1.1\r\n"


def test_a_server_that_does_not_close_is_an_error(monkeypatch: Patch) -> None:
    monkeypatch.setattr(wire, "SECONDS", 0.3)
    request = wire.Request("03", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    with (
        start(by_name("03"), 0.0) as process,
        pytest.raises(ServerError, match="03 has not answered and closed"),
    ):
        wire.converse(process, request)


@pytest.mark.parametrize(
    "data", [b"", b"a\r\n\r\nb", EVERY, b"\n\n" + EVERY * 3]
)
def test_every_byte_comes_back(tmp_path: Path, data: bytes) -> None:
    made = exchange.load(exchange.REFERENCE / "get.json")
    made = dataclasses.replace(made, received=data, half_closed=True)
    assert exchange.load(made.save(tmp_path)) == made


@pytest.mark.parametrize(("text", "why"), [
    ("[]", "is not an exchange"),
    ('{"schema": 2}', "capture again with ./bench.sh wire"),
    ('{"schema": 1, "sent": ["\\u2190"], "received": []}', "is not an exch"),
])
def test_what_is_no_exchange_is_one_sentence(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(DataError, match=why):
        exchange.load(file)
