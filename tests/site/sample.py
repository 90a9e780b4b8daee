"""Results to draw in tests: simple numbers, never shown as measured."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from tools.data import rules_seen
from tools.data.results import (
    LATENCIES,
    SUITES,
    Machine,
    Point,
    Results,
    Run,
)
from tools.rules import Requirement, Rule
from tools.servers import SERVERS
from tools.site import contract, data

LOADS = {  # suite: clients, delay, keep-alive
    "classic": ([10], 0.1, False),
    "many": ([100], 0.1, False),
    "raw-new": ([10], 0.0, False),
    "raw-keep": ([10], 0.0, True),
    "sweep": ([2**n for n in range(13)], 0.1, False),
    "syscalls": ([1, 50], 0.0, True),
}
MACHINE = Machine("A & B <CPU>", 2, 2**33, "Linux", "CPython", 1024)


def run(server: str, clients: int, rate: float, suite: str = "x") -> Run:
    """One good run with a figure for everything."""
    return Run(
        command=f"python3 {server} {suite}\n"
        f"ab -c {clients} http://127.0.0.1:1/",
        requests=1000,
        seconds=1000 / rate,
        requests_per_second=rate,
        latency_ms=dict.fromkeys(LATENCIES, 1000 * clients / rate),
        body_bytes=249,
        response_bytes=400.0,
        cpu_user=0.3,
        cpu_system=0.1,
        peak_memory=20_000_000,
        threads=clients + 1,
        context_switches=100,
        system_calls={"recvfrom": 1000, "sendto": 1000},
    )


def results(factor: float = 1.0, suites: tuple[str, ...] = ()) -> Results:
    """A run of all suites (or some) and all servers, three repeats.

    The requests/s of a server: the number of its step, for each client.
    """
    made = of([], "full")
    made.complete, made.seconds = True, 60.0
    for suite, server in itertools.product(suites or SUITES, SERVERS):
        loads, delay, keep = LOADS[suite]
        for clients in loads:
            rate = factor * server.step * clients
            runs = [
                run(server.file, clients, rate * part, suite)
                for part in (0.9, 1.0, 1.1)
            ]
            made.points.append(Point(
                server.name, suite, clients, delay, 0, keep, runs=runs
            ))
    return made


def of(points: list[Point], mode: str) -> Results:
    """A run with these points."""
    return Results(
        command=f"./bench.sh {mode}", mode=mode, commit="c",
        machine=replace(MACHINE), started="2000-01-02T03:04:05+00:00",
        tools={"ab": "2.3", "newest": "3.14.0, plain"}, points=points,
    )


def save(folder: Path, made: Results) -> Path:
    """Write a run with its raw outputs; the folder."""
    (folder / "raw").mkdir(parents=True, exist_ok=True)
    for server in SERVERS:
        text = ""
        for point in made.points:
            if point.server == server.name and point.runs:
                for line in point.runs[0].command.splitlines():
                    text += f"$ {line}\n"
                text += f"This is ApacheBench & Co\n{point.suite}\n\n"
        (folder / "raw" / f"{server.name}.txt").write_text(text)
    made.save(folder)
    return folder


# The contract: a rule of each kind, and what was seen of it ------------------

RULES = {
    "help": Rule("Running", "--help <says> how", "man 2 bind; contract, x"),
    "date": Rule("Answering", "a date", "RFC 9110, sections 5.6.2 and 9.1"),
    "reset": Rule("Answering", "no harm", "man 2 PR_SET_PDEATHSIG; PEP 703"),
    "pipelining": Rule("Answering", "one by one", "contract, Answering"),
}
CHAPTERS = {("9110", "6"): "Messages", ("9112", "9"): "Connections"}
REQUIREMENTS = (
    Requirement("9110", "6.6.1", "MUST", "send a date", ["date"]),
    Requirement("9110", "6.7", "SHOULD", "help & more", ["help", "reset"]),
    Requirement("9112", "9.3", "MUST NOT", "harm", ["reset"], "not always"),
    Requirement("9112", "9.8", "SHOULD NOT", "be a proxy", "we are none"),
)


def use_contract(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make these rules, and the runs of their tests there, the ones shown.

    The servers are the first four, and 04 and 05, which no run knows.
    """
    first, *others = SERVERS[:6]
    exempt = replace(first, exempt=(("date", "it <has> none"),))
    for name, fixed in {
        "RULES": RULES, "CHAPTERS": CHAPTERS, "REQUIREMENTS": REQUIREMENTS,
        "SERVERS": (exempt, *others), "LESSONS": {"overlap": "two at <once>"},
    }.items():
        patch.setattr(contract, name, fixed)
    patch.setattr(rules_seen, "FILE", folder / "seen.json")
    patch.setattr(rules_seen, "SKETCHED", folder / "sketched.json")
    patch.setattr(rules_seen, "TRIED", ("help", "date", "reset"))
    patch.setattr(rules_seen, "RULES", RULES)


class Committed:
    """A place for experiments instead of docs/data."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        patch.setattr(data, "DATA", folder)

    def save(self, name: str, *points: Point) -> Path:
        """Make points the committed run of an experiment; its folder."""
        of(list(points), name).save(self.folder / name)
        return self.folder / name
