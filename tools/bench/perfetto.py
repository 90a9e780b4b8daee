"""A recording in the form that trace viewers read.

The file opens in https://ui.perfetto.dev and in chrome://tracing. It is
in the Trace Event Format: the clients are a process with a thread each,
a worker of the server is a process with a thread for each lane.
"""

import json
import os
from pathlib import Path
from typing import Any

from tools.data.recording import NOBODY, Client, Recording

ENDING = ".trace.json"  # behind the name of the server
CLIENTS_PID = 1
WORKERS_PID = 2  # of the first worker; viewers keep 0 for the kernel
CATEGORY = "server"


def events(recording: Recording) -> list[dict[str, Any]]:
    """The recording's events. Times in µs since it began."""
    found = _named(CLIENTS_PID, "clients", 0)
    for place, client in enumerate(recording.clients):
        tid = place + 1
        found += _thread(CLIENTS_PID, tid, f"client {tid}")
        found += _client(client, tid)
    workers = sorted({lane.worker for lane in recording.lanes})
    for worker in workers:
        name = f"server {recording.server}"
        if len(workers) > 1:
            name += f", worker {worker + 1}"
        found += _named(WORKERS_PID + worker, name, worker + 1)
    for tid, lane in enumerate(recording.lanes, 1):
        pid = WORKERS_PID + lane.worker
        found += _thread(pid, tid, lane.name)
        for span in lane.spans:
            about = {}
            if span.client != NOBODY:
                about["client"] = span.client + 1
            found.append(
                _complete(pid, tid, span.kind, span.begin, span.end, about)
            )
    for at, made in recording.calls:
        found.append({
            "ph": "C", "pid": WORKERS_PID, "ts": at,
            "name": "system calls", "args": {"made": made},
        })  # fmt: skip
    return found


def _client(client: Client, tid: int) -> list[dict[str, Any]]:
    """What a client did, one thing after the other."""
    parts = (
        ("connect", client.begun, client.connected),
        ("send", client.connected, client.sent),
        ("wait", client.sent, client.first_byte),
        ("receive", client.first_byte, client.done),
    )
    return [
        _complete(CLIENTS_PID, tid, name, begin, end, {"client": tid})
        for name, begin, end in parts
    ]


def _complete(
    pid: int, tid: int, name: str, begin: int, end: int, about: dict[str, int]
) -> dict[str, Any]:
    return {
        "ph": "X", "pid": pid, "tid": tid, "ts": begin, "dur": end - begin,
        "name": name, "cat": CATEGORY, "args": about,
    }  # fmt: skip


def _named(pid: int, name: str, place: int) -> list[dict[str, Any]]:
    """What a process is called, and where the viewer puts it."""
    return [
        {"ph": "M", "pid": pid, "name": "process_name",
         "args": {"name": name}},
        {"ph": "M", "pid": pid, "name": "process_sort_index",
         "args": {"sort_index": place}},
    ]  # fmt: skip


def _thread(pid: int, tid: int, name: str) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name",
         "args": {"name": name}},
        {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index",
         "args": {"sort_index": tid}},
    ]  # fmt: skip


def to_json(recording: Recording) -> str:
    """The text of a file, an event a line."""
    about = {"server": recording.command, "note": recording.note}
    lines = ",\n".join(
        json.dumps(event, separators=(",", ":"), ensure_ascii=False)
        for event in events(recording)
    )
    return (
        '{"displayTimeUnit":"ms",\n"otherData":'
        f"{json.dumps(about, ensure_ascii=False)},\n"
        f'"traceEvents":[\n{lines}\n]}}\n'
    )


def save(recording: Recording, folder: Path) -> Path:
    """Write NAME.trace.json; a crash leaves the old file whole."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{recording.server}{ENDING}"
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(to_json(recording), encoding="utf-8")
    os.replace(fresh, file)
    return file
