"""The format of measured results: written by tools.bench, read by tools.site.

One run of ``./bench.sh`` is one folder: ``results.json`` in the shape of
`Results` below, and every output of the load generator, unchanged (see
`tools.data.raw`). `REFERENCE` is the committed run; a reader's own runs
are folders of `OWN`, named by their date.
"""

import contextlib
import statistics
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tools.common.files import DataError, read_json, reading, save_json
from tools.data import raw
from tools.servers import ROOT

SCHEMA = 1
DATA = ROOT / "docs" / "data"  # also the experiments' committed runs
REFERENCE = DATA / "reference"
OWN = ROOT / "results"

# Suites: what a point belongs to.
SUITES = {
    "classic": "--delay 0.1, 10 clients, a new connection each",
    "many": "--delay 0.1, 100 clients, a new connection each",
    "raw-new": "--delay 0, 10 clients, a new connection each",
    "raw-keep": "--delay 0, 10 clients, keep-alive",
    "sweep": "--delay 0.1, 1 to 4096 clients, a new connection each",
    "syscalls": "--delay 0, strace -c, keep-alive, 1 and 50 clients",
}
# Those of --peers, and of ./bench.sh hosts.
MORE_SUITES = {
    "peer-keep": "--delay 0, 100 clients, keep-alive, one worker each",
    "peer-differ": "--delay 0, 100 clients, keep-alive, another target each "
    "time, one worker each",
    "peer-new": "--delay 0, 100 clients, a new connection each, one worker "
    "each",
    "hosts-scale": "one, two, three hosts behind a balancer",
    "hosts-restart": "all hosts restarted one after the other, under load",
    "hosts-death": "a host dies, is stuck, or loses its cable, under load",
    "hosts-slow": "one of three hosts takes three times as long",
    "hosts-storm": "twice the load for a while, and clients that try again",
    "hosts-seen": "who closes an idle connection first",
}
STEPS = ("default", "classic", "full")  # modes that measure all the steps


@dataclass
class Run:
    """One run of the load generator against one fresh server.

    Times in seconds unless the name says ms; memory in bytes; None: not
    measured. ``error`` is a sentence if the run failed or was cut short.
    """

    command: str
    requests: int = 0  # complete responses
    failed: int = 0  # each counted once (ab counts one up to 3 times)
    non_2xx: int = 0
    seconds: float = 0.0
    requests_per_second: float | None = None
    latency_ms: dict[str, float] = field(default_factory=dict)  # LATENCIES
    body_bytes: int | None = None
    response_bytes: float | None = None  # head and body, mean
    cpu_user: float | None = None  # of all processes of the server
    cpu_system: float | None = None
    peak_memory: int | None = None  # of all processes of the server
    threads: int | None = None  # the most seen at once, all processes
    context_switches: int | None = None
    system_calls: dict[str, int] = field(default_factory=dict)  # by name
    extra: dict[str, float] = field(default_factory=dict)
    # extra: what only one experiment measures, by a name that says its unit
    series: dict[str, list[float]] = field(default_factory=dict)  # a second
    texts: dict[str, str] = field(default_factory=dict)  # what was seen
    error: str | None = None

    def figure(self, name: str) -> float | None:
        """A figure by name, derived ones included; None: not measured.

        Names: any number field above; ``p50`` and the other keys of
        latency_ms; ``cpu_ms`` (CPU milliseconds per request), and of it
        ``cpu_user_ms`` and ``cpu_system_ms``; ``cores`` (CPU seconds per
        second: how many cores the server kept busy);
        ``calls_per_request``; ``sent_mb_per_second`` (megabytes of
        responses). Raises KeyError for an unknown name.
        """
        if name in LATENCIES:
            return self.latency_ms.get(name)
        cpu = None
        if self.cpu_user is not None:
            cpu = self.cpu_user + (self.cpu_system or 0.0)
        if name == "cpu_ms":
            return _per(None if cpu is None else 1000 * cpu, self.requests)
        if name in ("cpu_user_ms", "cpu_system_ms"):
            part: float | None = getattr(self, name.removesuffix("_ms"))
            return _per(None if part is None else 1000 * part, self.requests)
        if name == "sent_mb_per_second":
            sent = self.requests * (self.response_bytes or 0.0) / 1e6
            return _per(sent or None, self.seconds)
        if name == "cores":
            return _per(cpu, self.seconds)
        if name == "calls_per_request":
            calls = sum(self.system_calls.values())
            return _per(calls or None, self.requests)
        if name in self.extra:
            return self.extra[name]
        if name not in NUMBERS:
            raise KeyError(name)
        value: float | None = getattr(self, name)
        return value


def _per(amount: float | None, number: float) -> float | None:
    return amount / number if amount is not None and number else None


