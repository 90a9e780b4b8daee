"""The recordings the pages play: the committed ones or the reader's own.

A recording of the reader takes the place of the committed one of the same
server. SEVEN_OWN is as in `data` (``none``: the reader has none).
"""

import os
from collections.abc import Callable
from pathlib import Path

from tools.common.files import DataError
from tools.data import recording
from tools.data.recording import Recording
from tools.site import options
from tools.site.errors import SiteError

PREFIX = "race:"  # of a number in a sentence


# A number of a recording by its name; times in ms.
FIGURES: dict[str, Callable[[Recording], float]] = {
    "first": lambda r: min(c.done for c in r.clients) / 1000,
    "last": lambda r: r.length / 1000,
    "peak": lambda r: r.peak,
    "busy": lambda r: r.busy,
    "threads": lambda r: len(r.lanes),
    "calls": lambda r: r.count,
}


def own_folder() -> Path | None:
    """Where the reader's recordings would be; None: do not look."""
    named = os.environ.get("SEVEN_OWN")
    if named == "none":
        return None
    return Path(named) / "recordings" if named else recording.OWN


def find(name: str) -> tuple[Recording, Path]:
    """The recording of a server and its file.

    Raises SiteError if there is no such server or no recording of it.
    """
    options.server(name)
    for folder in (own_folder(), recording.REFERENCE):
        file = folder / f"{name}.json" if folder else None
        if file and file.is_file():
            return _load(file, name), file
    raise SiteError(
        f"there is no recording of {name}: make one with ./bench.sh record"
    )


def _load(file: Path, name: str) -> Recording:
    try:
        found = recording.load(file)
    except DataError as error:
        raise SiteError(str(error)) from error
    if found.server != name:
        raise SiteError(f"{file.name} holds a recording of {found.server}")
    return found


def figure(word: str) -> tuple[float, str]:
    """A number of a recording, from ``race:NAME.FIGURE``, and its figure."""
    name, _, wanted = word.removeprefix(PREFIX).rpartition(".")
    if wanted not in FIGURES:
        known = ", ".join(FIGURES)
        raise SiteError(
            f"{word!r} is not {PREFIX}server.figure; the figures are {known}"
        )
    return float(FIGURES[wanted](find(name)[0])), wanted
