"""The measured results the pages show: the reference and the reader's own.

The environment can name other folders: SEVEN_REFERENCE and SEVEN_OWN
(``none``: as if the reader had not measured).
"""

import os
from functools import lru_cache
from pathlib import Path

from tools.common.files import DataError
from tools.data import raw, results
from tools.data.results import Point, Results
from tools.servers import SKETCHES
from tools.site.errors import SiteError


def reference_folder() -> Path:
    """Where the committed run is."""
    return Path(os.environ.get("SEVEN_REFERENCE") or results.REFERENCE)


def own_folder() -> Path | None:
    """The reader's newest usable run, if there is one."""
    named = os.environ.get("SEVEN_OWN")
    if named == "none":
        return None
    if named:
        return Path(named)
    files = sorted(results.OWN.glob("*/results.json"))
    return _newest(tuple((f, f.stat().st_mtime_ns) for f in files))


def reference() -> Results:
    """The committed run."""
    return load(reference_folder())


def own() -> Results | None:
    """The reader's newest run, None if there is none."""
    folder = own_folder()
    return None if folder is None else load(folder)


def reference_point(
    server: str, suite: str, clients: int | None = None
) -> Point:
    """A point of the reference. It must be there: a page relies on it."""
    if suite not in results.SUITES:
        known = ", ".join(results.SUITES)
        raise SiteError(f"no suite is called {suite!r}; there are {known}")
    point = reference().find(server, suite, clients)
    if point is None:
        load = "" if clients is None else f" with {clients} clients"
        raise SiteError(
            f"the reference has no point for {server} in {suite}{load}"
        )
    return point


def not_measured(
    server: str, suite: str, clients: int | None = None
) -> bool:
    """A sketch that this reference, an older one, knows nothing of."""
    sketch = any(server == each.name for each in SKETCHES)
    return sketch and reference().find(server, suite, clients) is None


def reference_output(server: str) -> str:
    """What the load generator printed for a server. Raises SiteError."""
    try:
        return raw.read(reference_folder(), server)
    except DataError as error:
        raise SiteError(str(error)) from error


def own_point(
    server: str, suite: str, clients: int | None = None
) -> Point | None:
    """The same point of the reader's run, None if it is not there."""
    run = own()
    return None if run is None else run.find(server, suite, clients)


def load(folder: Path) -> Results:
    """A run by its folder. Raises SiteError if it cannot be read."""
    try:
        stamp = (folder / "results.json").stat().st_mtime_ns
        return _read(folder, stamp)
    except OSError as error:
        raise SiteError(
            f"{folder / 'results.json'} cannot be read: {error.strerror}"
        ) from error
    except DataError as error:
        raise SiteError(str(error)) from error


@lru_cache(maxsize=8)
def _read(folder: Path, stamp: int) -> Results:
    del stamp  # part of the key: a file that changed is read again
    return results.load(folder)


@lru_cache(maxsize=1)
def _newest(files: tuple[tuple[Path, int], ...]) -> Path | None:
    del files  # the key: looked for again when a run is added
    return results.newest_own()
