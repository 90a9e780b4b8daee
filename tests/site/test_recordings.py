"""The committed recordings: each server has one, and each can be shown.

That its moments are complete and possible, the program that records it sees
to (tests/tools/test_timeline.py).
"""

import pytest

from tools.bench.experiments.record import unlike
from tools.data import recording
from tools.servers import SERVERS, by_name


@pytest.mark.parametrize("name", [server.name for server in SERVERS])
def test_each_server_has_one_like_its_model(name: str) -> None:
    file = recording.REFERENCE / f"{name}.json"
    assert file.exists(), f"./bench.sh record --only {name} --reference"
    found, text = recording.load(file), file.read_text("utf-8")
    assert found.server == name
    assert not unlike(by_name(name), found)
    assert text == recording.to_json(found)
    assert len(text.encode()) <= recording.MOST_BYTES
    for secret in ("/home", "/root", "/tmp", "/work", "127.0.0.1"):
        assert secret not in text
