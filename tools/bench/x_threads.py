"""Threads against processes, on interpreters with and without a GIL.

Every request computes a fixed number of loop steps, the same on every
interpreter, and waits for nothing: only cores can make that faster. Each
server runs as it is on each interpreter, 07 with one and with two
workers of both kinds, 03 on one core and on all. The repeats are
interleaved, so that what disturbs the machine disturbs all alike.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench import server as servers
from tools.bench.ab import MANY, AbError, Load, parse
from tools.bench.cost import Meter
from tools.bench.numbers import formatted, whole
from tools.bench.outcome import add, keep_raw, take_cost, take_report
from tools.bench.run import PROGRAMS, SHOWN, fault, run_load, summary
from tools.data.results import Point, Results, Run
from tools.servers import Server, by_name

ABOUT = (
    "threads against processes, with and without a GIL (about 3 minutes "
    "for each interpreter)"
)
SUITE = "threads"
REPEATS = 5
STEPS = 20_000  # loop steps a request computes
STEPS_SECONDS = 0.001  # with --calibrate: a request computes so long
SECONDS = 3  # one run
CLIENTS = 10
WARM_UP = 20  # requests
GRACE_SECONDS = 5.0  # for ab to end after its -t
ASK_SECONDS = 30.0  # for an interpreter to answer a question
NAMES = ("python3.13t", "python3.14t", "python3.14", "python3.13")
MEGABYTE = 1_000_000

# Asked of an interpreter: what it is. A free-threaded build can run with
# a GIL all the same, because of PYTHON_GIL or an extension.
WHO = """
import json, platform, sys, sysconfig
print(json.dumps({
    "program": sys.executable,
    "version": platform.python_version(),
    "minor": "%d.%d" % sys.version_info[:2],
    "free": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "optimised": "--enable-optimizations"
    in (sysconfig.get_config_var("CONFIG_ARGS") or ""),
}))
"""
# Loads a server with all it imports, but does not start it.
HAS_GIL = """
import os, runpy, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
runpy.run_path(sys.argv[1], run_name="loaded")
print(int(getattr(sys, "_is_gil_enabled", lambda: True)()))
"""
# Loop steps a second, the best of several goes.
SPEED = """
import time
def compute(steps):
    for _ in range(steps):
        pass
best = 9e9
for _ in range(20):
    begun = time.perf_counter()
    compute(200_000)
    best = min(best, time.perf_counter() - begun)
