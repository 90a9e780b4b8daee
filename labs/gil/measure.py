"""``./bench.sh labs gil``: lab.py beside this file, on every interpreter.

Each interpreter of the machine runs the lab pinned to one CPU and on two,
a round at a time and in turns. The lab does the measuring; here its
figures become points.
"""

import itertools
import json
import os
import time
from functools import partial

from tools.bench import interpreters, preflight
from tools.bench.experiments.lab import LabError, said_by
from tools.bench.interpreters import Interpreter
from tools.bench.outcome import keep_raw
from tools.bench.session import Session, number_option, some_of
from tools.bench.table import figure, median
from tools.data.results import Point, Run

HELP = (
    "threads and the GIL on every interpreter, on one CPU and on two "
    "(about 2 minutes for each interpreter)"
)
SUITE = "labs-gil"
FILE = "labs/gil/lab.py"
REPEATS = 5
SECONDS = 0.5  # that one measurement of the lab lasts
CPUS = (1, 2)
PATIENCE = 300.0  # seconds for one round, and some for each of --seconds
ROUND_TIMES = 60  # more than a round takes, in units of --seconds
PARTS = ("compute", "hand-over", "answer", "pool")
# What the unit of a figure adds to its name in the results.
UNITS = {"efficiency": "_times", "answer": "_ms"}
# Columns of the table on the screen.
COLUMNS = {
    "two threads": "efficiency_times",
    "Lock/s": "lock_per_second",
    "Lock/s + hog": "lock_hog_per_second",
    "Condition/s": "condition_per_second",
    "Condition/s + hog": "condition_hog_per_second",
    "answer ms": "answer_ms",
    "answer ms + hog": "answer_hog_usual_ms",
    "pool req/s": "pool_10_per_second",
    "pool req/s + hog": "pool_10_hog_per_second",
}

OPTIONS = (  # --pythons is that of all labs
    ("--parts", {
        "metavar": "LIST", "type": some_of(PARTS, "part"), "default": PARTS,
        "help": f"measure only these of {', '.join(PARTS)}",
    }),
    number_option(
        "--gil-seconds", 0.05, 60, SECONDS, "that a measurement lasts", float
    ),
)  # fmt: skip


def measure(session: Session) -> int:
    """Every interpreter, on one CPU and on two."""
    pythons = interpreters.choose(session.options.pythons)
    session.note_pythons(pythons)
    cpus = [each for each in CPUS if each <= preflight.core_count()]
    if len(cpus) < len(CPUS):
        session.say("This machine has one CPU: nothing is run on two.")
    work = []
    for python, each in itertools.product(pythons, cpus):
        variant = f"{each} CPU{'s' * (each > 1)}"
        point = Point(python.label, SUITE, 0, 0.0, variant=variant)
        work.append((point, partial(one_round, session, python, each)))
    session.rounds(work, REPEATS, lambda one: f"{one.seconds:.1f} s")
    session.show(
        {"Python": called, "on": lambda p: p.variant}
        | {title: figure(name, "{:.2f}") for title, name in COLUMNS.items()},
        "two threads: their work, times that of one; hog: a thread that "
        "computes beside them",
    )
    return session.status()


def one_round(session: Session, python: Interpreter, cpus: int) -> Run:
    """One round of the lab under an interpreter. Raises LabError."""
    options = session.options
    words = [FILE, "--rounds", "1", "--json"]
    words += ["--seconds", f"{options.gil_seconds:g}"]
    if hasattr(os, "sched_setaffinity"):
        words += ["--cpus", str(cpus)]
    for part in options.parts:
        words += ["--only", part]
    name = f"python{python.label}"
    one = Run(" ".join([name, *words]))
    begun = time.monotonic()
    text = said_by(
        [python.program, *words],
        PATIENCE + ROUND_TIMES * options.gil_seconds,
    )
    one.seconds = round(time.monotonic() - begun, 3)
    keep_raw(session.folder, name, one.command, text)
    one.extra = read(text)
    return one


def read(text: str) -> dict[str, float]:
    """The figures in a round's JSON, and ``gil``: 1 with one, 0 without.

    Raises LabError if it holds none.
    """
    try:
        said = json.loads(text)
        found = {
            name + UNITS.get(name.split("_")[0], "_per_second"):
            round(float(values[0]), 6)
            for name, values in said["figures"].items()
        }
        gil = float(bool(said["gil"]))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise LabError("the lab did not print its figures") from error
    if not found:
        raise LabError("the lab measured nothing")
    return found | {"gil": gil}


def called(point: Point) -> str:
    """A cell: the interpreter, and whether it has a GIL."""
    return point.server + " no GIL" * (median(point, "gil") == 0)
