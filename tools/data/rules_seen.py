"""The format of recorded test runs: written by tests, read by tools.site.

``./test.sh --conformance FILE`` writes what the tests of each rule of the
contract and of each cell of the table of lessons did on each server.
``./test.sh --sketches FILE`` tries the rules on the sketches and writes the
same of them: a sketch breaks a rule where a test of it failed, and the cell
names these tests. `FILE` and `SKETCHED` are the committed ones.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.common.files import read_json, reading, save_json
from tools.data.results import DATA, Machine
from tools.rules import RULES
from tools.servers import NO, POOL, YES

SCHEMA = 1
FILE = DATA / "conformance.json"
SKETCHED = DATA / "sketches.json"
AGAIN = "record again with ./test.sh --conformance docs/data/conformance.json"

# What a test can do; the worst comes first.
FAILED = "failed"
EXPECTED = "expected"  # it failed, as the list of servers says it must
PASSED = "passed"
SKIPPED = "skipped"
OUTCOMES = (FAILED, EXPECTED, PASSED, SKIPPED)

# A sketch has no command line, so the other parts make no sense for it.
PARTS = ("Answering", "Refusing", "Standing up to clients")
NOT_TRIED = {
    "work": "a sketch has no option that makes it compute",
    "slow-reader": "it takes long, and fills the memory",
    "no-descriptors": "it takes long",
    "nonsense": "it takes long: each of a thousand could be the last",
    "never-mixed": "what comes of it on a sketch depends on the moment",
    "worker-killed": "a sketch has no option for its workers",
    "parent-killed": "a sketch has no option for its workers",
}  # fmt: skip
TRIED = tuple(
    name for name, rule in RULES.items()
    if rule.part in PARTS and name not in NOT_TRIED
)


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
        """The worst of OUTCOMES that a test had."""
        return next((each for each in OUTCOMES if getattr(self, each)), "")

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

    command: str  # what makes it
    started: str  # ISO 8601 with offset
    commit: str  # "" outside git; ends in "+" if files were changed
    machine: Machine
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


def load(file: Path) -> Conformance:
    """Read a recorded run. Raises DataError if it is unusable."""
    with reading(file, "a recorded test run"):
        data: dict[str, Any] = read_json(file, SCHEMA, AGAIN)
        data["machine"] = Machine(**data["machine"])
        for key in ("rules", "lessons"):
            data[key] = {
                name: {where: Cell(**cell) for where, cell in cells.items()}
                for name, cells in data[key].items()
            }
        return Conformance(**data)


def failed(run: Conformance, rule: str, sketch: str) -> list[str]:
    """The tests of a rule that failed on a sketch, by name."""
    cell = run.rules.get(rule, {}).get(sketch)
    return cell.why if cell and cell.outcome == EXPECTED else []


def broken(run: Conformance, sketch: str) -> list[str]:
    """The rules that a sketch breaks, in the order of the contract."""
    return [name for name in RULES if failed(run, name, sketch)]
