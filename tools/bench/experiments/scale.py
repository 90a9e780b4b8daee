"""``./bench.sh scale``: does a second worker do a second core's work?

A request costs about a millisecond of computing and does not wait. So a
core answers a little less than a thousand a second, whoever serves, and
more than that needs another core: 07 with 1 worker, 2 workers and so on,
and 03, whose threads share one GIL, kept on one core and on all of them.

Each request has a connection of its own. The kernel deals connections
out to the workers by a hash, without looking at who is busy, and what it
has dealt stays: few connections that are kept open may go 6 to 2, and
the figure then says how the hash fell. New ones are dealt again and
again. Even so a worker can run out of work while the other has a queue;
with many clients for each worker that is rare.
"""

import sys
from dataclasses import dataclass
from functools import partial

import psutil

from tools.bench import interpreters, preflight
from tools.bench.ab import MANY, Load
from tools.bench.session import Session, number_option
from tools.bench.table import figure, spread, title_of
from tools.data.results import Point, Run
from tools.servers import Server, by_name

HELP = "1 ms of computing a request: 07 on 1, 2 ... cores, and 03 (3 minutes)"
SUITE = "scale"
CLIENTS = 64
SECONDS = 5  # a load
REPEATS = 5
WARM_UP = 50  # requests
COMPUTE_SECONDS = 0.001  # a request
# The variants that speed-ups are counted from.
BASELINES = {"03": "1 core", "07": "1 worker"}


@dataclass(frozen=True)
class Case:
    """A server in one arrangement; one_core: keep all of it on one."""

    server: Server
    variant: str
    options: tuple[str, ...] = ()
    one_core: bool = False


def cases(cores: int) -> list[Case]:
    """What is compared on so many cores."""
    seven, three = by_name("07"), by_name("03")
    found = [
        Case(seven, _count(number, "worker"), ("--workers", str(number)))
        for number in range(1, cores + 1)
    ]
    if hasattr(psutil.Process, "cpu_affinity"):  # not on macOS
        found.append(Case(three, "1 core", one_core=True))
    if cores > 1:
        found.append(Case(three, _count(cores, "core")))
    return found


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}"


OPTIONS = (
    number_option("--clients", 1, 1000, CLIENTS, "how many at once"),
    number_option("--seconds", 1, 3600, SECONDS, "of each load"),
    number_option(
        "--compute", 1, 10**9, None,
        "loop steps a request (default: as many as take 1 ms here)",
    ),
)


def measure(session: Session) -> int:
    """Every case, and how many times faster than its baseline it is."""
    options = session.options
    cores = preflight.core_count()
    steps = options.compute or interpreters.steps_in(
        sys.executable, COMPUTE_SECONDS
    )
    session.say(f"--compute {steps} takes about a millisecond here.")
    if cores == 1:
        session.say("There is one core: there is nothing to compare.")
    load = Load(options.clients, MANY, options.seconds)

    def one(case: Case, point: Point) -> Run:
        done = session.measure(
            case.server, load, *case.options, "--compute", str(steps),
            warm_up=WARM_UP, one_core=case.one_core, name=case.server.name,
            busy=True,
        )
        speed_up(done, session.points, case, len(point.runs))
        return done

    work = []
    for case in cases(cores):
        point = Point(
            case.server.name, SUITE, load.clients, 0.0, steps,
            variant=case.variant,
        )
        work.append((point, partial(one, case, point)))
    session.rounds(work, REPEATS)
    session.show(
        {
            "server": title_of,
            "requests/s": spread("requests_per_second"),
            "times one": spread("speed_up_times", "{:.2f}"),
            "server cores": figure("cores", "{:.2f}"),
            "load cores": figure("load_cores", "{:.2f}"),
        }
    )
    return session.status()


def speed_up(one: Run, points: list[Point], case: Case, turn: int) -> None:
    """Note how many times faster it is than its baseline.

    Than its run of the same turn (from 0): both had the same
    disturbances.
    """
    baseline = BASELINES[case.server.name]
    if case.variant == baseline or one.requests_per_second is None:
        return
    for point in points:
        if title_of(point) == f"{case.server.name}, {baseline}":
            for run in point.runs[turn : turn + 1]:
                if run.requests_per_second:
                    times = one.requests_per_second / run.requests_per_second
                    one.extra["speed_up_times"] = round(times, 4)
