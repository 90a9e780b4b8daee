"""Experiments of the older kind (x_NAME.py) as `Experiment`."""

import argparse
import datetime
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from tools.bench import preflight, table
from tools.bench.numbers import whole
from tools.bench.outcome import make_reference, own_folder
from tools.bench.server import ServerError
from tools.data.results import DATA, Results


def adapted(name: str, module: Any) -> Any:
    """The module itself if it is of the newer kind."""
    return module if hasattr(module, "HELP") else Adapted(name, module)


class Adapted:
    """One with ABOUT, add_options and run(options, results, ...)."""

    def __init__(self, name: str, module: Any) -> None:
        self.name, self.module = name, module
        self.HELP: str = module.ABOUT
        self.ON_EVERY_PAGE = getattr(module, "ON_EVERY_PAGE", False)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Its own options and those of all."""
        self.module.add_options(parser)
        add = parser.add_argument
        add("--repeats", type=whole(1, 50), metavar="N")
        add("--output", type=Path, metavar="DIR")
        add("--reference", action="store_true")

    def run(self, options: argparse.Namespace) -> int:
        """Measure, keep what there is."""
        console = Console(highlight=False, width=100)
        now = datetime.datetime.now().astimezone()
        folder = options.output or own_folder(now)
        load = "ab" if shutil.which("ab") else "python"
        results = Results(
            command=as_typed(sys.argv[1:]),
            mode=self.name,
            started=now.isoformat(timespec="seconds"),
            commit=preflight.commit(),
            machine=preflight.machine(preflight.raise_open_files()),
            tools=preflight.tool_versions(load),
            load=load,
        )
        begun = time.monotonic()
        try:
            status: int = self.module.run(options, results, folder, console)
            results.complete = True
        except KeyboardInterrupt:
            status = 130
        except (OSError, ServerError) as error:
            console.print(f"Stopped: {getattr(error, 'strerror', error)}.")
            status = 1
        if not results.points:
            return status
        results.seconds = round(time.monotonic() - begun, 1)
        results.save(folder)
        if options.reference and status == 0:
            folder = make_reference(folder, DATA / self.name)
        console.print(f"\nFigures and raw outputs: {table.typed(folder)}")
        return status


def as_typed(words: list[str]) -> str:
    """A command without what only this machine knows: folders."""
    shown = ["./bench.sh"]
    skip = False
    for word in words:
        if not skip and not word.startswith("--output"):
            shown.append(re.sub(r"(?<![^\s,=])/(?:[^\s,=/]+/)*", "", word))
        skip = word == "--output"
    return shlex.join(shown)
