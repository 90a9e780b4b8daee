"""What a sketch cannot do: the recorded run of the shared tests.

``./test.sh --sketches FILE`` tries the rules of the contract on the seven
sketches. `FILE` is the committed run, in the format of `rules_seen`: a rule
is broken where a test of it failed, and the cell names these tests. Every
rule that was tried is there, with a cell for each sketch.
"""

from pathlib import Path

from tools.data.results import DATA
from tools.data.rules_seen import EXPECTED, Conformance
from tools.data.rules_seen import load as load_seen
from tools.rules import RULES

FILE = DATA / "sketches.json"
AGAIN = "record again with ./test.sh --sketches docs/data/sketches.json"

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


def load(file: Path = FILE) -> Conformance:
    """Read a recorded run. Raises DataError if it is unusable."""
    return load_seen(file, AGAIN)


def lack(run: Conformance, sketches: list[str]) -> str:
    """What is missing in a run, the rest of a sentence; "" if nothing."""
    for name in TRIED:
        for sketch in sketches:
            if sketch not in run.rules.get(name, {}):
                return f"nothing about the rule {name!r} for {sketch}"
    return ""


def failed(run: Conformance, rule: str, sketch: str) -> list[str]:
    """The tests of a rule that failed on a sketch, by name."""
    cell = run.rules.get(rule, {}).get(sketch)
    return cell.why if cell and cell.outcome == EXPECTED else []


def broken(run: Conformance, sketch: str) -> list[str]:
    """The rules that a sketch breaks, in the order of the contract."""
    return [name for name in RULES if failed(run, name, sketch)]
