"""``python -m tools.data``: where the data on the pages come from.

Prints for each of them the command that makes it, of which commit it is,
when and on which machine it was made, and whether it is stale. It is
stale when a file that it measured, or was made from, has changed since
that commit. Changes of comments and docstrings alone do not count; what
was measured before it was committed ("+") counts as of the commit before.
What says no commit is compared by a test (./test.sh --all), so it is never
called stale; it is renewed by name, and with what it is made from.
"""

import argparse
import ast
import contextlib
import json
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from rich.console import Console

from tools.common.terminal import a_console, a_table
from tools.data.made import Made, everything
from tools.servers import ROOT

WIDTH = 120  # columns when the output goes to a file
DOCUMENTED = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef,
)  # fmt: skip
PATIENCE = 30  # seconds for an interrupted command to end by itself


# What is known of the files ------------------------------------------------


def git(root: Path, *words: str) -> str:
    """What git prints. Raises CalledProcessError."""
    return subprocess.run(
        ["git", "-C", root, *words], check=True, capture_output=True,
        text=True, errors="replace",
    ).stdout


def facts(made: Made, root: Path) -> dict[str, Any]:
    """What the files say: commit, started, machine, seconds.

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


def why_stale(made: Made, root: Path) -> str:
    """Why it has to be made again; "" if it has not."""
    if not made.there(root):
        return "it is not there"
    said = facts(made, root)
    if "silent" in said:
        return ""  # a test makes the same and compares
    commit = said["commit"].rstrip("+")
    try:
        names = git(
            root, "diff", "--name-only", "--no-renames", commit or "none",
            "--", *made.measured,
        ).splitlines()
    except subprocess.CalledProcessError:
        return "its commit is not in this repository"
    changed = [name for name in names if differs(root, commit, name)]
    more = f" and {len(changed) - 2} more" if changed[2:] else ""
    return f"changed: {', '.join(changed[:2])}{more}" if changed else ""


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


# Making again --------------------------------------------------------------


def stale(entries: list[Made], root: Path) -> list[Made]:
    """What has to be made again, and what is made from that."""
    chosen: list[Made] = []
    for made in entries:
        patterns = [other.files for other in chosen]
        if why_stale(made, root) or any(
            fnmatch(source, pattern)
            for source in made.measured for pattern in patterns
        ):
            chosen.append(made)
    return chosen


def renew(made: Made, root: Path) -> bool:
    """Run its command; if that fails, its files are as they were."""
    before = {file: file.read_bytes() for file in made.there(root)}
    good = False
    try:
        good = _call(made.command, root) == 0
    finally:
        if not good:
            for file in {*made.there(root)} - {*before}:
                file.unlink()
            for file, content in before.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
    return good


def _call(command: str, root: Path) -> int:
    words = shlex.split(command)
    if words[0] == "python":
        words[0] = sys.executable
    child = subprocess.Popen(words, cwd=root)
    try:
        return child.wait()
    except KeyboardInterrupt:  # a terminal interrupts the command as well
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(PATIENCE)
        child.terminate()
        child.wait()
        raise


# The command line ----------------------------------------------------------


def show(entries: list[Made], root: Path, console: Console) -> None:
    """Print the table."""
    rows = []
    for made in entries:
        why, said = why_stale(made, root), facts(made, root)
        on = said.get("machine")
        rows.append([
            f"{made.name}\n[dim]{made.command}", said["commit"],
            said["started"][:10],
            f"{on['cpu']}, {on['cores']} cores, {on['python']}" if on else "",
            f"[yellow]stale[/]: {why}" if why
            else "a test compares it" if "silent" in said else "good",
        ])
    titles = ("made", "commit", "date", "machine", "state")
    console.print(a_table(titles, rows))


def main(
    words: list[str], entries: list[Made] | None = None, root: Path = ROOT
) -> int:
    """Do as asked; 1: a command failed; 2: no such name; 130: interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tools.data", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--renew", nargs="*", metavar="NAME",
        help="make again what is stale, or those named, stale or not (a name "
        "as 'recordings' means all of recordings/)")
    add("--dry-run", action="store_true", help="only print the commands")
    options = parser.parse_args(words)
    console = a_console(WIDTH)
    made = list(everything()) if entries is None else entries
    try:
        git(root, "rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        parser.error("this needs git, and a clone with its history")
    if options.renew is None:
        show(made, root, console)
        return 0
    for name in options.renew:
        if not any(each.named([name]) for each in made):
            parser.error(f"there is no {name!r}")
    chosen = [each for each in made if each.named(options.renew)]
    if not options.renew:
        chosen = stale(made, root)
    failed = []
    for number, one in enumerate(chosen, 1):
        took = facts(one, root).get("seconds")
        last = f", {took / 60:.0f} minutes last time" if took else ""
        console.print(
            f"[bold]{number} of {len(chosen)}[/] {one.name}{last}\n"
            f"[cyan]$ {one.command}"
        )
        try:
            if not options.dry_run and not renew(one, root):
                failed.append(one.name)
        except KeyboardInterrupt:
            console.print(f"Interrupted: {one.name} is as it was.")
            return 130
    if failed:
        console.print(f"[red]Failed, and as before: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
