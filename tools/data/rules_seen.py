"""The format of recorded test runs: written by tests, read by tools.site.

``./test.sh --conformance FILE`` writes what the tests of each rule of the
contract and of each cell of the table of lessons did on each server.
`FILE` is the committed one, shown on the site.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.common.files import read_json, reading, save_json
from tools.data.results import DATA, Machine
from tools.servers import LESSONS, NO, POOL, YES, Server

SCHEMA = 1
FILE = DATA / "conformance.json"
AGAIN = "record again with ./test.sh --conformance docs/data/conformance.json"

# What a test can do.
PASSED = "passed"
FAILED = "failed"
EXPECTED = "expected"  # it failed, as the list of servers says it must
SKIPPED = "skipped"
OUTCOMES = (PASSED, FAILED, EXPECTED, SKIPPED)


@dataclass
class Cell:
    """How many tests of one rule or lesson did what on one server.

    why: the reasons of those that were skipped, each once, sorted; of a
    sketch: the names of those that failed.
    """

    passed: int = 0
    failed: int = 0
    expected: int = 0
    skipped: int = 0
    why: list[str] = field(default_factory=list)

    @property
    def tests(self) -> int:
        """How many there are."""
        return self.passed + self.failed + self.expected + self.skipped

    @property
    def outcome(self) -> str:
        """One of OUTCOMES for them all: one that fails is enough."""
        for outcome in (FAILED, EXPECTED, PASSED):
            if getattr(self, outcome):
                return outcome
        return SKIPPED

    def add(self, outcome: str, why: str = "") -> None:
        """Count one more test."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        if why:
            self.why = sorted({*self.why, why})


Table = dict[str, dict[str, Cell]]  # rule or lesson -> place -> cell


@dataclass
class Conformance:
    """One complete run of the tests.

    rules: rule -> server -> cell; lessons: lesson -> `place` -> cell;
    totals: how many tests did what, those without a rule too.
    """

    command: str  # as typed
    started: str  # ISO 8601 with offset
    commit: str  # "" outside git; ends in "+" if files were changed
    machine: Machine
    tools: dict[str, str]  # name -> version
    seconds: float
    totals: dict[str, int]
    rules: Table = field(default_factory=dict)
    lessons: Table = field(default_factory=dict)
    schema: int = SCHEMA

    def save(self, file: Path) -> None:
        """Write the file, without what is nought or empty in a cell."""
        data = asdict(self)
        for row in [*data["rules"].values(), *data["lessons"].values()]:
            for where, cell in row.items():
                row[where] = {key: what for key, what in cell.items() if what}
        save_json(file, data)


def place(server: str, side: str = "") -> str:
    """The key of a cell: a server, or a side of its pool of threads."""
    return f"{server} {side}".rstrip()


def sides(lesson: str, value: str) -> dict[str, str]:
    """The tests of a cell of the table of lessons: side -> YES or NO.

    "Up to the pool" has two sides: with fewer clients than threads, and
    with more.
    """
    if value != POOL:
        return {"": value}
    if lesson == "threads":  # they grow up to the pool, then no more
        return {"below": NO, "above": YES}
    return {"below": YES, "above": NO}


def lacks(
    run: Conformance, rules: Iterable[str], servers: Sequence[Server]
) -> Iterator[str]:
    """What has to be in a run and is not, as the rest of a sentence."""
    step_of = {server.name: server.step for server in servers}
    for rule in rules:
        cells = run.rules.get(rule, {})
        steps = [step_of[name] for name in cells if name in step_of]
        if not steps:
            yield f"nothing about the rule {rule!r}"
        # The tests of a rule are for a range of steps.
        for server in servers:
            here = steps and min(steps) <= server.step <= max(steps)
            if here and server.name not in cells:
                yield f"nothing about the rule {rule!r} for {server.name}"
    for server in servers:
        if not any(server.name in cells for cells in run.rules.values()):
            yield f"no rule for {server.name}"
        for lesson in LESSONS:
            for side in sides(lesson, server.lessons[lesson]):
                where = place(server.name, side)
                if where not in run.lessons.get(lesson, {}):
                    yield f"nothing about the lesson {lesson!r} for {where}"


def load(file: Path, again: str = AGAIN) -> Conformance:
    """Read a recorded run. Raises DataError if it is unusable."""
    with reading(file, "a recorded test run"):
        data: dict[str, Any] = read_json(file, SCHEMA, again)
        data["machine"] = Machine(**data["machine"])
        for key in ("rules", "lessons"):
            data[key] = {
                name: {where: Cell(**cell) for where, cell in cells.items()}
                for name, cells in data[key].items()
            }
        return Conformance(**data)
