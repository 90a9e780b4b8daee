"""Which Python: 06 and 07 on every interpreter of this machine.

Only the server runs on it, and only its CPU time per request is compared:
the load takes the other core, whatever serves.
"""

import contextlib
from functools import partial

from tools.bench import interpreters
from tools.bench.ab import MANY, Load
from tools.bench.interpreters import Interpreter, InterpreterError, numbers
from tools.bench.session import Refused, Session, number_option
from tools.bench.table import figure, spread
from tools.data.results import Point
from tools.servers import by_name

HELP = (
    "06 and 07 on each Python of this machine (about a minute for each of "
    "them)"
)
SUITES = {"pythons-keep": True, "pythons-new": False}  # keep-alive?
REPEATS = 5
SECONDS = 2  # one run
CLIENTS = 50
DISTRIBUTION = "/usr/bin/python3"
OLDEST = [3, 11]  # on which the servers run
SERVERS = {"06": (), "07": ("--workers", "1")}
OPTIONS = (
    ("--python", {
        "metavar": "PATH[,PATH...]", "dest": "pythons",
        "help": "the interpreters (default: all that are found, from 3.11 "
        "on)",
    }),
    number_option("--seconds", 1, 600, SECONDS, "one run takes"),
)  # fmt: skip


def measure(session: Session) -> int:
    """Both servers under both loads, on every interpreter in turns."""
    options = session.options
    pythons = interpreters.choose(options.pythons)
    if options.pythons is None:
        pythons = with_distribution(pythons)
    pythons = [each for each in pythons if numbers(each)[:2] >= OLDEST]
    if not pythons:
        raise Refused("none of these interpreters is 3.11 or newer")
    session.note_pythons(pythons)
    work = []
    for suite, keep in SUITES.items():
        load = Load(CLIENTS, MANY, options.seconds, keep_alive=keep)
        for name, words in SERVERS.items():
            for python in pythons:
                point = Point(
                    name, suite, CLIENTS, 0.0, keep_alive=keep,
                    variant=f"{python.version}, {python.build}",
                )
                one = partial(
                    session.measure, by_name(name), load, *words,
                    python=python.program, name=f"{name}, {point.variant}",
                )
                work.append((point, one))
    session.rounds(work, REPEATS)
    for suite in SUITES:
        points = session.results.suite(suite)
        first = {p.server: p.median("cpu_ms") or 1.0 for p in points[::-1]}

        def against(point: Point, first: dict[str, float] = first) -> str:
            return figure("cpu_ms", "{:.2f}", first[point.server])(point)

        session.show(
            {
                "server": lambda p: p.server,
                "Python": lambda p: p.variant,
                "CPU us/request": spread("cpu_ms", "{:.2f}", 0.001),
                "of the first": against,
            },
            points=points, title=suite,
        )
    return session.status()


def with_distribution(found: list[Interpreter]) -> list[Interpreter]:
    """These, and the system's own Python if that was built otherwise."""
    with contextlib.suppress(InterpreterError):
        system = interpreters.identify(DISTRIBUTION)
        if (system.label, system.optimised) not in [
            (each.label, each.optimised) for each in found
        ]:
            found = sorted([*found, system], key=interpreters.order)
    return found
