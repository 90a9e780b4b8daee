"""``./bench.sh labs database``: PostgreSQL behind the servers.

lab.py beside this file asks a database where the servers sleep. Here
one is started in a folder of its own, and clients ask each handler. Five
parts: a query that sleeps, one that sleeps for long, so that connections
run out, one that computes, a connection for each request, and a
transaction that a client leaves open.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from labs.database.load import GAVE_UP
from labs.database.postgres import ROLE, Postgres, postgres, version
from tools.bench.load import run_load
from tools.bench.outcome import keep_raw
from tools.bench.peers import start
from tools.bench.server import Running, ServerError
from tools.bench.session import Refused, Session, number_option, some_of
from tools.bench.table import figure, title_of
from tools.common.launch import eventually
from tools.data.results import Point, Run
from tools.peers import PYTHON, Peer
from tools.servers import ROOT

HELP = (
    "PostgreSQL behind threads, a pool and asyncio, instead of a sleep "
    "(about 5 minutes)"
)
FILE = "labs/database/lab.py"
LOAD = "labs.database.load"
DRIVER = Peer(
    "psycopg", "", "", (PYTHON,),
    ("psycopg", "psycopg-binary", "psycopg-pool"), "psycopg_pool",
)
LIMIT = 100  # PostgreSQL's max_connections, as it comes
SECONDS = 2.0  # in which the requests of a load begin
PATIENCE = 15.0  # seconds until a client gives up
SLEEP = 0.1  # seconds, of the query that sleeps
COUNT_SECONDS = 0.3  # between two looks at the open connections
PARTS = ("sleep", "limit", "report", "connect", "vanish")
CHANGING = (*("/?lookup",) * 4, "/?write")  # asked for in turns
VANISH_PATIENCE = 2.0  # seconds
BEFORE_SECONDS = 1.0  # until the client vanishes
TIMEOUT_SECONDS = 2.0  # idle_in_transaction_session_timeout
# What becomes of the client -> the signal that it gets, the time-out.
VANISHING = {
    "nobody vanishes": (None, 0.0),
    "killed": (signal.SIGKILL, 0.0),
    "stopped, time-out": (signal.SIGSTOP, TIMEOUT_SECONDS),
    "stopped, no time-out": (signal.SIGSTOP, 0.0),
}
TABLE = f"""
create table items (id integer primary key, name text, price integer);
insert into items select n, 'item ' || n, n % 1000
    from generate_series(1, 100000) as n;
analyze items;
grant select, update on items to {ROLE};
"""

OPTIONS = (
    ("--database-parts", {
        "metavar": "LIST", "type": some_of(PARTS, "part"), "default": PARTS,
        "help": f"measure only these of {', '.join(PARTS)}",
    }),
    number_option(
        "--database-seconds", 0.1, 60, SECONDS, "in which requests begin",
        float,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One load on one handler.

    connections: of its pool, 0: one for each request; targets: what the
    clients ask for in turns; vanishing: what becomes of another client.
    """

    part: str
    handler: str
    connections: int
    clients: int
    targets: tuple[str, ...]
    vanishing: str = ""

    @property
    def point(self) -> Point:
        """Its place in the results."""
        number = self.connections
        pool = f"{number or 'one a'} {'connection' if number else 'request'}"
        return Point(
            self.handler, f"db-{self.part}", self.clients,
            SLEEP if self.part == "sleep" else 0.0,
            variant=self.vanishing or pool + "s" * (number > 1),
        )


CASES = [
    *(Case("sleep", *pool, clients, ("/?sleep",))
      for pool in (  # handlers, with the connections of their pools
          ("03", 0), ("03", 10), ("03-pool", 10), ("06-blocking", 10),
          ("06-executor", 10), ("06-async", 10), ("06-async", 50))
      for clients in (1, 10, 50, 100, 500)),
    *(Case("limit", *pool, 200, ("/?slow",))
      for pool in (("03", 0), ("06-async", 10), ("06-async", 50))),
    *(Case("report", "06-async", number, 50, ("/?report",))
      for number in (1, 2, 5, 10, 50)),
    *(Case("connect", "06-async", number, 10, ("/?lookup",))
      for number in (0, 10)),
    *(Case("vanish", "06-async", 10, 20, CHANGING, each)
      for each in VANISHING),
]  # fmt: skip


