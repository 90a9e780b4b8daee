"""The committed recordings: complete, possible, and each like its model."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.data import recording
from tools.data.recording import CLIENTS, KINDS, NOBODY, Recording
from tools.servers import SERVERS, by_name

NAMES = [server.name for server in SERVERS]
TICKS = 1  # µs that two rounded times may differ
# Server -> threads; most of them that waited for a request at once;
# most requests in service at once.
MODELS = {
    "01": (1, 1, 1),
    "02": (1, 1, 1),
    "03": (21, 20, 20),
    "03-pool": (11, 10, 10),
    "04": (1, 1, 1),
    "05": (21, 20, 20),
    "05-heap": (1, 0, 20),
    "06": (1, 0, 20),
    "06-executor": (7, 6, 20),
    "06-protocol": (1, 0, 20),
    "07": (2, 0, 20),
    "07-emulated": (2, 0, 20),
}
RINGS = "07"  # there, most moments are no system calls


def file(name: str) -> Path:
    return recording.REFERENCE / f"{name}.json"


@pytest.fixture(params=NAMES)
def found(request: pytest.FixtureRequest) -> Recording:
    return recording.load(file(request.param))


@pytest.fixture(params=[name for name in NAMES if name != RINGS])
def calling(request: pytest.FixtureRequest) -> Recording:
    """One whose moments are system calls."""
    return recording.load(file(request.param))


def test_there_is_one_for_each_server_and_nothing_else() -> None:
    there = sorted(path.name for path in recording.REFERENCE.iterdir())
    wanted = [f"{n}{end}" for n in NAMES for end in (".json", ".trace.json")]
    assert there == sorted(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small(name: str) -> None:
    assert file(name).stat().st_size <= recording.MOST_BYTES


def test_it_says_what_was_done(found: Recording) -> None:
    server = by_name(found.server)
    options = "".join(f" {word}" for word in server.options)
    start = f"python3 {server.file} --delay 0.1{options}"
    assert found.command.startswith(start)
    assert "--port" not in found.command
    assert found.delay == 0.1
    assert found.machine.cpu and found.machine.cores
    assert list(found.tools) == ["strace"]
    assert "strace" in found.note
    assert ("io_uring_enter" in found.note) == (found.server == RINGS)


def test_it_names_no_folder_and_nobody(found: Recording) -> None:
    text = file(found.server).read_text(encoding="utf-8")
    for secret in ("/home", "/root", "/tmp", "/work", "127.0.0.1"):
        assert secret not in text


def test_the_moments_of_each_client_are_in_order(found: Recording) -> None:
    assert len(found.clients) == CLIENTS
    assert min(client.begun for client in found.clients) == 0
    for client in found.clients:
        seen = [client.begun, client.connected, client.sent]
        seen += [client.first_byte, client.done]
        assert seen == sorted(seen)
        done = [client.accepted, client.read, client.answered]
        assert done == sorted(done)
        assert client.begun <= client.accepted + TICKS
        assert client.sent <= client.read + TICKS
        assert client.answered <= client.first_byte + TICKS


def test_each_request_waits_for_the_delay(found: Recording) -> None:
    for client in found.clients:
        assert client.answered - client.read >= found.delay * 1_000_000


def test_all_begin_before_the_first_answer(found: Recording) -> None:
    first = min(client.first_byte for client in found.clients)
    assert max(client.sent for client in found.clients) < first


def test_spans_are_in_order_and_do_not_overlap(found: Recording) -> None:
    for lane in found.lanes:
        assert lane.spans
        end = 0
        for span in lane.spans:
            assert end <= span.begin < span.end
            end = span.end
        assert end <= found.length


def test_spans_are_of_clients_there_are(found: Recording) -> None:
    assert all(0 <= c.lane < len(found.lanes) for c in found.clients)
    for span in (span for lane in found.lanes for span in lane.spans):
        assert span.kind in KINDS
        assert NOBODY <= span.client < CLIENTS
        if span.kind in ("accept", "read", "write"):
            assert span.client != NOBODY


def test_each_client_is_accepted_read_and_answered_in_a_span(
    calling: Recording,
) -> None:
    spans = [span for lane in calling.lanes for span in lane.spans]
    for place, client in enumerate(calling.clients):
        own = [span for span in spans if span.client == place]
        begins = {span.kind: span.begin for span in reversed(own)}
        ends = {span.kind: span.end for span in own}
        assert ends["accept"] == client.accepted
        assert ends["read"] == client.read
        assert begins["write"] == client.answered


def test_each_clients_lane_waits_for_it_or_answers_it(
    calling: Recording,
) -> None:
    _, busy, _ = MODELS[calling.server]
    for place, client in enumerate(calling.clients):
        spans = [
            span
            for span in calling.lanes[client.lane].spans
            if span.client == place
        ]
        if not busy:
            assert "write" in {span.kind for span in spans}
            continue
        wait = max(
            (span for span in spans if span.kind == "wait"),
            key=lambda span: span.end - span.begin,
        )
        assert client.read <= wait.begin < wait.end <= client.answered
        assert wait.end - wait.begin > calling.delay * 900_000


def test_it_is_like_its_model(found: Recording) -> None:
    threads, busy, peak = MODELS[found.server]
    assert len(found.lanes) == threads
    assert found.busy == busy
    assert found.peak == peak


def test_its_length_is_like_its_model(found: Recording) -> None:
    """So many requests at once need so many delays, and little more."""
    _, busy, peak = MODELS[found.server]
    at_once = busy or peak
    delays = -(-CLIENTS // at_once)
    assert found.length >= delays * found.delay * 1_000_000
    assert found.length <= (1 + 1.2 * delays) * found.delay * 1_000_000


def test_lanes_have_names(found: Recording) -> None:
    names = [lane.name for lane in found.lanes]
    if found.server.startswith("07"):
        assert names == ["worker 1", "worker 2"]
        assert [lane.worker for lane in found.lanes] == [0, 1]
        return
    kind = recording.TIMER if found.server == "05" else "thread"
    others = [f"{kind} {number}" for number in range(1, len(names))]
    assert names == ["main", *others]
    assert {lane.worker for lane in found.lanes} == {0}


def test_the_counter_rises_to_all_calls(found: Recording) -> None:
    assert found.calls[-1][1] == sum(found.calls_by_name.values())
    assert len(found.calls) <= 150
    for one, following in zip(found.calls, found.calls[1:], strict=False):
        assert one[0] < following[0]
        assert one[1] < following[1]
    assert found.calls[0][0] >= 0
    assert found.calls[-1][0] <= found.length
    counts = list(found.calls_by_name.values())
    assert counts == sorted(counts, reverse=True)


def test_there_is_an_accept_for_each_client(calling: Recording) -> None:
    made = calling.calls_by_name
    assert made["accept4"] >= CLIENTS
    assert made["recvfrom"] >= CLIENTS


def test_rings_make_few_calls() -> None:
    made = recording.load(file(RINGS)).calls_by_name
    assert not {"accept4", "recvfrom", "sendto", "epoll_wait"} & set(made)
    assert sum(made.values()) < 5 * CLIENTS


# For trace viewers --------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_trace_is_what_viewers_read(name: str) -> None:
    path = recording.REFERENCE / f"{name}.trace.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    found = recording.load(file(name))
    events: list[dict[str, Any]] = data["traceEvents"]
    assert data["displayTimeUnit"] == "ms"
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["ph"], []).append(event)
    assert set(by_kind) == {"M", "X", "C"}
    for event in by_kind["X"]:
        assert {"name", "ts", "dur", "pid", "tid"} <= set(event)
        assert event["ts"] >= 0 <= event["dur"]
    named = {
        (event["pid"], event["tid"])
        for event in by_kind["M"]
        if event["name"] == "thread_name"
    }
    assert {(event["pid"], event["tid"]) for event in by_kind["X"]} == named
    assert len(named) == CLIENTS + len(found.lanes)
    spans = sum(len(lane.spans) for lane in found.lanes)
    assert len(by_kind["X"]) == 4 * CLIENTS + spans
    assert len(by_kind["C"]) == len(found.calls)
