"""tools.bench.perfetto: a recording in the Trace Event Format."""

import json
from pathlib import Path
from typing import Any

from tools.bench import perfetto
from tools.data.recording import NOBODY, Client, Lane, Recording, Span
from tools.data.results import Machine

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


def of(kind: str, pid: int | None = None) -> list[dict[str, Any]]:
    return [
        event
        for event in perfetto.events(MADE)
        if event["ph"] == kind and pid in (None, event["pid"])
    ]


def test_a_process_a_worker_and_one_for_the_clients() -> None:
    names = {
        event["pid"]: event["args"]["name"]
        for event in of("M")
        if event["name"] == "process_name"
    }
    assert names == {
        1: "clients", 2: "server 07, worker 1", 3: "server 07, worker 2",
    }  # fmt: skip


def test_a_thread_a_lane_and_a_client() -> None:
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in of("M")
        if event["name"] == "thread_name"
    }
    assert names == {
        (1, 1): "client 1", (1, 2): "client 2",
        (2, 1): "worker 1", (3, 2): "worker 2",
    }  # fmt: skip


def test_a_complete_event_for_each_span() -> None:
    read = {
        "ph": "X", "pid": 2, "tid": 1, "ts": 20, "dur": 10,
        "name": "read", "cat": "server", "args": {"client": 1},
    }  # fmt: skip
    wait, found = of("X", 2)
    assert found == read
    assert (wait["name"], wait["ts"], wait["dur"]) == ("wait", 0, 20)
    assert wait["args"] == {}  # for nobody
    assert [event["name"] for event in of("X", 3)] == ["work"]


def test_what_each_client_did() -> None:
    first = [event for event in of("X", 1) if event["tid"] == 1]
    assert [(e["name"], e["ts"], e["dur"]) for e in first] == [
        ("connect", 0, 10), ("send", 10, 2), ("wait", 12, 1068),
        ("receive", 1080, 10),
    ]  # fmt: skip


def test_the_counter_of_system_calls() -> None:
    assert [(e["ts"], e["args"]["made"]) for e in of("C")] == [
        (20, 1), (30, 3),
    ]  # fmt: skip


def test_the_file(tmp_path: Path) -> None:
    file = perfetto.save(MADE, tmp_path / "new")
    assert file.name == "07.trace.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["traceEvents"] == perfetto.events(MADE)
    assert found["otherData"] == {
        "server": MADE.command, "note": MADE.note,
    }  # fmt: skip
    assert [file] == list(file.parent.iterdir())
