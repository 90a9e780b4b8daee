"""``python -m tools.data``: where the data on the pages come from.

Prints for each of them the command that makes it, of which commit it is,
when and on which machine it was made, and whether it is stale. It is
stale when a file that it measured has changed since that commit. Changes
of comments and docstrings alone do not count; what was measured before it
was committed ("+") counts as of the commit before. What says no commit is
compared by a test (./test.sh --all), so it is never called stale.
"""

import argparse
import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.common.terminal import a_console, a_table
from tools.data.made import Made, everything
from tools.servers import ROOT

WIDTH = 120  # columns when the output goes to a file
DOCUMENTED = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef,
)  # fmt: skip


def git(root: Path, *words: str) -> str:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(
        ["git", "-C", root, *words], check=True, capture_output=True,
        text=True, errors="replace",
    ).stdout


def facts(made: Made, root: Path) -> dict[str, Any]:
    """What the files say: commit, started, machine.

    Of those that say nothing only the commit that changed them last.
    """
    for file in made.there(root):
        if file.suffix == ".json":
            said: dict[str, Any] = json.loads(file.read_text("utf-8"))
            if "commit" in said:
                return said
    found = git(root, "log", "-1", "--format=%h %cs", "--", made.files)
    commit, _, day = found.strip().partition(" ")
    return {"commit": commit, "started": day, "silent": True}


def state(made: Made, root: Path) -> str:
    """Whether it is good, and why not."""
    if not made.there(root):
        return "[yellow]stale[/]: it is not there"
    said = facts(made, root)
    if "silent" in said:
        return "a test compares it"
    commit = said["commit"].rstrip("+")
    try:
        names = git(
            root, "diff", "--name-only", "--no-renames", commit or "none",
            "--", *made.measured,
        ).splitlines()
    except subprocess.CalledProcessError:
        return "[yellow]stale[/]: its commit is not in this repository"
    changed = [name for name in names if differs(root, commit, name)]
    more = f" and {len(changed) - 2} more" if changed[2:] else ""
    if changed:
        return f"[yellow]stale[/]: changed: {', '.join(changed[:2])}{more}"
    return "good"


def differs(root: Path, commit: str, name: str) -> bool:
    """Whether a file says something else than at a commit."""
    try:
        old = git(root, "show", f"{commit}:{name}")
        new = (root / name).read_text("utf-8", errors="replace")
        return not name.endswith(".py") or meaning(old) != meaning(new)
    except (subprocess.CalledProcessError, OSError, SyntaxError):
        return True  # one of the two is not there


def meaning(source: str) -> str:
    """Python without its comments, docstrings and line ends."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree)


def main(
    words: list[str], entries: Iterable[Made] | None = None, root: Path = ROOT
) -> int:
    """Print the table; 0. Exits with 2 outside git."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.data", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(words)
    try:
        git(root, "rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        parser.error("this needs git, and a clone with its history")
    rows = []
    for made in everything() if entries is None else entries:
        said = facts(made, root)
        on = said.get("machine")
        rows.append([
            f"{made.name}\n[dim]{made.command}", said["commit"],
            said["started"][:10],
            f"{on['cpu']}, {on['cores']} cores, {on['python']}" if on else "",
            state(made, root),
        ])
    titles = ("made", "commit", "date", "machine", "state")
    a_console(WIDTH).print(a_table(titles, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
