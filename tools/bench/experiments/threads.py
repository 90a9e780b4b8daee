"""Threads against processes, on interpreters with and without a GIL.

Every request computes a fixed number of loop steps, the same on every
interpreter, and waits for nothing: only cores can make that faster. Each
server runs as it is on each interpreter, 07 with one and with two
workers of both kinds, 03 on one core and on all.
"""

import contextlib
import os
from dataclasses import dataclass, replace
from functools import partial

from tools.bench import interpreters
from tools.bench.ab import MANY, Load
from tools.bench.interpreters import Interpreter, InterpreterError
from tools.bench.session import Refused, Session, number_option
from tools.bench.table import MEGABYTE, figure, spread, title_of
from tools.data.results import Point, Run
from tools.servers import Server, by_name

HELP = (
    "threads against processes, with and without a GIL (about 3 minutes "
    "for each interpreter)"
)
SUITE = "threads"
REPEATS = 5
STEPS = 20_000  # loop steps a request computes
STEPS_SECONDS = 0.001  # with --calibrate: a request computes so long
SECONDS = 3  # one run
CLIENTS = 10
NAMES = ("python3.13t", "python3.14t", "python3.14", "python3.13")

# What a server gains from is compared with the same, alone.
ALONE = {
    "a thread each": "a thread each, one core", "2 threads": "1 thread",
    "2 processes": "1 process",
}

# Loads a server with all it imports, but does not start it. A build
# without a GIL can run with one all the same, because of PYTHON_GIL or an
# extension.
HAS_GIL = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
runpy.run_path(sys.argv[1], run_name="loaded")
print(int(getattr(sys, "_is_gil_enabled", lambda: True)()))
"""


@dataclass(frozen=True)
class Case:
    """A server on an interpreter in one arrangement.

    how: the arrangement in words; options: of its command line;
    one_core: the whole server is kept on one core.
    """

    interpreter: Interpreter
    server: Server
    how: str
    options: tuple[str, ...] = ()
    one_core: bool = False

    @property
    def variant(self) -> str:
        """What sets its point apart from the others of the server."""
        return f"{self.interpreter.label}, {self.how}"


OPTIONS = (
    ("--pythons", {
        "metavar": "PATH[,PATH...]",
        "help": "the interpreters (default: the one that runs this, and "
        f"{', '.join(NAMES)} if they are on the PATH)",
    }),
    number_option(
        "--steps", 1, 10**9, None, "loop steps each request computes, the "
        f"same on every interpreter (default: {STEPS})",
    ),
    ("--calibrate", {
        "action": "store_true",
        "help": "instead, on each interpreter as many steps as take "
        f"{1000 * STEPS_SECONDS:g} ms there",
    }),
    number_option("--seconds", 1, 600, SECONDS, "one run takes"),
    number_option("--clients", 1, 1000, CLIENTS, "at a time"),
)  # fmt: skip


def measure(session: Session) -> int:
    """Every case on every interpreter."""
    options = session.options
    if options.steps and options.calibrate:
        raise Refused("either --steps or --calibrate says how many steps")
    pythons = interpreters.choose(options.pythons, NAMES)
    session.note_pythons(pythons)
    load = Load(options.clients, MANY, options.seconds)
    work = []
    for python in pythons:
        steps = options.steps or STEPS
        if options.calibrate:
            steps = interpreters.steps_in(python.program, STEPS_SECONDS)
        for case in cases_of(python):
            point = Point(
                case.server.name, SUITE, load.clients, 0.0, compute=steps,
                variant=case.variant,
            )
            has = has_gil(case)
            one = partial(measure_one, session, case, steps, load, has)
            work.append((point, one))
    session.rounds(work, REPEATS)
    session.show(
        {
            "server": lambda p: p.server,
            "interpreter, how": lambda p: p.variant,
            "GIL": gil,
            "requests/s": spread("requests_per_second"),
            "gain": lambda p: gain(p, session.points),
            "CPU ms": figure("cpu_ms", "{:.3f}"),
            "cores": figure("cores", "{:.2f}"),
            "MB": figure("peak_memory", "{:.1f}", MEGABYTE),
        },
        "gain: requests/s against the same server on one core or with one "
        "worker of the same kind; CPU ms: for each request",
    )
    return session.status()


def has_gil(case: Case) -> float | None:
    """1.0 if the server's process has a GIL, 0.0 if not, None: unknown.

    A second process is asked that has loaded the same files, because
    the servers themselves offer no way to ask.
    """
    program, file = case.interpreter.program, str(case.server.path)
    with contextlib.suppress(InterpreterError, ValueError):
        return float(interpreters.ask(program, HAS_GIL, file))
    return None


def cases_of(python: Interpreter) -> list[Case]:
    """What is measured on one interpreter."""
    three, six, seven = by_name("03"), by_name("06"), by_name("07")
    cases = [
        Case(python, three, "a thread each"), Case(python, six, "one loop"),
    ]
    if hasattr(os, "sched_setaffinity"):
        alone = Case(python, three, "a thread each, one core", one_core=True)
        cases.insert(0, alone)
    for how in ("1 thread", "2 threads", "1 process", "2 processes"):
        kind = "thread" if "thread" in how else "process"
        words = ("--workers", how[0], "--worker-kind", kind)
        cases.append(Case(python, seven, how, words))
    return cases


def measure_one(
    session: Session, case: Case, steps: int, load: Load,
    has_gil: float | None,
) -> Run:
    """One run against a fresh server. Raises ServerError."""
    name = f"python{case.interpreter.label}"
    done = session.measure(
        case.server, load, "--compute", str(steps), *case.options,
        python=case.interpreter.program, one_core=case.one_core,
        name=f"{case.server.name}, {case.variant}",
    )
    done.command = done.command.replace("python3", name, 1)
    if has_gil is not None:
        done.extra["gil"] = has_gil
    return done


def gil(point: Point) -> str:
    """A cell: had it a GIL?"""
    return {"1": "yes", "0": "no"}.get(figure("gil")(point), "")


def gain(point: Point, points: list[Point]) -> str:
    """A cell: throughput against the same with one core or one worker."""
    label, _, how = point.variant.partition(", ")
    alone = title_of(replace(point, variant=f"{label}, {ALONE.get(how)}"))
    for other in points:
        before = other.median("requests_per_second")
        if title_of(other) == alone and before:
            return figure("requests_per_second", "{:.2f}", before)(point)
    return ""
