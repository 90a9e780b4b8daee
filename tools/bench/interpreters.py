"""The Python interpreters of this machine, from 2.7 to the newest.

They are looked for on the PATH, by their usual names. Each is asked what
it is. One that needs several words or variables is named by a script that
ends with ``exec``: the process that is measured is then Python's own.
"""

import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.bench.preflight import output_of

FIRST, LAST, FIRST_FREE = 8, 15, 13  # the x of Python 3.x
NAMES = (
    "python2.7",
    *(f"python3.{minor}" for minor in range(FIRST, LAST + 1)),
    *(f"python3.{minor}t" for minor in range(FIRST_FREE, LAST + 1)),
)
FIRST_JIT = [3, 14]  # the first whose release has a JIT to turn on
ASK_SECONDS = 30.0  # for one to say something

# Asked of an interpreter: what it is. A free-threaded build can run with
# a GIL all the same, because of PYTHON_GIL or an extension.
WHO = """
import json, platform, sys, sysconfig
free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
pypy = platform.python_implementation() == "PyPy"
jit = hasattr(sys, "_jit") and sys._jit.is_enabled()
print(json.dumps({
    "label": "pypy" * pypy + "%d.%d" % sys.version_info[:2] + "t" * free
    + " JIT" * jit,
    "version": platform.python_version(),
    "free": free,
    "jit": jit,
    "optimised": "--enable-optimizations"
    in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    or not sysconfig.get_config_var("PGO_PROF_USE_FLAG"),
}))
"""
# Asked of an interpreter: its loop steps a second, as in every server.
SPEED = """
import time
def compute(steps):
    for _ in range(steps):
        pass
best = 9e9
for _ in range(100):
    begun = time.perf_counter()
    compute(50_000)
    best = min(best, time.perf_counter() - begun)
print(50_000 / best)
"""


class InterpreterError(Exception):
    """An interpreter that cannot be used; the text says why."""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A Python to measure with.

    program: its path, as it was named: a script may set what makes it
    what it is; label: how it is called in the results, such as "3.13t",
    "3.14 JIT" or "pypy3.11"; version: such as "3.13.5"; free: built
    without a GIL; optimised: built with --enable-optimizations; jit:
    CPython's JIT is on.
    """

    program: str
    label: str
    version: str
    free: bool
    optimised: bool = False
    jit: bool = False

    @property
    def name(self) -> str:
        """As its command is usually called: "python3.13t"."""
        pypy = self.label.startswith("pypy")
        return self.label if pypy else f"python{self.label}"

    @property
    def described(self) -> str:
        """Its version and build in words."""
        threads = "" if self.free else "with the GIL, "
        return f"{self.version}, {threads}{self.build}"

    @property
    def build(self) -> str:
        """How it was built."""
        if self.label.startswith("pypy"):
            return "PyPy"
        build = "optimised build" if self.optimised else "plain build"
        build += ", JIT" * self.jit
        return f"free-threaded, {build}" if self.free else build


def find(programs: Sequence[str] = ()) -> list[Interpreter]:
    """Those that are here, the oldest first, one of each minor version.

    programs: among these, or among all usual names. Of several the one
    that runs this is taken, then the first. What does not run is left out.
    """
    found: dict[str, Interpreter] = {}
    for program in [sys.executable, *(programs or NAMES)]:
        # A version manager has commands for what is not there.
        with contextlib.suppress(InterpreterError):
            python = identify(program)
            found.setdefault(python.label, python)
    return sorted(found.values(), key=order)


def choose(
    words: str | None, usual: Sequence[str] = ()
) -> list[Interpreter]:
    """Those in a list like ``python2.7,/usr/bin/python3``, None: all found.

    The oldest first; usual: where to look if there is no list. Raises
    InterpreterError with a sentence if one is missing, is no Python, or
    is there twice.
    """
    if words is None:
        return find(usual)
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    chosen = [identify(word) for word in wanted]
    if not chosen:
        raise InterpreterError("--pythons names no interpreter")
    labels = [python.label for python in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise InterpreterError(
                f"two of the interpreters are Python {label}: name one"
            )
    return sorted(chosen, key=order)


def identify(program: str) -> Interpreter:
    """Ask an interpreter what it is. Raises InterpreterError."""
    path = shutil.which(program)
    if path is None:
        raise InterpreterError(f"there is no interpreter {program}")
    path = os.path.abspath(path)
    try:
        return Interpreter(program=path, **json.loads(ask(path, WHO)))
    except (ValueError, TypeError) as error:
        raise InterpreterError(
            f"{program} is not a Python interpreter"
        ) from error


def ask(program: str, code: str, *arguments: str) -> str:
    """What the code prints. Raises InterpreterError."""
    said = output_of(program, "-c", code, *arguments, seconds=ASK_SECONDS)
    if not said:
        raise InterpreterError(f"the interpreter {program} does not work")
    return said


def steps_in(program: str, seconds: float) -> int:
    """Loop steps that take an interpreter so long. Raises InterpreterError.

    From the best of several goes: others can only make it slower.
    """
    return max(round(float(ask(program, SPEED)) * seconds), 1)


def with_jit(python: Interpreter, folder: Path) -> Interpreter | None:
    """The same with its JIT on, if it was built with one that is off.

    folder: for the script that turns it on.
    """
    if python.jit or numbers(python) < FIRST_JIT:
        return None
    script = folder / f"{python.name}-jit"
    words = shlex.quote(python.program)
    script.write_text(f'#!/bin/sh\nPYTHON_JIT=1 exec {words} "$@"\n')
    script.chmod(0o755)
    found = identify(str(script))
    return found if found.jit else None


def order(python: Interpreter) -> tuple[list[int], bool, bool]:
    """By version as numbers; then with a GIL first, without a JIT first."""
    return numbers(python), python.free, python.jit


def numbers(python: Interpreter) -> list[int]:
    """The numbers of its version: [3, 13, 0]."""
    return [int(number) for number in re.findall(r"\d+", python.version)]
