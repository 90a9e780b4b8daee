"""The format of recordings: written by tools.bench, read by tools.site.

A recording is one small load (20 clients, one request each, all at the
same moment) replayed against one unchanged server: what the clients saw
and what the server's threads did, on one clock. One file a server,
``NAME.json``, under `MOST_BYTES`. `REFERENCE` holds the committed ones;
the reader's own are in `OWN` and take their place on the site.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.common.files import read_json, reading, save
from tools.data import results
from tools.data.results import Machine

SCHEMA = 1
REFERENCE = results.DATA / "recordings"
OWN = results.OWN / "recordings"
MOST_BYTES = 20_000
CLIENTS = 20

# What a thread of the server can be doing, and the letter in the file.
KINDS = {
    "accept": "a",  # takes a connection out of the accept queue
    "read": "r",  # receives bytes of a request
    "wait": "w",  # sleeps in the kernel
    "work": "k",  # runs Python between two system calls
    "write": "s",  # sends bytes of a response
}
NOBODY = -1  # a span that belongs to no single client
TIMER = "timer"  # in the name of a thread that only waits for one request


@dataclass(frozen=True)
class Span:
    """One thing a thread does. Times in µs since the recording began.

    client: whose request a wait is for, its place in `Recording.clients`;
    NOBODY: a selector waits for all, an accept for whoever comes. (Older
    recordings name it for what is no wait, too.)
    """

    kind: str
    begin: int
    end: int
    client: int = NOBODY


@dataclass(frozen=True)
class Lane:
    """One thread of the server, its spans in order and without overlap.

    worker: the process it belongs to, counted from 0.
    """

    name: str
    worker: int
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Client:
    """One client and its request. Times in µs since the recording began.

    What the client saw: begun (it called connect), connected, sent (the
    request left), first_byte, done (the connection is closed). What the
    server did: accepted, read (the request was complete), answered (it
    began to send). lane: the place in `Recording.lanes` of the thread
    that waited for this request, or that answered it where no thread
    waits for a single one.
    """

    begun: int
    connected: int
    sent: int
    first_byte: int
    done: int
    accepted: int
    read: int
    answered: int
    lane: int


@dataclass
class Recording:
    """A load replayed against one server."""

    server: str
    command: str  # the server's, as typed
    started: str  # ISO 8601 with offset
    commit: str  # "" outside git; ends in "+" if files were changed
    machine: Machine
    tools: dict[str, str]  # name -> version
    delay: float  # seconds each request waits
    clients: list[Client]
    lanes: list[Lane]
    calls: list[tuple[int, int]]  # (µs, system calls made until then)
    calls_by_name: dict[str, int]
    note: str = ""  # what a reader must know about how it was seen
    repeats: int = 1  # this one is the median of so many by its length
    schema: int = SCHEMA
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """From the first client's begin to the last one's end, µs."""
        return max(client.done for client in self.clients)

    @property
    def count(self) -> int:
        """All system calls."""
        return self.calls[-1][1] if self.calls else 0

    @property
    def peak(self) -> int:
        """The most requests in service at the same moment.

        In service: read and not yet answered, be it in a thread, in a
        queue, or parked in an event loop.
        """
        return most_at_once((c.read, c.answered) for c in self.clients)

    @property
    def busy(self) -> int:
        """The most threads that waited for a request each, at once."""
        return most_at_once(
            (span.begin, span.end)
            for lane in self.lanes for span in lane.spans
            if span.client != NOBODY and span.kind == "wait"
        )

    def save(self, folder: Path) -> Path:
        """Write NAME.json; a crash leaves the old file whole."""
        return save(folder / f"{self.server}.json", to_json(self))


def most_at_once(spans: Iterable[tuple[int, int]]) -> int:
    """How many (begin, end) are open at the same moment at most.

    One that ends as the next begins does not overlap it.
    """
    changes = sorted(
        change for begin, end in spans if begin < end
        for change in ((begin, 1), (end, -1))
    )
    now = most = 0
    for _, step in changes:  # at one moment, ends sort before begins
        now += step
        most = max(most, now)
    return most


def to_json(recording: Recording) -> str:
    """The text of a file: a line a client, a lane, and the rest."""
    data = asdict(recording)
    rows: dict[str, list[Any]] = {
        "clients": [[*vars(c).values()] for c in recording.clients],
        "lanes": [
            [lane.name, lane.worker, [
                [KINDS[s.kind], s.begin, s.end - s.begin, s.client]
                for s in lane.spans
            ]]
            for lane in recording.lanes
        ],
    }
    for key, value in data.items():
        data[key] = compact(value)
        if key in rows:
            lines = ",\n".join(compact(row) for row in rows[key])
            data[key] = f"[\n{lines}\n]"
    parts = ",\n".join(f'"{key}":{value}' for key, value in data.items())
    return f"{{\n{parts}\n}}\n"


def compact(value: Any) -> str:
    """JSON without a space."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def load(file: Path) -> Recording:
    """Read a recording. Raises DataError if it is unusable."""
    letters = {letter: kind for kind, letter in KINDS.items()}
    with reading(file, "a recording"):
        data = read_json(file, SCHEMA, "record again with ./bench.sh record")
        data["machine"] = Machine(**data["machine"])
        data["clients"] = [Client(*row) for row in data["clients"]]
        data["lanes"] = [
            Lane(name, worker, tuple(
                Span(letters[kind], begin, begin + length, client)
                for kind, begin, length, client in spans
            ))
            for name, worker, spans in data["lanes"]
        ]
        data["calls"] = [(at, count) for at, count in data["calls"]]
        return Recording(**data)
