"""``./bench.sh crowd``: thousands of clients against one worker.

With a delay of 0.1 s every client can get ten answers a second. Whether
all do is decided by the server and by the load generator, so how busy
that is stands beside every figure, as ``load_cores`` (its CPU seconds a
second). It has one thread: near 1 it can do no more, and how much that
would be is ``load_limit_per_second``.

Below that, clients come in waves: those that begin together come back
together after the delay. A wave takes both sides some time, and between
two waves both may have nothing to do.
"""

import argparse
import shutil
from functools import partial

from tools.bench import wrk
from tools.bench.ab import MANY, Load
from tools.bench.experiments.machine import ROOM, raise_open_files
from tools.bench.experiments.session import (
    Session,
    common_options,
    conduct,
    failures,
    figure,
    median,
    number_option,
    spread,
    words_option,
)
from tools.bench.numbers import number
from tools.bench.server import start
from tools.data.results import Point, Run
from tools.servers import by_name

HELP = "1,000 and 4,000 clients against one worker of 07 (about 4 minutes)"
CLIENTS = (1000, 4000)
DELAY = 0.1  # seconds each request waits
SECONDS = 10  # a load
REPEATS = 3
WARM_UP = 2  # requests
BUSY = 0.9  # cores: the generator, with its one thread, is the limit


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    parser.add_argument(
        "--clients", type=number(1, 100_000), nargs="+", default=CLIENTS,
        metavar="N", help="how many at once (default: 1000 4000)",
    )
    number_option(parser, "--seconds", 1, 3600, SECONDS, "of each load")
    words_option(parser)
    common_options(parser, "crowd")


def run(options: argparse.Namespace) -> int:
    """Measure all loads; 1 if one failed."""
    return conduct("crowd", options, measure)


def loads(clients: int, seconds: int) -> dict[str, Load | wrk.Load]:
    """The suites, and the load of each."""
    found: dict[str, Load | wrk.Load] = {
        "crowd-new": Load(clients, MANY, seconds),
        "crowd-keep": Load(clients, MANY, seconds, keep_alive=True),
    }
    if shutil.which("wrk"):
        found["crowd-wrk"] = wrk.Load(clients, seconds)
    return found


def measure(session: Session) -> int:
    """All loads with each number of clients."""
    options, results = session.options, session.results
    most = max(options.clients)
    limit = raise_open_files(most + ROOM)
    results.machine.open_files = limit
    if limit < most + ROOM:
        session.say(
            f"This machine allows a process no more than {limit:,} open "
            f"files: {most:,} clients are not possible."
        )
        return 1
    if shutil.which("wrk"):
        results.tools["wrk"] = wrk.version() or "?"

    def one(load: Load | wrk.Load) -> Run:
        words = ("--workers", "1", *options.options)
        with start(by_name("07"), DELAY, words) as process:
            process.warm_up(WARM_UP)
            return session.load(process, load, name="07", busy=True)

    for clients in options.clients:
        session.rounds(
            [
                (
                    Point(
                        "07", suite, clients, DELAY,
                        keep_alive=load.keep_alive, variant="1 worker",
                    ),
                    partial(one, load),
                )
                for suite, load in loads(clients, options.seconds).items()
            ],
            REPEATS,
        )
    session.show(
        {
            "load": lambda p: p.suite.removeprefix("crowd-"),
            "clients": lambda p: f"{p.clients:,}",
            "requests/s": spread("requests_per_second"),
            "possible": lambda p: f"{p.possible or 0:,.0f}",
            "failed": failures,
            "server cores": figure("cores", "{:.2f}"),
            "load cores": busy,
            "load's limit": figure("load_limit_per_second"),
        },
        "load cores: of the load generator; near 1 it can do no more. "
        "load's limit: requests/s it could make on a core of its own",
    )
    return session.status()


def busy(point: Point) -> str:
    """A cell: how many cores the generator used."""
    cores = median(point, "load_cores") or 0.0
    return f"[yellow]{cores:.2f}[/]" if cores > BUSY else f"{cores:.2f}"
