"""The lab about coroutine servers: the chain, and its two loads."""

from pathlib import Path

import pytest

from labs.chain import measure, number
from tests.marks import Patch
from tests.tools.experiment import answering, run
from tools.bench.experiments import labs
from tools.bench.peers import start
from tools.bench.server import ServerError

PAGE = number.HEAD + number.BODY


def test_ten_thousand_steps_end_where_they_did_in_2010() -> None:
    assert number.after(measure.FETCHES) == 2845218640


@pytest.mark.thorough
def test_smoke(tmp_path: Path, monkeypatch: Patch) -> None:
    """All that can be had; what cannot be is skipped with the reason."""
    missing = start.missing([*measure.PEERS.values()], print)
    if "coroutines" in missing:
        pytest.skip("the environment of the peers cannot be made")
    missing["node"] = "no node: get one"
    monkeypatch.setattr(start, "missing", lambda peers, say: missing)
    words = ("chain", "--fetches", "50", "--requests", "200",
             "--chain-clients", "10", "--repeats", "1")
    status, kept = run(labs, tmp_path, *words)
    assert status == 0 and len(kept.points) == len(measure.PEERS)
    for point in kept.points:
        assert point.reason == missing.get(point.server, "")
        for one in point.runs:
            assert one.requests == 200 and one.requests_per_second
            assert one.figure("cpu_ms") and one.extra["chain_per_second"] > 0
            assert one.extra["chain_end"] == number.after(50)
            assert (one.body_bytes, one.response_bytes) == (44, 88.0)


@pytest.mark.parametrize(("second", "says"), [
    (PAGE % number.following(0), "fetch 2: page 1013904223 names 10139"),
    (b"HTTP/1.0 500 Error\r\n\r\n", "fetch 2 has no page"),
    (b"", "fetch 2 has no page"), (None, "fetch 1 failed: Connection ref"),
])
def test_a_page_that_is_skipped_or_wrong_fails_the_run(
    second: bytes | None, says: str
) -> None:
    good, port = PAGE % number.following(0), 1  # there is nobody
    if second is not None:
        port = answering(good, second)
    with pytest.raises(ServerError, match=says):
        measure.chain(port, 2)
