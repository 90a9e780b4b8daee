"""Where what a run measured goes: its cost, its raw output, its folder."""

import datetime
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.bench.cost import Cost
from tools.common.launch import scrub
from tools.data import raw
from tools.data.results import OWN, Run


def take_cost(run: Run, cost: Cost) -> None:
    """What a load cost the server, into a run."""
    if not cost.peak_memory:
        return  # the system shows no processes
    run.cpu_user = round(cost.cpu_user, 6)
    run.cpu_system = round(cost.cpu_system, 6)
    run.peak_memory = cost.peak_memory
    run.threads = cost.threads or None


def keep_raw(folder: Path, name: str, command: str, text: str) -> None:
    """Append an output, under its commands, to those of NAME.

    name: in words; in the name of a file they stand with hyphens.
    """
    name = re.sub(r"[^\w.]+", "-", name).strip("-")
    lines = "".join(f"$ {line}\n" for line in command.splitlines())
    raw.append(folder, name, f"{lines}{scrub(text).rstrip()}\n\n")


def make_reference(folder: Path, place: Path) -> Path:
    """Put a complete run in the place of the committed one."""
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder, fresh)
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)
    shutil.rmtree(folder)
    return place


def own_folder() -> Path:
    """A new folder of the reader's own results, named by the time."""
    name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder, number = OWN / name, 2
    while folder.exists():
        folder, number = OWN / f"{name}-{number}", number + 1
    return folder


def as_typed(words: Sequence[str]) -> str:
    """A command without what only this machine knows: folders."""
    shown = ["./bench.sh"]
    skip = False
    for word in words:
        if not skip and not word.startswith(("--output", "--no-site")):
            shown.append(re.sub(r"(?<![^\s,=])/(?:[^\s,=/]+/)*", "", word))
        skip = word == "--output"
    return shlex.join(shown)
