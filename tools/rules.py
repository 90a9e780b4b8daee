"""The rules every server obeys, read from rules.toml beside this file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Rule:
    """One promise of the contract: its part, its text, where to read."""

    part: str
    text: str
    where: str


RULES = {
    name: Rule(part, text, where)
    for part, rules in tomllib.loads(FILE.read_text("utf-8")).items()
    for name, (text, where) in rules.items()
}
