"""The measured results the pages show: the reference, and others beside it.

The environment can name them. SEVEN_REFERENCE is a folder; SEVEN_BESIDE
lists the results (files, or folders with a results.json) that stand beside
the reference; without it SEVEN_OWN names the folder of the reader's own run,
or is ``none``: as if the reader had not measured.
"""

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tools.common.files import DataError
from tools.data import raw, results
from tools.data.results import DATA, Point, Results
from tools.servers import SERVERS, SKETCHES
from tools.site.errors import SiteError


@dataclass
class Several(Point):
    """One load in the results of several people."""

    points: list[Point] = field(default_factory=list)


def reference_folder() -> Path:
    """Where the committed run is."""
    return Path(os.environ.get("SEVEN_REFERENCE") or results.REFERENCE)


def reference() -> Results:
    """The committed run."""
    return load(reference_folder())


def experiment(name: str) -> Results:
    """The committed run of an experiment. Raises SiteError."""
    return load(folder(name))


def folder(name: str) -> Path:
    """Where the committed run of an experiment is."""
    return DATA / name


def beside() -> list[Results]:
    """What stands beside the reference: others' runs, or the reader's own."""
    named = os.environ.get("SEVEN_BESIDE")
    if named:
        return [_steps(Path(each)) for each in named.split(os.pathsep)]
    own = os.environ.get("SEVEN_OWN")
    if own == "none":
        return []
    folder = Path(own) if own else _newest_own()
    return [] if folder is None else [load(folder)]


def who(point: Point | None = None) -> str:
    """How the results beside the reference are called, or those of a point.

    Not everybody need have measured the point.
    """
    count = len(beside())
    if isinstance(point, Several) and len(point.points) < count:
        return f"{len(point.points)} of {count} runs"
    return "yours" if count == 1 else f"{count} runs"


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
    """Is this reference older than the server or sketch?

    Of a server that has some points, all that a page names must be there.
    """
    if any(server == each.name for each in SKETCHES):
        return reference().find(server, suite, clients) is None
    return any(server == each.name for each in SERVERS) and not any(
        point.server == server for point in reference().points
    )


def printed(server: str, suite: str) -> str:
    """What the load generator printed in the first run of the reference.

    With its command, whose lines begin with a dollar sign.
    """
    point = reference_point(server, suite)
    if not point.runs:
        raise SiteError(f"{server} has no run in {suite}")
    try:
        everything = raw.read(reference_folder(), server)
    except DataError as error:
        raise SiteError(str(error)) from error
    command = point.runs[0].command
    header = "".join(f"$ {line}\n" for line in command.splitlines())
    _, found, rest = everything.partition(header)
    if not found:
        raise SiteError(f"the raw outputs do not hold {command!r}")
    return header + rest.partition("\n$ ")[0].rstrip()


def beside_point(
    server: str, suite: str, clients: int | None = None
) -> Point | None:
    """The same point beside the reference, None if nobody has it."""
    found = [run.find(server, suite, clients) for run in beside()]
    points = [point for point in found if point]
    if not points or len(found) == 1:
        return points[0] if points else None
    first = points[0]
    return Several(
        first.server, first.suite, first.clients, first.delay, points=points
    )


def beside_points(suite: str, server: str) -> list[Point]:
    """All points of a server in a suite, by their clients."""
    loads = {p.clients for run in beside() for p in run.suite(suite, server)}
    found = [beside_point(server, suite, clients) for clients in sorted(loads)]
    return [point for point in found if point is not None]


def load(path: Path) -> Results:
    """A run by its folder or file. Raises SiteError if it is unusable."""
    file = path if path.suffix == ".json" else path / "results.json"
    try:
        return _read(file, file.stat().st_mtime_ns)
    except OSError as error:
        raise SiteError(f"{file} cannot be read: {error.strerror}") from error
    except DataError as error:
        raise SiteError(str(error)) from error


def _steps(path: Path) -> Results:
    """Another's run, which must be one of the steps."""
    run = load(path)
    if run.mode not in results.STEPS:
        raise SiteError(
            f"{path} is a run of {run.mode}, which measures other things: "
            "run ./bench.sh alone"
        )
    return run


@lru_cache(maxsize=200)
def _read(file: Path, stamp: int) -> Results:
    del stamp  # part of the key: a file that changed is read again
    return results.load(file)


def _newest_own() -> Path | None:
    files = sorted(results.OWN.glob("*/results.json"))
    return _newest(tuple((f, f.stat().st_mtime_ns) for f in files))


@lru_cache(maxsize=1)
def _newest(files: tuple[tuple[Path, int], ...]) -> Path | None:
    del files  # the key: looked for again when a run is added
    return results.newest_own()
