"""``./bench.sh labs condition``: lab.py beside this file, kind by kind.

Each interpreter with each kind of Condition, then what needs no Python:
the same pair in C, and a GIL in three designs. Each pinned to one CPU and
on two, a round at a time and in turns.
"""

import itertools
import os
import sys
import tempfile
import time
from functools import partial

from labs.condition import lab
from labs.gil.lab import LabError
from tools.bench import interpreters, preflight
from tools.bench.experiments.lab import figures_of
from tools.bench.interpreters import Interpreter, identify
from tools.bench.outcome import keep_raw
from tools.bench.session import Session, number_option
from tools.bench.table import spread, title_of
from tools.data.results import Point, Run

HELP = (
    "a Condition in C, in three designs, on every interpreter, and three "
    "kinds of GIL (2 minutes, and 1 for each interpreter)"
)
SUITE = "labs-condition"
MODULE = "labs.condition.lab"
REPEATS = 5
CPUS = (1, 2)
PATIENCE = 60.0  # seconds for one run, and four times --condition-seconds
OPTIONS = (  # --pythons is that of all labs
    number_option(
        "--condition-seconds", 0.05, 60, lab.SECONDS,
        "that a measurement lasts", float,
    ),
)  # fmt: skip


def measure(session: Session) -> int:
    """Every kind on one CPU and on two; what needs cc only with it."""
    pythons = interpreters.choose(session.options.pythons)
    session.note_pythons(pythons)
    cases = [
        *((kind, python, python.label) for python in pythons
          for kind in (*lab.OWN, *lab.DESIGNS)),
        *((kind, identify(sys.executable), "C")
          for kind in (*lab.IN_C, *lab.GILS)),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        library = ""
        try:
            library = lab.build(folder)
        except LabError as error:
            session.say(f"[dim]- {error}")
            cases = [case for case in cases if case[0] in lab.OWN]
        session.rounds([
            (Point(kind.removeprefix("C-"), SUITE, 0, 0.0,
                   variant=f"{runner}, {cpus} CPU{'s' * (cpus > 1)}"),
             partial(one_run, session, python, kind, cpus, library))
            for (kind, python, runner), cpus in itertools.product(cases, CPUS)
            if cpus <= preflight.core_count()
        ], REPEATS, lambda one: ", ".join(
            f"{name} {value:,.4g}" for name, value in one.extra.items()
        ))  # fmt: skip
    session.show(
        {"on": title_of,
         "alone/s": spread("handed_per_second"),
         "+ hog/s": spread("handed_hog_per_second"),
         "switches": spread("switches_per_hand_over", "{:.1f}"),
         "hog left": spread("hog_left_times", "{:.2f}"),
         "two hogs": spread("two_hogs_times", "{:.2f}")},
        "hand-overs; hog: a thread that computes; switches: threads that go "
        "to sleep for a hand-over; what the pair leaves the hog, and what two "
        "hogs do, times what one does",
    )  # fmt: skip
    return session.status()


def one_run(
    session: Session, python: Interpreter, kind: str, cpus: int, library: str
) -> Run:
    """One kind of pair or GIL, once. Raises LabError."""
    seconds = session.options.condition_seconds
    words = ["-m", MODULE, "--json", "--only", kind, "--seconds",
             f"{seconds:g}"]  # fmt: skip
    if hasattr(os, "sched_setaffinity"):
        words += ["--cpus", str(cpus)]
    name = f"python{python.label}"
    one, begun = Run(" ".join([name, *words])), time.monotonic()
    if library:
        words += ["--library", library]
    text, said = figures_of(
        [python.program, *words], PATIENCE + 4 * seconds
    )
    one.seconds = round(time.monotonic() - begun, 3)
    keep_raw(session.folder, f"{name} {kind}", one.command, text)
    one.extra = {
        name: round(value, 6) for name, value in said["figures"][kind].items()
    } | {"gil": float(said["gil"])}  # 1 with one, 0 without
    return one
