"""What the RFCs on HTTP ask of a server, read from rfc.toml beside this."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Requirement:
    """One MUST or SHOULD.

    rules: names in rules.toml, whose tests show that it is kept; or why:
    it does not concern our servers. but: where one departs from it.
    """

    rfc: str
    section: str
    level: str
    text: str
    rules: tuple[str, ...] = ()
    why: str = ""
    but: str = ""

    @property
    def must(self) -> bool:
        """Is it a MUST (NOT), and not only a SHOULD (NOT)?"""
        return self.level.startswith("MUST")

    @property
    def chapter(self) -> tuple[str, str]:
        """The RFC, and the first number of the section."""
        return self.rfc, self.section.partition(".")[0]


def _requirement(
    where: str, level: str, text: str, proof: list[str] | str, but: str = ""
) -> Requirement:
    rfc, section = where.split(", ")
    rules, why = ((), proof) if isinstance(proof, str) else (proof, "")
    return Requirement(rfc, section, level, text, tuple(rules), why, but)


REQUIREMENTS = tuple(
    _requirement(where, *row)
    for where, rows in tomllib.loads(FILE.read_text("utf-8")).items()
    for row in rows
)
