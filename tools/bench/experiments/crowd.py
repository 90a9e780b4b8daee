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

import itertools
from functools import partial

from tools.bench.ab import MANY, Load
from tools.bench.machine import ROOM, raise_open_files
from tools.bench.numbers import number
from tools.bench.session import WORDS, Session, number_option
from tools.bench.table import failures, figure, spread
from tools.data.results import Point
from tools.servers import by_name

HELP = "1,000 and 4,000 clients against one worker of 07 (about 4 minutes)"
CLIENTS = (1000, 4000)
SUITES = {"crowd-new": False, "crowd-keep": True}  # keep-alive?
DELAY = 0.1  # seconds each request waits
SECONDS = 10  # a load
REPEATS = 3
WARM_UP = 2  # requests


OPTIONS = (
    ("--clients", {
        "type": number(1, 100_000), "nargs": "+", "default": CLIENTS,
        "metavar": "N", "help": "how many at once (default: 1000 4000)",
    }),
    number_option("--seconds", 1, 3600, SECONDS, "of each load"), WORDS,
)  # fmt: skip


def measure(session: Session) -> int:
    """Both loads with each number of clients."""
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
    one = partial(
        session.measure, by_name("07"), delay=DELAY, warm_up=WARM_UP,
        name="07", busy=True,
    )
    words = ("--workers", "1", *options.options)
    work = []
    for clients, suite in itertools.product(options.clients, SUITES):
        keep = SUITES[suite]
        load = Load(clients, MANY, options.seconds, keep_alive=keep)
        point = Point(
            "07", suite, clients, DELAY, keep_alive=keep, variant="1 worker"
        )
        work.append((point, partial(one, load, *words)))
    session.rounds(work, REPEATS)
    session.show(
        {
            "load": lambda p: p.suite.removeprefix("crowd-"),
            "clients": lambda p: f"{p.clients:,}",
            "requests/s": spread("requests_per_second"),
            "possible": lambda p: f"{p.possible or 0:,.0f}",
            "failed": failures,
            "server cores": figure("cores", "{:.2f}"),
            "load cores": figure("load_cores", "{:.2f}"),
            "load's limit": figure("load_limit_per_second"),
        },
        "load cores: of the load generator; near 1 it can do no more. "
        "load's limit: requests/s it could make on a core of its own",
    )
    return session.status()
