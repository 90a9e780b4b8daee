"""A recording in the form that trace viewers read.

The file opens in https://ui.perfetto.dev and in chrome://tracing. It is
in the Trace Event Format: the clients are a process with a thread each,
a worker of the server is a process with a thread for each lane.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.common.files import save as save_text
from tools.data.recording import NOBODY, Recording, compact

ENDING = ".trace.json"  # behind the name of the server
CLIENTS_PID = 1
WORKERS_PID = 2  # of the first worker; viewers keep 0 for the kernel

Events = list[dict[str, Any]]


def lines(recording: Recording) -> Iterator[Events]:
    """The events of a client, of a lane, of the counter: a line each.

    Times in µs since the recording began.
    """
    yield _named("process", CLIENTS_PID, 0, "clients", 0)
    for tid, client in enumerate(recording.clients, 1):
        parts = (
            ("connect", client.begun, client.connected),
            ("send", client.connected, client.sent),
            ("wait", client.sent, client.first_byte),
            ("receive", client.first_byte, client.done),
        )
        yield _named("thread", CLIENTS_PID, tid, f"client {tid}", tid) + [
            _complete(CLIENTS_PID, tid, *part, tid) for part in parts
        ]
    workers = sorted({lane.worker for lane in recording.lanes})
    for worker in workers:
        name = f"server {recording.server}"
        if len(workers) > 1:
            name += f", worker {worker + 1}"
        yield _named("process", WORKERS_PID + worker, 0, name, worker + 1)
    for tid, lane in enumerate(recording.lanes, 1):
        pid = WORKERS_PID + lane.worker
        yield _named("thread", pid, tid, lane.name, tid) + [
            _complete(pid, tid, s.kind, s.begin, s.end, s.client + 1)
            for s in lane.spans
        ]
    yield [
        {"ph": "C", "pid": WORKERS_PID, "ts": at, "name": "system calls",
         "args": {"made": made}}
        for at, made in recording.calls
    ]  # fmt: skip


def _complete(
    pid: int, tid: int, name: str, begin: int, end: int, client: int
) -> dict[str, Any]:
    """A span of time; client: its number from 1."""
    return {
        "ph": "X", "pid": pid, "tid": tid, "ts": begin, "dur": end - begin,
        "name": name, "cat": "server",
        "args": {} if client == NOBODY + 1 else {"client": client},
    }  # fmt: skip


def _named(what: str, pid: int, tid: int, name: str, place: int) -> Events:
    """What a process or thread is called, and where the viewer puts it."""
    event = {"ph": "M", "pid": pid} | ({"tid": tid} if tid else {})
    return [
        event | {"name": f"{what}_name", "args": {"name": name}},
        event | {"name": f"{what}_sort_index", "args": {"sort_index": place}},
    ]


def save(recording: Recording, folder: Path) -> Path:
    """Write NAME.trace.json, an event a client, a lane and the counter."""
    about = {"server": recording.command, "note": recording.note}
    events = ",\n".join(
        compact(line)[1:-1] for line in lines(recording) if line
    )
    return save_text(
        folder / f"{recording.server}{ENDING}",
        '{"displayTimeUnit":"ms",\n'
        f'"otherData":{compact(about)},\n"traceEvents":[\n{events}\n]}}\n',
    )
