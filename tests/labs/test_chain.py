"""The lab about coroutine servers: the chain, and its two loads."""

from pathlib import Path

import pytest

from labs.chain import measure, number
from tests.marks import Patch
from tests.tools.experiment import answering, run
from tools.bench.experiments import labs
from tools.bench.peers import start
from tools.bench.server import ServerError


def test_ten_thousand_steps_end_where_they_did_in_2010() -> None:
    assert number.after(measure.FETCHES) == 2845218640


@pytest.mark.thorough
def test_smoke(tmp_path: Path) -> None:
    if start.missing([measure.PEERS["coroutines"]], print):
        pytest.skip("the environment of the peers cannot be made")
    words = ("chain", "--fetches", "50", "--requests", "200",
             "--chain-clients", "10", "--repeats", "1")
    status, kept = run(labs, tmp_path, *words)
    assert status == 0 and len(kept.points) == len(measure.PEERS)
    for point in kept.points:
        if point.status == "skipped":  # there is no node here
            continue
        (one,) = point.runs
        assert one.requests == 200 and one.requests_per_second
        assert one.figure("cpu_ms") and one.extra["chain_per_second"] > 0
        assert one.extra["chain_end"] == number.after(50)
        assert (one.body_bytes, one.response_bytes) == (44, 88.0)


def page(named: int) -> bytes:
    return number.HEAD + number.BODY % named


@pytest.mark.parametrize(("second", "says"), [
    (page(number.following(0)), "fetch 2: page 1013904223 names 10139"),
    (b"HTTP/1.0 500 Error\r\n\r\n", "fetch 2 has no page"),
    (b"", "fetch 2 has no page"),
])
def test_a_page_that_is_skipped_or_wrong_fails_the_run(
    second: bytes, says: str
) -> None:
    port = answering(page(number.following(0)), second)
    with pytest.raises(ServerError, match=says):
        measure.chain(port, 2)
    with pytest.raises(ServerError, match="fetch 1 failed: Connection ref"):
        measure.chain(1, 1)  # nobody is there


def test_what_cannot_be_had_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(
        start, "missing", lambda peers, say: {"node": "no node: get one"}
    )
    status, kept = run(labs, tmp_path, "chain", "--servers", "node")
    assert status == 0
    (point,) = kept.points
    assert (point.status, point.reason) == ("skipped", "no node: get one")
