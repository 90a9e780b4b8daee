"""A recording in the Trace Event Format, for Perfetto."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.bench.recording import perfetto
from tools.data import recording
from tools.data.recording import NOBODY, Client, Lane, Recording, Span
from tools.data.results import Machine
from tools.servers import SERVERS, Server

MADE = Recording(
    server="07",
    command="python3 07_parallel/server.py",
    started="2026-01-01T00:00:00+00:00",
    commit="",
    machine=Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024),
    tools={},
    delay=0.1,
    clients=[
        Client(0, 10, 12, 1080, 1090, 15, 30, 1050, 0),
        Client(1, 11, 11, 1180, 1190, 25, 40, 1150, 1),
    ],
    lanes=[
        Lane("worker 1", 0, (Span("wait", 0, 20), Span("read", 20, 30, 0))),
        Lane("worker 2", 1, (Span("work", 5, 9, NOBODY),)),
    ],
    calls=[(20, 1), (30, 3)],
    calls_by_name={"read": 3},
    note="It says “so”.",
)


@pytest.fixture
def trace(tmp_path: Path) -> dict[str, Any]:
    file = perfetto.save(MADE, tmp_path / "new")
    assert file.name == "07.trace.json"
    assert [file] == list(file.parent.iterdir())
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_processes_and_threads_are_named(trace: dict[str, Any]) -> None:
    assert trace["displayTimeUnit"] == "ms"
    assert trace["otherData"] == {"server": MADE.command, "note": MADE.note}
    names = {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] in ("process_name", "thread_name")
    }
    assert names == {
        (1, None): "clients", (1, 1): "client 1", (1, 2): "client 2",
        (2, None): "server 07, worker 1", (2, 1): "worker 1",
        (3, None): "server 07, worker 2", (3, 2): "worker 2",
    }  # fmt: skip


def test_each_span_is_an_event(trace: dict[str, Any]) -> None:
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert events[-2] == {
        "ph": "X", "pid": 2, "tid": 1, "ts": 20, "dur": 10,
        "name": "read", "cat": "server", "args": {"client": 1},
    }  # fmt: skip
    shown = [
        (e["pid"], e["name"], e["ts"], e["dur"], e["args"].get("client"))
        for e in events[:4] + events[-3:]
    ]
    assert shown == [
        (1, "connect", 0, 10, 1), (1, "send", 10, 2, 1),
        (1, "wait", 12, 1068, 1), (1, "receive", 1080, 10, 1),
        (2, "wait", 0, 20, None),  # for nobody
        (2, "read", 20, 10, 1), (3, "work", 5, 4, None),
    ]  # fmt: skip
    calls = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert [(e["ts"], e["args"]["made"]) for e in calls] == MADE.calls


@pytest.mark.parametrize("one", SERVERS, ids=lambda s: s.name)
def test_the_committed_traces_are_the_recordings(
    one: Server, tmp_path: Path
) -> None:
    kept = recording.REFERENCE / f"{one.name}{perfetto.ENDING}"
    found = recording.load(recording.REFERENCE / f"{one.name}.json")
    made = perfetto.save(found, tmp_path)
    assert kept.read_text(encoding="utf-8") == made.read_text("utf-8")
    # A line a client and a lane, so that the folder stays small.
    lines = kept.read_text(encoding="utf-8").count("\n")
    assert lines < len(found.clients) + len(found.lanes) + 12
