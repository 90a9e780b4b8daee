"""The format of captured bytes: written by tools.bench, read by tools.site.

An exchange is what went over one connection: every byte the client sent
and every byte the server sent until it closed. One file each,
``NAME.json`` in `REFERENCE`. There the bytes stand as text (one character
a byte, Latin-1) cut after each LF, so that a change can be read.
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.common.files import read_json, reading, save_json
from tools.data.results import DATA

SCHEMA = 1
REFERENCE = DATA / "wire"
CODING = "latin-1"  # byte 0 to 255 is character 0 to 255


@dataclass(frozen=True)
class Exchange:
    """What both sides of one connection sent.

    half_closed: the client ended its side as soon as it had sent all.
    """

    name: str
    server: str  # its name in tools.servers
    command: str  # what captured it
    started: str  # ISO 8601 with offset
    commit: str  # "" outside git; ends in "+" if files were changed
    versions: dict[str, str]  # name -> version
    sent: bytes
    received: bytes
    half_closed: bool = False
    schema: int = SCHEMA

    def save(self, folder: Path) -> Path:
        """Write NAME.json; a crash leaves the old file whole."""
        data = asdict(self)
        for side in ("sent", "received"):
            text = data[side].decode(CODING)
            data[side] = re.findall("[^\n]*\n|[^\n]+", text)
        return save_json(folder / f"{self.name}.json", data)


def load(file: Path) -> Exchange:
    """Read an exchange. Raises DataError if it is unusable."""
    with reading(file, "an exchange"):
        data = read_json(file, SCHEMA, "capture again with ./bench.sh wire")
        for side in ("sent", "received"):
            data[side] = "".join(data[side]).encode(CODING)
        return Exchange(**data)
