"""``./bench.sh labs``: the labs of the pages, each with its own results.

A lab is a module ``tools/bench/labs_NAME.py`` and offers what an
experiment offers: ABOUT, add_options and run (see `Experiment` in
``tools.bench.__main__``). Its figures go to a folder of its own, and with
``--reference`` to docs/data/labs-NAME.
"""

import argparse
import copy
import importlib
import sys
import time
from pathlib import Path
from types import ModuleType

from rich.console import Console

from tools.bench import outcome, table
from tools.bench.server import ServerError
from tools.data.results import DATA, Results

HERE = Path(__file__).parent  # the folder of labs_NAME.py
PLACE = "labs-NAME"  # in docs/data, of each lab


def names() -> list[str]:
    """The labs there are, in alphabetical order."""
    files = HERE.glob("labs_*.py")
    return sorted(file.stem.removeprefix("labs_") for file in files)


ABOUT = f"the labs of the pages: {', '.join(names())}, or some of them"


def module(name: str) -> ModuleType:
    """A lab by name."""
    return importlib.import_module(f"tools.bench.labs_{name}")


def lab(word: str) -> str:
    """A check for argparse: the name of a lab."""
    if word not in names():
        raise argparse.ArgumentTypeError(
            f"there is no lab {word!r}; there are {', '.join(names())}"
        )
    return word


def add_options(parser: argparse.ArgumentParser) -> None:
    """The names of the labs, and the options of each."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "\n".join(
        [ABOUT, "", *(f"  {module(name).ABOUT}" for name in names())]
    )
    parser.add_argument(
        "labs", nargs="*", type=lab, metavar="LAB",
        help=f"{', '.join(names())} (default: all)",
    )
    for name in names():
        module(name).add_options(parser)


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Run the labs one after the other; the worst of their statuses.

    Each has results of its own, so the ones given here only lend their
    facts about the machine. Exits with status 130 when interrupted.
    """
    chosen = [n for n in names() if not options.labs or n in options.labs]
    places = {name: folder / f"labs-{name}" for name in chosen}
    if len(chosen) == 1:
        places = {chosen[0]: folder}
    worst = 0
    for name in chosen:
        if len(chosen) > 1:
            console.print(f"\n[bold]Lab {name}")
        own = copy.deepcopy(results)
        own.mode = f"labs-{name}"
        own.command = command(results.command, name, chosen)
        status = one(name, options, own, places[name], console)
        if status == 130:
            sys.exit(130)
        worst = max(worst, status)
    return worst


def one(
    name: str,
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Run one lab and keep what it measured; its status.

    1: it was stopped by an error; 130: interrupted.
    """
    begun = time.monotonic()
    try:
        status: int = module(name).run(options, results, folder, console)
        results.complete = True
    except KeyboardInterrupt:
        status = 130
    except (OSError, ServerError) as error:
        console.print(f"Stopped: {getattr(error, 'strerror', '') or error}.")
        status = 1
    if not results.points:
        if status == 130:
            console.print("\nInterrupted before anything was measured.")
        return status
    results.seconds = round(time.monotonic() - begun, 1)
    results.save(folder)
    if status == 130:
        said = "Interrupted: what was measured is in"
    else:
        said = "Figures and raw outputs:"
        if options.reference and status == 0:
            folder = outcome.make_reference(folder, DATA / f"labs-{name}")
    console.print(f"\n{said} {table.typed(folder)}", soft_wrap=True)
    return status


def command(typed: str, name: str, chosen: list[str]) -> str:
    """The command that measures one lab again, without the others."""
    words = [word for word in typed.split() if word not in chosen]
    return " ".join([*words[:2], name, *words[2:]])
