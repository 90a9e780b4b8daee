"""The committed recordings: complete, possible, and each like its model."""

import itertools

import pytest

from tools.bench.experiments import record
from tools.data import recording
from tools.data.recording import CLIENTS, KINDS, NOBODY, Recording
from tools.servers import SERVERS, YES, Server, by_name

NAMES = [server.name for server in SERVERS]
TICKS = 1  # µs that two rounded times may differ
RINGS = "07"  # there, most moments are no system calls
RUNS = {
    name: recording.load(recording.REFERENCE / f"{name}.json")
    for name in NAMES if (recording.REFERENCE / f"{name}.json").exists()
}
every = pytest.mark.parametrize("found", RUNS.values(), ids=RUNS)


@every
def test_it_says_what_was_done(found: Recording) -> None:
    server = by_name(found.server)
    options = "".join(f" {word}" for word in server.options)
    start = f"python3 {server.file} --delay 0.1{options}"
    assert found.command.startswith(start)
    assert found.delay == 0.1
    assert found.machine.cpu and found.machine.cores
    assert list(found.tools) == ["strace"]
    assert "strace" in found.note
    assert ("io_uring_enter" in found.note) == (found.server == RINGS)
    text = (recording.REFERENCE / f"{found.server}.json").read_text("utf-8")
    assert text == recording.to_json(found)
    assert len(text.encode()) <= recording.MOST_BYTES
    for secret in ("/home", "/root", "/tmp", "/work", "127.0.0.1"):
        assert secret not in text


@pytest.mark.parametrize("name", NAMES)
def test_each_server_has_one(name: str) -> None:
    assert name in RUNS, f"./bench.sh record --only {name} --reference"


@every
def test_the_moments_of_each_client_are_in_order(found: Recording) -> None:
    assert len(found.clients) == CLIENTS
    assert min(client.begun for client in found.clients) == 0
    first = min(client.first_byte for client in found.clients)
    for client in found.clients:
        seen = [client.begun, client.connected, client.sent]
        seen += [client.first_byte, client.done]
        assert seen == sorted(seen)
        done = [client.accepted, client.read, client.answered]
        assert done == sorted(done)
        assert client.begun <= client.accepted + TICKS
        assert client.sent <= client.read + TICKS
        assert client.answered <= client.first_byte + TICKS
        assert client.answered - client.read >= found.delay * 1_000_000
        assert client.sent < first  # all begin before the first response


def model(server: Server) -> tuple[int, int, int]:
    """Threads; most of them that waited at once; most requests in service."""
    waits = record.waiting(server)
    if waits == 1:
        return 1, 1, 1
    if server.lessons["overlap"] == server.lessons["threads"] == YES:
        return server.workers or 1, 0, CLIENTS  # a loop waits for all
    return waits + 1, waits, record.promised(server)


@every
def test_it_is_like_its_model(found: Recording) -> None:
    threads, busy, peak = model(by_name(found.server))
    assert (len(found.lanes), found.busy, found.peak) == (threads, busy, peak)
    # So many requests at once need so many delays, and little more.
    delays = -(-CLIENTS // (busy or peak)) * found.delay * 1_000_000
    assert delays <= found.length <= 1.2 * delays + found.delay * 1_000_000
    names = [lane.name for lane in found.lanes]
    kind = recording.TIMER if found.server == "05-threads" else "thread"
    if found.server.startswith("07"):
        assert names == ["worker 1", "worker 2"]
    else:
        others = [f"{kind} {number}" for number in range(1, len(names))]
        assert names == ["main", *others]


@every
def test_spans_and_counts_are_in_order(found: Recording) -> None:
    assert all(0 <= c.lane < len(found.lanes) for c in found.clients)
    for lane in found.lanes:
        end = 0
        for span in lane.spans:
            assert end <= span.begin < span.end <= found.length
            end = span.end
            assert span.kind in KINDS
            assert NOBODY <= span.client < CLIENTS
    for one, following in itertools.pairwise([(-1, 0), *found.calls]):
        assert one[0] < following[0] <= found.length and one[1] < following[1]
    assert found.calls[-1][1] == sum(found.calls_by_name.values())