def measure(session: Session) -> int:
    """Start the database, measure every case against it."""
    options = session.options
    session.results.tools["PostgreSQL"] = version()
    for why in start.missing([DRIVER], session.say).values():
        raise Refused(why)
    session.results.tools.update(start.versions([DRIVER]))
    with postgres(LIMIT) as database:
        database.sql(TABLE)
        session.rounds([
            (case.point, partial(measure_one, session, database, case))
            for case in CASES if case.part in options.database_parts
        ], 1)
    session.show({
        "handler": title_of,
        "query": lambda p: p.suite.removeprefix("db-"),
        "clients": lambda p: f"{p.clients}",
        "responses/s": figure("requests_per_second"),
        "p50 ms": figure("p50"),
        "p99 ms": figure("p99"),
        "refused": figure("refused"),
        "gave up": figure("gave_up"),
        "open": figure("connections"),
        "no response s": figure("gap_seconds", "{:.1f}"),
    }, "open: connections at the database; no response: the longest time")
    return session.status()


def measure_one(session: Session, database: Postgres, case: Case) -> Run:
    """One case against a fresh server. Raises ServerError, OSError."""
    words = [FILE, case.handler, "--connections", str(case.connections)]
    seconds, patience = session.options.database_seconds, PATIENCE
    if case.vanishing:
        seconds += BEFORE_SECONDS + 2 * TIMEOUT_SECONDS
        patience = VANISH_PATIENCE
    load = [
        "-m", LOAD, str(case.clients), f"{seconds:g}", f"{patience:g}",
        *case.targets,
    ]
    one = Run("\n".join(
        " ".join(["python3", *each]) for each in (words, load)
    ))
    place = ["--database", database.where, "--port", "0"]
    if case.handler == "03-pool":
        words += ["--workers", str(case.connections)]
    with (
        contextlib.ExitStack() as later,
        Running([str(start.PYTHON), *words, *place], ROOT) as process,
    ):
        # In the end, nobody is connected any more.
        later.callback(eventually, lambda: not database.connections())
        watch = Watch(database, process)
        if case.vanishing:
            number, after = VANISHING[case.vanishing]
            database.sql(
                f"alter role {ROLE} set idle_in_transaction_session_timeout "
                f"= {1000 * after:.0f}"
            )
            if number is not None:
                watch.then = partial(leave_open, later, database, number)
        load[2:2] = [str(process.port)]
        text, _ = run_load(
            [sys.executable, *load], seconds + patience + PATIENCE, watch
        )
        process.kill()  # it may be busy for clients that are gone
    keep_raw(session.folder, case.handler, one.command, text)
    fill(one, text, watch)
    return one


class Watch:
    """Looks at the server and the database now and then."""

    def __init__(self, database: Postgres, process: Running) -> None:
        self.database, self.process = database, process
        self.begun = self.looked = time.monotonic()
        self.connections = self.threads = 0
        self.then: Callable[[], object] | None = None  # once, after a while

    def __call__(self) -> None:
        """Look, if it is time to."""
        now = time.monotonic()
        if self.then and now > self.begun + BEFORE_SECONDS:
            self.then()
            self.then = None
        if now > self.looked + COUNT_SECONDS:
            self.looked = now
            there = self.database.connections()
            self.connections = max(self.connections, there)
            self.threads = max(self.threads, self.process.threads())


def leave_open(
    later: contextlib.ExitStack, database: Postgres, number: int
) -> None:
    """Let somebody change a row, and then get this signal.

    Killed, its connection is closed by the kernel. Stopped, it says
    nothing any more and closes nothing, as if its cable were pulled.
    """
    other = subprocess.Popen(
        [str(database.programs / "psql"), *database.login(ROLE)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        **database.how,
    )
    later.enter_context(other)
    later.callback(other.kill)
    assert other.stdin and other.stdout
    print("begin; update items set price = 0 where id = 1;", file=other.stdin)
    while other.stdout.readline() not in ("UPDATE 1\n", ""):
        pass
    os.kill(other.pid, number)


def fill(one: Run, text: str, watch: Watch) -> None:
    """What the load and the watch say, into a run. Raises ServerError."""
    try:
        said = json.loads(text)
    except ValueError as error:
        raise ServerError("the load has printed no figures") from error
    errors: dict[str, int] = said["errors"]
    refused = sum(
        number for why, number in errors.items()
        if "too many clients" in why or "connection slots" in why
    )
    gave_up = errors.get(GAVE_UP, 0)
    one.requests, one.seconds = said["good"], said["seconds"]
    one.failed = sum(errors.values())
    one.requests_per_second = round(one.requests / (one.seconds or 1), 3)
    one.latency_ms = said["latency_ms"]
    one.threads = watch.threads
    one.extra = {
        "connections": float(watch.connections),
        "refused": float(refused),
        "gave_up": float(gave_up),
        "other_errors": float(one.failed - refused - gave_up),
        "gap_seconds": said["gap_seconds"],
    }
    if not one.requests and not gave_up:  # to be too slow is a result
        one.error = f"no good response: {', '.join(errors)}"