LATENCIES = (
    "min", "mean", "stdev", "p50", "p66", "p75", "p80", "p90", "p95", "p98",
    "p99", "max",
)
NUMBERS = {
    each.name for each in fields(Run)
    if each.type in (int, float, int | None, float | None)
}


@dataclass
class Point:
    """One load on one server, measured once or several times.

    ``reason`` says why there is no good figure (status "failed": tried,
    did not work; "skipped": not tried) or, for the last point of a
    sweep, why the line ends there (``end`` is True).
    """

    server: str
    suite: str
    clients: int
    delay: float
    compute: int = 0
    keep_alive: bool = False
    variant: str = ""  # what else sets it apart, as "2 workers"
    status: str = "ok"  # ok, failed, skipped
    reason: str = ""
    end: bool = False
    runs: list[Run] = field(default_factory=list)

    @property
    def possible(self) -> float | None:
        """Most requests/s these clients can get: clients / delay."""
        return self.clients / self.delay if self.delay else None

    def values(self, name: str) -> list[float]:
        """A figure of every good run (see `Run.figure`)."""
        found = (r.figure(name) for r in self.runs if r.error is None)
        return [value for value in found if value is not None]

    def median(self, name: str) -> float | None:
        """The median over the good runs; None if there is none."""
        values = self.values(name)
        return statistics.median(values) if values else None

    def spread(self, name: str) -> tuple[float, float] | None:
        """The lowest and highest of the good runs."""
        values = self.values(name)
        return (min(values), max(values)) if values else None

    @property
    def share(self) -> float | None:
        """Part of the possible requests/s that was reached, 0 to 1."""
        rate = self.median("requests_per_second")
        if rate is None or self.possible is None:
            return None
        return rate / self.possible


@dataclass
class Machine:
    """Where a run was made. Nothing here names a person or a host."""

    cpu: str
    cores: int
    memory: int  # bytes
    kernel: str  # "Linux 6.1.0"
    python: str  # "CPython 3.11.7"
    open_files: int  # soft limit while measuring


@dataclass
class Results:
    """One run of ``./bench.sh``."""

    command: str
    mode: str  # default, classic, full, smoke, peers, or the experiment
    started: str  # ISO 8601 with offset
    commit: str  # "" outside git; ends in "+" if files were changed
    machine: Machine
    tools: dict[str, str]  # name -> version
    load: str = "ab"  # or "python": the built-in client
    complete: bool = False  # False: interrupted or still running
    seconds: float = 0.0
    points: list[Point] = field(default_factory=list)
    schema: int = SCHEMA

    def find(
        self, server: str, suite: str, clients: int | None = None
    ) -> Point | None:
        """The point of a server in a suite (the first, or by clients)."""
        points = self.suite(suite, server)
        return next((p for p in points if clients in (None, p.clients)), None)

    def suite(self, suite: str, server: str | None = None) -> list[Point]:
        """All points of a suite, of one server or of all."""
        return [
            point for point in self.points
            if point.suite == suite and server in (None, point.server)
        ]

    def save(self, folder: Path) -> None:
        """Write ``results.json``; a crash leaves the old file whole.

        What was not measured is left out, and a complete run's raw
        outputs are packed.
        """
        data = asdict(replace(self, points=[]))
        data["points"] = [
            {**_told(point), "runs": [_told(run) for run in point.runs]}
            for point in self.points
        ]
        save_json(folder / "results.json", data)
        if self.complete:
            raw.pack(folder)


def _told(one: Run | Point) -> dict[str, Any]:
    """Its fields but for those that are still as they began."""
    told = asdict(one)
    for each in fields(one):
        began = {} if each.default_factory is dict else each.default
        if told[each.name] == began:
            del told[each.name]
    return told


def load(path: Path) -> Results:
    """Read a run, of a folder or a file. Raises DataError if it is bad."""
    file = path if path.suffix == ".json" else path / "results.json"
    with reading(file, "a results file"):
        data = read_json(file, SCHEMA, "measure again with ./bench.sh")
        data["machine"] = _make(Machine, data["machine"])
        for point in data["points"]:
            point["runs"] = [_make(Run, run) for run in point["runs"]]
        data["points"] = [_make(Point, point) for point in data["points"]]
        results: Results = _make(Results, data)
        return results


def _make(kind: type, data: dict[str, Any]) -> Any:
    """A dataclass from a dict. Raises ValueError for an unknown field."""
    if unknown := {*data} - {each.name for each in fields(kind)}:
        raise ValueError(f"it has the unknown field {min(unknown)!r}")
    return kind(**data)


def newest_own() -> Path | None:
    """The folder of the reader's newest usable run of the steps, or None.

    A smoke run only shows that everything works, and an experiment
    measures something else: neither is one.
    """
    for file in sorted(OWN.glob("*/results.json"), reverse=True):
        with contextlib.suppress(DataError):
            if load(file.parent).mode in STEPS:
                return file.parent
    return None