print(200_000 / best)
"""


class InterpreterError(Exception):
    """An interpreter that cannot be used; the text says why."""


@dataclasses.dataclass(frozen=True)
class Interpreter:
    """A Python to measure with.

    program: its path; label: how it is called in the results, such as
    "3.13t"; version: such as "3.13.5"; free: built without a GIL;
    optimised: built with --enable-optimizations.
    """

    program: str
    label: str
    version: str
    free: bool
    optimised: bool = False

    @property
    def described(self) -> str:
        """Its version and build in words."""
        threads = "free-threaded" if self.free else "with the GIL"
        build = "optimised" if self.optimised else "plain"
        return f"{self.version}, {threads}, {build} build"


@dataclasses.dataclass(frozen=True)
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``./bench.sh threads``."""
    parser.add_argument(
        "--pythons", metavar="PATH[,PATH...]",
        help="the interpreters (default: the one that runs this, and "
        f"{', '.join(NAMES)} if they are on the PATH)",
    )
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "--steps", type=whole(1, 10**9), default=STEPS, metavar="N",
        help="loop steps each request computes, the same on every "
        f"interpreter (default: {STEPS})",
    )
    load.add_argument(
        "--calibrate", action="store_true",
        help="instead, on each interpreter as many steps as take "
        f"{1000 * STEPS_SECONDS:g} ms there",
    )
    parser.add_argument(
        "--seconds", type=whole(1, 600), default=SECONDS, metavar="N",
        help=f"how long one run takes (default: {SECONDS})",
    )
    parser.add_argument(
        "--clients", type=whole(1, 1000), default=CLIENTS, metavar="N",
        help=f"clients at a time (default: {CLIENTS})",
    )


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure every case, save after each run, print a table.

    Returns 0; 1 if a server failed on an interpreter; 2 with a sentence
    if an interpreter cannot be used.
    """
    try:
        pythons = interpreters(options.pythons)
        steps = {
            python: calibrate(python) if options.calibrate else options.steps
            for python in pythons
        }
    except InterpreterError as error:
        print(f"bench.sh: {error}", file=sys.stderr)
        return 2
    results.command = command(options, pythons)
    for python in pythons:
        results.tools[f"python{python.label}"] = python.described
        console.print(f"[dim]- python{python.label}: {python.described}")
    load = Load(options.clients, MANY, options.seconds)
    todo = [
        (case, _point(case, load.clients, steps[python]), has_gil(case))
        for python in pythons
        for case in cases_of(python)
    ]
    repeats = options.repeats or REPEATS
    for number in range(1, repeats + 1):
        for case, point, gil in todo:
            console.print(
                f"[bold]{point.server}[/], {point.variant}, "
                f"run {number} of {repeats}"
            )
            one = measure(case, point.compute, load, results.load, folder)
            if gil is not None:
                one.extra["gil"] = gil
            console.print(f"  {escape(summary(one))}", soft_wrap=True)
            add(results, point, one)
            results.save(folder)
    show(results, console)
    bad = any(point.status == "failed" for point in results.points)
    return 1 if bad else 0


def _point(case: Case, clients: int, steps: int) -> Point:
    return Point(
        case.server.name, SUITE, clients, 0.0, compute=steps,
        variant=case.variant,
    )


# Interpreters -------------------------------------------------------------


def interpreters(paths: str | None) -> list[Interpreter]:
    """Those of --pythons, or those that are here; each one once.

    Raises InterpreterError for one that is missing or does not run.
    """
    if paths is None:
        this = identify(sys.executable)
        by_label = {this.label: this}
        for name in filter(shutil.which, NAMES):
            # A version manager has commands for what is not there.
            with contextlib.suppress(InterpreterError):
                python = identify(name)
                by_label.setdefault(python.label, python)
        return list(by_label.values())
    words = [word.strip() for word in paths.split(",") if word.strip()]
    if not words:
        raise InterpreterError("--pythons names no interpreter")
    found = []
    for word in words:
        program = shutil.which(word)
        if program is None:
            raise InterpreterError(f"there is no interpreter {word}")
        found.append(identify(program))
    return tell_apart(found)


def identify(program: str) -> Interpreter:
    """Ask an interpreter what it is. Raises InterpreterError."""
    try:
        answer = json.loads(_ask(program, WHO))
        return Interpreter(
            answer["program"],
            answer["minor"] + "t" * answer["free"],
            answer["version"],
            answer["free"],
            answer["optimised"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InterpreterError(
            f"{program} is not a Python interpreter"
        ) from error


def tell_apart(found: list[Interpreter]) -> list[Interpreter]:
    """Longer labels where two are alike, such as 3.13.5t.

    Raises InterpreterError for two of one version and kind.
    """
    labels = [python.label for python in found]
    longer = [
        python
        if labels.count(python.label) == 1
        else dataclasses.replace(
            python, label=python.version + "t" * python.free
        )
        for python in found
    ]
    labels = [python.label for python in longer]
    for label in labels:
        if labels.count(label) > 1:
            raise InterpreterError(
                f"two of the interpreters are Python {label}: name one"
            )
    return longer


def calibrate(python: Interpreter) -> int:
    """Loop steps that take STEPS_SECONDS. Raises InterpreterError."""
    return max(int(float(_ask(python.program, SPEED)) * STEPS_SECONDS), 1)


def has_gil(case: Case) -> float | None:
    """1.0 if the server's process has a GIL, 0.0 if not, None: unknown.

    A second process is asked that has loaded the same files, because
    the servers themselves offer no way to ask.
    """
    program = case.interpreter.program
    try:
        return float(_ask(program, HAS_GIL, str(case.server.path)))
    except (InterpreterError, ValueError):
        return None


def _ask(program: str, code: str, *arguments: str) -> str:
    """What the code prints. Raises InterpreterError."""
    try:
        done = subprocess.run(
            [program, "-c", code, *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=ASK_SECONDS, check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InterpreterError(
            f"the interpreter {program} does not work"
        ) from error
    return done.stdout


def command(
    options: argparse.Namespace, pythons: list[Interpreter]
) -> str:
    """The command with the interpreters by name, not by local path."""
    words = ["./bench.sh", SUITE, "--pythons"]
    words.append(",".join(f"python{python.label}" for python in pythons))
    if options.calibrate:
        words.append("--calibrate")
    else:
        words += ["--steps", str(options.steps)]
    words += ["--seconds", str(options.seconds)]
    words += ["--clients", str(options.clients)]
    return " ".join([*words, "--repeats", str(options.repeats or REPEATS)])


# Measuring ----------------------------------------------------------------


def cases_of(python: Interpreter) -> list[Case]:
    """What is measured on one interpreter."""
    three, six, seven = by_name("03"), by_name("06"), by_name("07")
    cases = [
        Case(python, three, "a thread each, one core", one_core=True),
        Case(python, three, "a thread each"),
        Case(python, six, "one loop"),
    ]
    if not hasattr(os, "sched_setaffinity"):
        del cases[0]
    for kind, several in (("thread", "threads"), ("process", "processes")):
        for number in (1, 2):
            words = ("--workers", str(number), "--worker-kind", kind)
            how = f"{number} {kind if number == 1 else several}"
            cases.append(Case(python, seven, how, words))
    return cases


def measure(
    case: Case, steps: int, load: Load, program: str, folder: Path
) -> Run:
    """One run against a fresh server; program: "ab" or "python"."""
    name = f"python{case.interpreter.label}"
    options = ("--compute", str(steps), *case.options)
    one = Run(f"{name} {case.server.file} --delay 0 {' '.join(options)}")
    try:
        with servers.start(
            case.server, 0.0, options, case.interpreter.program
        ) as process:
            # Threads that start later stay on the core of the first.
            if case.one_core:
                _keep_on_one_core(process.pid)
            process.warm_up(WARM_UP)
            one.command = process.command.replace("python3", name, 1)
            shown = " ".join(load.command(process.url, SHOWN[program]))
            one.command += f"\n{shown}"
            words = load.command(process.url, PROGRAMS[program])
            meter = Meter(process)
            patience = (load.seconds or 0) + GRACE_SECONDS
            text, late = run_load(words, patience, meter.sample)
            cost = meter.read()
            keep_raw(folder, raw_name(case), one.command, text)
            fill(one, text, late)
            take_cost(one, cost)
            if process.status() is not None:
                one.error = f"the server died: {process.last_words()}"
    except servers.ServerError as error:
        one.error = str(error)
    return one


def _keep_on_one_core(pid: int) -> None:
    with contextlib.suppress(psutil.Error):
        one = psutil.Process(pid)
        one.cpu_affinity((one.cpu_affinity() or [0])[:1])


def fill(one: Run, text: str, late: bool) -> None:
    """The load generator's figures into a run."""
    try:
        report = parse(text)
    except AbError as error:
        one.requests, one.error = error.requests, str(error)
        return
    take_report(one, report)
    one.error = fault(report, late)


