"""What a server has to do, read from the two .toml files beside this one.

The rules every server obeys (rules.toml), and what the RFCs on HTTP ask of
a server (rfc.toml), with the rules whose tests show it.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Rule:
    """One promise of the contract: its part, its text, where to read."""

    part: str
    text: str
    where: str


@dataclass(frozen=True)
class Requirement:
    """One MUST or SHOULD of an RFC.

    proof: names in RULES whose tests show that it is kept; or why it does
    not concern our servers. but: where one departs from it.
    """

    rfc: str
    section: str
    level: str
    text: str
    proof: list[str] | str
    but: str = ""

    @property
    def rules(self) -> list[str]:
        """The rules whose tests show it; none if it is not for us."""
        return self.proof if isinstance(self.proof, list) else []

    @property
    def why(self) -> str:
        """Why it is not for us; "" if it is."""
        return self.proof if isinstance(self.proof, str) else ""

    @property
    def must(self) -> bool:
        """Is it a MUST (NOT), and not only a SHOULD (NOT)?"""
        return self.level.startswith("MUST")

    @property
    def chapter(self) -> tuple[str, str]:
        """The RFC, and the first number of the section."""
        return self.rfc, self.section.partition(".")[0]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


RULES = {
    name: Rule(part, text, where)
    for part, rules in _read("rules.toml").items()
    for name, (text, where) in rules.items()
}
_RFCS = _read("rfc.toml")
CHAPTERS = {  # RFC, number -> name
    tuple(where.split(", ")): name
    for where, name in _RFCS.pop("chapters").items()
}
REQUIREMENTS = tuple(
    Requirement(*where.split(", "), *row)
    for where, rows in _RFCS.items()
    for row in rows
)
