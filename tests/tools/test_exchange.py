"""tools.data.exchange: no byte is lost on the way to the disk and back."""

import dataclasses
import json
from pathlib import Path

import pytest

from tools.common.files import DataError
from tools.data import exchange
from tools.data.exchange import Exchange

EVERY = bytes(range(256))
MADE = Exchange(
    "get", "02", "./bench.sh wire", "2000-01-02T03:04:05+00:00", "",
    {"python": "CPython 3.11.7"}, b"GET / HTTP/1.1\r\n\r\n", EVERY + b"\n\n",
)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"a", b"a\r\n\r\nb", EVERY, b"\n\n" + EVERY * 3]
)
def test_every_byte_comes_back(tmp_path: Path, data: bytes) -> None:
    made = dataclasses.replace(MADE, received=data, half_closed=True)
    file = made.save(tmp_path)
    assert file == tmp_path / "get.json"
    assert exchange.load(file) == made
    assert not list(tmp_path.glob("*.new"))


def test_the_file_can_be_read(tmp_path: Path) -> None:
    text = MADE.save(tmp_path).read_text(encoding="utf-8")
    assert json.loads(text)["sent"] == ["GET / HTTP/1.1\r\n", "\r\n"]
    assert text.isascii()


@pytest.mark.parametrize(("text", "why"), [
    ("{", "is not an exchange"),
    ("[]", "is not an exchange"),
    ('{"schema": 2}', "capture again with ./bench.sh wire"),
    ('{"schema": 1}', "is not an exchange"),
    ('{"schema": 1, "sent": 1, "received": []}', "is not an exchange"),
    ('{"schema": 1, "sent": ["\\u2190"], "received": []}', "is not an exch"),
])
def test_what_is_no_exchange_is_one_sentence(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(DataError, match=why):
        exchange.load(file)
    with pytest.raises(DataError, match="cannot be read"):
        exchange.load(tmp_path / "none.json")