def raw_name(case: Case) -> str:
    """What the file of a case's raw outputs is called."""
    name = case.variant.replace(", ", "-").replace(" ", "-")
    return f"{case.server.name}-{name}"


# The table ----------------------------------------------------------------


def show(results: Results, console: Console) -> None:
    """A row for each point: speed, gain over one worker, cost."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("server")
    table.add_column("interpreter, how")
    for title in ("GIL", "requests/s", "gain", "CPU ms", "cores", "MB"):
        table.add_column(title, justify="right")
    points = results.suite(SUITE)
    for point in points:
        if point.status != "ok":
            table.add_row(point.server, point.variant, "", point.status)
            continue
        gil = point.median("gil")
        low, high = point.spread("requests_per_second") or (0.0, 0.0)
        table.add_row(
            point.server,
            point.variant,
            "" if gil is None else "yes" if gil else "no",
            f"{point.median('requests_per_second'):,.0f} "
            f"[dim]{low:,.0f}-{high:,.0f}",
            formatted(gain(point, points), "{:.2f}"),
            formatted(point.median("cpu_ms"), "{:.3f}"),
            formatted(point.median("cores"), "{:.2f}"),
            formatted(point.median("peak_memory"), "{:.1f}", MEGABYTE),
        )
    console.print(table)
    console.print(
        "[dim]gain: requests/s against the same server on one core or "
        "with one worker of the same kind; CPU ms: for each request"
    )
    for point in points:
        if point.status != "ok":
            console.print(
                f"{point.server}, {point.variant}: {escape(point.reason)}"
            )


def gain(point: Point, points: list[Point]) -> float | None:
    """Throughput against the same with one core or one worker."""
    label, _, how = point.variant.partition(", ")
    alone = {
        "a thread each": "a thread each, one core",
        "2 threads": "1 thread",
        "2 processes": "1 process",
    }.get(how)
    for other in points:
        if (other.server, other.variant) == (
            point.server, f"{label}, {alone}"
        ):
            before = other.median("requests_per_second")
            after = point.median("requests_per_second")
            return after / before if before and after else None
    return None
