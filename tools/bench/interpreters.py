"""The Python interpreters of this machine, from 2.7 to the newest.

They are looked for on the PATH, by their usual names, and among the
versions of pyenv, where that is installed. Each is asked what it is.
"""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.bench import x_threads
from tools.bench.x_threads import Interpreter, InterpreterError

OLD = "2.7"
FIRST, LAST, FIRST_FREE = 8, 15, 13  # the x of Python 3.x
NAMES = (
    f"python{OLD}",
    *(f"python3.{minor}" for minor in range(FIRST, LAST + 1)),
    *(f"python3.{minor}t" for minor in range(FIRST_FREE, LAST + 1)),
)
ASK_SECONDS = 30.0  # for pyenv to say where it is


def find() -> list[Interpreter]:
    """Those that are here, the oldest first, one of each minor version.

    Of several the one that runs this is taken, then the one on the PATH.
    What does not run is left out, and what is neither 2.7 nor 3.8 or
    newer.
    """
    found: dict[str, Interpreter] = {}
    for program in [sys.executable, *_on_path(), *_of_pyenv()]:
        # A version manager has commands for what is not there.
        with contextlib.suppress(InterpreterError):
            python = x_threads.identify(program)
            if python.label == OLD or numbers(python) >= [3, FIRST]:
                found.setdefault(python.label, python)
    return sorted(found.values(), key=order)


def choose(words: str | None) -> list[Interpreter]:
    """Those in a list like ``python2.7,/usr/bin/python3``, None: all found.

    The oldest first; names like ``python2.7`` find what is in pyenv too.
    Raises InterpreterError with a sentence if one is missing, is no
    Python, or is there twice.
    """
    if words is None:
        return find()
    known = {f"python{python.label}": python for python in find()}
    chosen = []
    for word in (part.strip() for part in words.split(",")):
        if word in known:
            chosen.append(known[word])
        elif word:
            chosen += x_threads.interpreters(word)
    if not chosen:
        raise InterpreterError("--pythons names no interpreter")
    return sorted(x_threads.tell_apart(chosen), key=order)


def order(python: Interpreter) -> tuple[list[int], bool]:
    """By version as numbers; without a GIL comes after with one."""
    return numbers(python), python.free


def numbers(python: Interpreter) -> list[int]:
    """The numbers of its version: [3, 13, 0]."""
    return [int(number) for number in re.findall(r"\d+", python.version)]


def _on_path() -> list[str]:
    return [path for name in NAMES if (path := shutil.which(name))]


def _of_pyenv() -> list[str]:
    """The interpreters that pyenv has made, if there is a pyenv."""
    try:
        done = subprocess.run(
            ["pyenv", "root"], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=ASK_SECONDS, check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    root = done.stdout.strip()
    if not root:
        return []
    programs = Path(root, "versions").glob("*/bin/python")
    return [str(program) for program in sorted(programs)]
