"""The one list of what is made by which command.

Whoever adds an experiment, a recording or another file that a command
makes adds it here; ``python -m tools.data`` shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.servers import ROOT, SERVERS


@dataclass(frozen=True)
class Made:
    """Files that one command makes.

    files: a pattern from the root; measured: git's pathspecs of what it
    measures, if the files say at which commit.
    """

    name: str
    files: str
    command: str
    measured: tuple[str, ...] = ()

    def there(self, root: Path) -> list[Path]:
        """The files there are."""
        return sorted(root.glob(self.files))


# All that serves: no sketch, no lab, no exercise.
EVERY = (":(glob)0*/*.py", ":!0*/sketch.py")
THREADS, CORES = "03_threading/server.py", ":(glob)07_parallel/*.py"
# Folder of docs/data -> ./bench.sh ..., and what that measures.
RUNS: dict[str, tuple[str, ...]] = {
    "reference": ("--full --no-site", *EVERY),
    "peers": ("--peers all", *EVERY, "tools/bench/peers"),
    "hold": ("hold", *EVERY),
    "hosts": ("hosts", *EVERY, "labs/hosts"),
    "scale": ("scale --repeats 5", THREADS, CORES),
    "crowd": ("crowd --repeats 5", CORES),
    "gains": ("gains --repeats 5", CORES),
    "static": ("static --repeats 5", CORES),
    "pythons": ("pythons", CORES, "06_asyncio/server.py"),
    "threads": (
        "threads --pythons python3.13t,python3.13 --repeats 5",
        THREADS, CORES, "06_asyncio/server.py",
    ),
    "labs-gil": (
        "labs gil --repeats 5 --gil-seconds 0.6 "
        "--pythons python2.7,python3.8,python3.11,python3.13,python3.13t",
        "labs/gil/lab.py",
    ),
    "labs-chain": ("labs chain --repeats 5", "06_asyncio/coroutines.py"),
    "labs-connections": (
        "labs connections", "06_asyncio/coroutines.py", CORES,
    ),
    "labs-wsgi": (
        "labs wsgi", "06_asyncio/coroutines.py", "labs/wsgi/on_coroutines.py",
    ),
    "labs-database": (
        "labs database", "labs/database/lab.py",
        "03_threading/server.py", "03_threading/pool.py",
        "06_asyncio/server.py",
    ),
    "labs-frames": (
        "labs frames", "labs/frames/lab.py", "labs/frames/links.py",
        "labs/frames/echo.c",
    ),
    "labs-inside": (
        "labs inside", "02_sockets/server.py", THREADS,
        "04_selectors/server.py", "06_asyncio/server.py",
    ),
    "labs-receive": ("labs receive", "labs/receive/lab.py"),
    "wire": ("wire", *(server.file for server in SERVERS[:3])),
}  # fmt: skip


def everything() -> Iterator[Made]:
    """All data there is."""
    for name, (words, *measured) in RUNS.items():
        yield Made(
            name, f"docs/data/{name}/*", f"./bench.sh {words} --reference",
            tuple(measured),
        )
    for server in SERVERS:
        yield Made(
            f"recordings/{server.name}",
            f"docs/data/recordings/{server.name}.json",
            f"./bench.sh record --only {server.name} --no-site --reference",
            (CORES,) if server.step == 7 else (server.file,),
        )
    others = (f":!tests/{name}" for name in ("labs", "learn", "site", "tools"))
    yield Made(
        "conformance", "docs/data/conformance.json",
        "./test.sh --conformance docs/data/conformance.json",
        (*EVERY, "tests", *others),
    )
    yield Made(
        "sketches", "docs/data/sketches.json",
        "./test.sh --sketches docs/data/sketches.json",
        (":(glob)0*/sketch.py", "tools/sketch.py", CORES, "tests/test_*.py"),
    )
    yield Made(
        "picture", "docs/assets/ladder-*.svg", "python -m tools.site.picture",
    )
    yield Made(
        "bottleneck", "04_selectors/exercises/2_bottleneck/?.txt",
        "python -m tools.learn.tables",
    )
    for file in sorted(ROOT.glob("0*/exercises/*/messages.txt")):
        folder = file.parent.relative_to(ROOT).as_posix()
        number = f"{folder[:2]}.{file.parent.name[0]}"
        yield Made(
            f"messages/{number}", f"{folder}/messages.txt",
            f"python -m tools.learn.record {number}",
        )
