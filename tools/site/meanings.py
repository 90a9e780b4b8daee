"""What each field of a request and of an answer means: meanings.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Meaning:
    """What to say of a field. text: Markdown; where the RFC says it."""

    label: str
    rfc: int
    section: str
    text: str


MEANINGS = {
    key: Meaning(*said)
    for key, said in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text("utf-8")
    ).items()
}
