"""``./bench.sh labs gil``: lab.py beside this file, on every interpreter.

Each interpreter of the machine runs the lab pinned to one CPU and on two,
a round at a time and in turns. The lab does the measuring; here its
figures become points.
"""

import itertools
import os
import time
from functools import partial

from tools.bench import interpreters, preflight
from tools.bench.experiments.lab import figures_of
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
    "two processes": "efficiency_processes_times",
    "two interpreters": "efficiency_interpreters_times",
    "Lock/s": "lock_per_second",
    "Lock/s + hog": "lock_hog_per_second",
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
    work = [
        (Point(python.label, SUITE, 0, 0.0, variant=f"{n} CPU{'s' * (n > 1)}"),
         partial(one_round, session, python, n))
        for python, n in itertools.product(pythons, CPUS)
        if n <= preflight.core_count()
    ]  # fmt: skip
    session.rounds(work, REPEATS, lambda one: f"{one.seconds:.1f} s")
    session.show(
        {"Python": lambda p: p.server + " no GIL" * (median(p, "gil") == 0),
         "on": lambda p: p.variant}
        | {title: figure(name, "{:.2f}") for title, name in COLUMNS.items()},
        "two threads (and so on): their work, times that of one; hog: a "
        "thread that computes beside them",
    )  # fmt: skip
    return session.status()


def one_round(session: Session, python: Interpreter, cpus: int) -> Run:
    """One round of the lab under an interpreter. Raises LabError."""
    seconds = session.options.gil_seconds
    words = [FILE, "--rounds", "1", "--json", "--seconds", f"{seconds:g}"]
    if hasattr(os, "sched_setaffinity"):
        words += ["--cpus", str(cpus)]
    for part in session.options.parts:
        words += ["--only", part]
    name = python.name
    one, begun = Run(" ".join([name, *words])), time.monotonic()
    text, said = figures_of(
        [python.program, *words], PATIENCE + ROUND_TIMES * seconds
    )
    one.seconds = round(time.monotonic() - begun, 3)
    keep_raw(session.folder, name, one.command, text)
    one.extra = {
        figure + UNITS.get(figure.split("_")[0], "_per_second"):
        round(values[0], 6)
        for figure, values in said["figures"].items()
    } | {"gil": float(said["gil"])}  # 1 with one, 0 without
    return one
