"""Step 07 without one of its ideas: for ``gains``, from ideas.toml.

Each is taken away in a copy of the step's folder, in which a few words are
replaced. A replacement that does not find its words ends the experiment:
the list follows the code or it fails.
"""

import contextlib
import dataclasses
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.bench.session import Refused
from tools.servers import ROOT, Server, by_name

COPIES = ".patched"  # folder of the repository, for the changed copies
KEEP, NEW = "gain-keep", "gain-new"  # suites
Idea = dict[str, Any]  # its words: see the file
IDEAS: list[Idea] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)["idea"]


def patched(idea: Idea, folder: Path) -> Server:
    """07 without an idea, as a copy in a folder of its own.

    Raises Refused if the words to be replaced are not there once.
    """
    original = by_name("07")
    name, changes = idea["name"], idea.get("changes", ())
    options = (*original.options, *idea.get("options", ()))
    if not changes:
        return dataclasses.replace(original, options=options)
    words = "".join(c if c.isalnum() else " " for c in name).split()
    copy = folder / "-".join(words)
    shutil.copytree(
        original.path.parent, copy,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for file, old, new in changes:
        text = (copy / file).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise Refused(
                f"{name!r}: {old.strip()!r} is {text.count(old)} times in "
                f"07_parallel/{file}, not once: the list of ideas has to "
                "follow"
            )
        changed = text.replace(old, new)
        (copy / file).write_text(changed, encoding="utf-8")
    path = str((copy / "server.py").relative_to(ROOT))
    return dataclasses.replace(original, file=path, options=options)


@contextlib.contextmanager
def copies() -> Iterator[dict[str, Server]]:
    """The server without each idea, by the idea's name."""
    folder = ROOT / COPIES
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield {idea["name"]: patched(idea, folder) for idea in IDEAS}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
