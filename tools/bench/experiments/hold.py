"""``./bench.sh hold``: how many clients at once can each server hold?

A request is under way for every client: it waits so long that all
connections are open before the first answer is due. From level to level
there are more clients, until something stops the server; what it was is
part of the result. What a client costs is read while all of them wait.
"""

import argparse
import contextlib
import ipaddress
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tools.bench import preflight
from tools.bench.cost import Meter, States, look
from tools.bench.experiments import hold_ends, holder
from tools.bench.experiments.holder import PER_ADDRESS, Tally
from tools.bench.machine import ROOM, raise_open_files
from tools.bench.numbers import number
from tools.bench.outcome import keep_raw, take_cost
from tools.bench.server import ServerError, start
from tools.bench.session import WORDS, Session, number_option, servers_option
from tools.bench.table import figure
from tools.common.launch import Launched
from tools.common.raw_client import Client, NoResponse
from tools.data.results import Point, Run
from tools.servers import ROOT, Server

HELP = (
    "how many clients at once each server can hold, up to 65,536 "
    "(about 15 minutes)"
)
SUITE = "hold"
LEVELS = (100, 1_000, 10_000, 65_536)  # clients at once
MOST_CLIENTS = 1_000_000
DELAY = 10.0  # seconds each request waits
PATIENCE = 60.0  # seconds until a client without an answer gives up
OPEN_SECONDS = 120.0  # for all connections, where no answer can be early
TRIES = 3  # with a longer delay each time
MARGIN_SECONDS = 2.0  # between the last connection and the first answer
PER_HOLDER = 16_384  # connections for one process of the client
WARM_UP = 20  # requests
SAMPLE_SECONDS = 0.5
SETTLE_SECONDS = 1.0
FEW_DELAYS = 2.5  # how long to watch a server that needs too long
FEW_SECONDS = 2.0  # and at least
FEW_CLIENTS = 1000  # and with how many at most
SURE = 1000  # clients from which on memory for each is sure enough
HELD = 0.9  # part of the connections that the server must have accepted
MISSING = b"GET /missing HTTP/1.1\r\nHost: hold\r\nConnection: close\r\n\r\n"


class LateError(Exception):
    """Opening took longer than the delay. seconds: how long it takes."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"opening takes about {seconds:.0f} s")
        self.seconds = seconds


def levels(text: str) -> list[int]:
    """A check for argparse: numbers of clients, the fewest first."""
    check = number(1, MOST_CLIENTS)
    found = {int(check(word)) for word in text.split(",") if word.strip()}
    if not found:
        raise argparse.ArgumentTypeError("it names no number of clients")
    return sorted(found)


OPTIONS = (
    servers_option(),
    ("--clients", {
        "type": levels, "default": list(LEVELS), "metavar": "LIST",
        "help": "how many at once, one after the other until a server is "
        f"stopped (default: {','.join(map(str, LEVELS))})",
    }),
    number_option(
        "--delay", 0.1, 3600, DELAY, "seconds each request waits, made "
        "longer if opening takes longer", float,
    ),
    number_option(
        "--patience", 0.1, 7200, PATIENCE, "seconds until a client without "
        "an answer gives up; at least twice the delay where waits overlap",
        float,
    ),
    WORDS,
)  # fmt: skip


def measure(session: Session) -> int:
    """Every server, from level to level."""
    options = session.options
    limit = raise_open_files(options.clients[-1] + ROOM)
    session.results.machine.open_files = limit
    if limit < 2 * ROOM:
        session.say(
            f"This machine allows a process no more than {limit:,} open "
            f"files: at least {2 * ROOM} are needed to measure anything."
        )
        return 1
    if preflight.core_count() == 1:
        session.say(
            "- There is one core, for the server and the load together: "
            "opening takes longer than it could."
        )
    try:
        for server in options.only:
            climb(session, server, limit)
    finally:
        show(session)
    return int(any(kind(p) in ("start", "wrong") for p in session.points))


def kind(point: Point) -> str:
    """What stopped the server here, one of KINDS; "": nothing did."""
    return point.reason.partition(":")[0] if point.end else ""


def climb(session: Session, server: Server, limit: int) -> None:
    """One server, from level to level, until something stops it.

    limit: open files a process.
    """
    options = session.options
    held, each = 0, 0.0  # clients at the level before, bytes for each
    together = hold_ends.at_once(server, options.options)
    for clients in options.clients:
        session.say(f"[bold]{server.name}[/]: {clients:,} clients")
        fits = hold_ends.fit(server, clients, limit, options.options, each)
        if fits.note:
            session.say(f"- {server.name}: {fits.note}.")
        point = Point(
            server.name, SUITE, clients, options.delay, keep_alive=True
        )
        if fits.clients <= held:  # we know that it can hold those
            point.end = True
            session.skip(point, fits.stop)
            return
        for _ in range(session.repeats(1)):
            one, stop = measure_one(session, server, point, Plan(
                clients, fits.clients, point.delay, options.patience,
                fits.extra, together, limit,
            ))
            session.keep(point, one)
            point.status = "ok" if one.error is None else "failed"
            point.reason = stop or fits.stop
            point.end = bool(point.reason)
            session.save()
            if one.error is not None:
                break
        if point.end:
            return
        held, each = fits.clients, bytes_each(point.runs[-1])


def measure_one(
    session: Session, server: Server, point: Point, plan: "Plan"
) -> tuple[Run, str]:
    """One run, with a longer delay if need be, and what stopped it."""
    for tries_left in reversed(range(TRIES)):
        patience = plan.patience
        if plan.together is None:
            patience = max(patience, 2 * point.delay)
        plan = replace(plan, delay=point.delay, patience=patience)
        if plan.hopeless:
            plan = replace(plan, clients=min(plan.clients, FEW_CLIENTS))
        try:
            return hold(server, plan, session.folder)
        except ServerError as error:
            return Run("", error=str(error)), f"start: {error}"
        except LateError as error:
            why = f"{error}, the delay is {point.delay:g} s"
            if tries_left:
                longer = 1.5 * error.seconds + MARGIN_SECONDS
                point.delay = math.ceil(max(2 * point.delay, longer))
    return Run("", error=why), f"time: {why}"


def bytes_each(one: Run) -> float:
    """Memory that a client took in user space; 0: of so few it is noise."""
    held = one.extra.get("descriptors", 0)
    if held < SURE or held < HELD * one.extra["connections"]:
        return 0.0
    return max(one.extra["user_bytes_per_connection"], 0.0)


# One run -----------------------------------------------------------------


def holders(connections: int, limit: int) -> list[tuple[int, str]]:
    """How many each process of the client holds, from which address."""
    each = min(PER_HOLDER, limit - ROOM)
    several = math.ceil(connections / each)
    step = math.ceil(each / PER_ADDRESS)
    first = ipaddress.ip_address("127.0.0.2")
    if sys.platform != "linux":  # there is only one address
        step, first = 0, ipaddress.ip_address("127.0.0.1")
    return [
        (
            connections // several + (index < connections % several),
            str(first + index * step),
        )
        for index in range(several)
    ]


@contextlib.contextmanager
def load(port: int, plan: "Plan") -> Iterator[list[Launched]]:
    """The client's processes, ended come what may."""
    seconds = f"{plan.open_seconds:g}", f"{plan.watch_seconds:g}"
    words = [sys.executable, "-m", holder.__name__, str(port)]
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                Launched([*words, str(share), address, *seconds], cwd=ROOT)
            )
            for share, address in holders(plan.clients, raise_open_files(0))
        ]


def wait(running: list[Launched], lines: int, meter: Meter) -> list[Tally]:
    """Wait until every client has said so much; what they said last.

    Nothing at first, a line when all are open, another when all is over.
    """
    while not all(
        client.status() is not None or client.output.count("}\n") >= lines
        for client in running
    ):
        meter.sample()
        time.sleep(SAMPLE_SECONDS)
    return [
        Tally(**json.loads(client.output.strip().rpartition("\n")[2] or "{}"))
        for client in running
    ]


@dataclass(frozen=True)
class Plan:
    """What one run tries.

    asked: clients; clients: those of them that fit; delay, patience: in
    seconds; extra: for the server's command line; together: how many
    requests can wait at once, None: all; limit: open files a process.
    """

    asked: int
    clients: int
    delay: float
    patience: float
    extra: tuple[str, ...]
    together: int | None
    limit: int

    @property
    def needed_seconds(self) -> float:
        """How long all need at the least."""
        turns = math.ceil(self.asked / (self.together or self.asked))
        return turns * self.delay

    @property
    def hopeless(self) -> str:
        """Why it cannot end within the patience, "" if it can."""
        if self.together is None or self.needed_seconds <= self.patience:
            return ""
        ways = f"{self.together} at a time"
        if self.together == 1:
            ways = "one after the other"
        return (
            f"time: {self.asked:,} requests of {self.delay:g} s, {ways}, "
            f"take {self.needed_seconds:,.0f} s; clients wait "
            f"{self.patience:g} s"
        )

    @property
    def open_seconds(self) -> float:
        """How long opening may take: until the first answer is due."""
        return OPEN_SECONDS if self.together is not None else self.delay

    @property
    def watch_seconds(self) -> float:
        """How long to wait for answers: a few are enough if hopeless."""
        if not self.hopeless:
            return self.patience
        return min(max(FEW_DELAYS * self.delay, FEW_SECONDS), self.patience)


def hold(server: Server, plan: Plan, folder: Path) -> tuple[Run, str]:
    """One run against a fresh server, and what stopped the server.

    Raises LateError if answers were due before all were open, and
    ServerError.
    """
    with start(server, plan.delay, plan.extra) as process:
        warm_up(process.port)
        time.sleep(SETTLE_SECONDS)  # for the last to be closed
        own = psutil.Process(process.pid)
        before = look(own, shares=True)
        meter = Meter(process)
        with load(process.port, plan) as running:
            shown = [" ".join(["python3", *c.words[1:]]) for c in running]
            opened = wait(running, 1, meter)
            time.sleep(SETTLE_SECONDS)  # for the last to be accepted
            held = look(own, shares=True)
            if plan.together is None:
                check_in_time(opened, plan)
            done = wait(running, 2, meter)
            said = "".join(client.output for client in running)
        cost = meter.read()
        died = process.last_words() if process.status() is not None else None
    one = Run("\n".join([process.command, *shown]))
    fill(one, opened, done, before, held)
    take_cost(one, cost)
    if plan.hopeless:
        one.extra["needed_seconds"] = round(plan.needed_seconds, 3)
        one.extra["watched_seconds"] = plan.watch_seconds
    fullest = max((state.descriptors for state in held.values()), default=0)
    stop = hold_ends.stopped_by(
        server, done, total=plan.clients, threads=cost.threads,
        fullest=fullest, limit=plan.limit, died=died,
        seconds=plan.watch_seconds,
    )
    if plan.hopeless and died is None:
        stop = plan.hopeless
    one.error = stop.partition(": ")[2] or None
    keep_raw(folder, server.name, one.command, said)
    return one, stop


def check_in_time(opened: list[Tally], plan: Plan) -> None:
    """Raise LateError if an answer was due before all were open."""
    begun = min(tally.first_open for tally in opened)
    took = max(tally.last_open for tally in opened) - begun
    in_time = all(tally.in_time for tally in opened)
    if not in_time or took + MARGIN_SECONDS > plan.delay:
        part = sum(tally.opened for tally in opened) / plan.clients
        raise LateError(took / part if part else 2 * plan.delay)


def warm_up(port: int) -> None:
    """Requests that are answered at once, however long the delay is."""
    for _ in range(WARM_UP):
        try:
            with Client(port, MISSING) as client:
                client.response()
        except (OSError, NoResponse) as error:
            raise ServerError(f"GET /missing has no answer: {error}") from None


def fill(
    one: Run, opened: list[Tally], done: list[Tally], before: States,
    held: States,
) -> None:
    """The figures of a run."""
    total = sum(tally.opened for tally in opened)
    begun = min(tally.first_open for tally in opened)
    responses = [tally for tally in done if tally.last_response]
    first = min((t.first_response for t in responses), default=begun)
    last = max((t.last_response for t in responses), default=begun)
    one.requests = sum(tally.answered for tally in done)
    one.failed = sum(tally.failed + tally.wrong for tally in done)
    one.seconds = round(last - begun, 3)
    grown = {
        name: sum(getattr(state, name) for state in held.values())
        - sum(getattr(state, name) for state in before.values())
        for name in ("memory", "descriptors")
    }
    figures = {
        "connections": total,
        "answered": one.requests,
        "wrong": sum(tally.wrong for tally in done),
        "open_seconds": max(t.last_open for t in opened) - begun,
        "first_answer_seconds": first - begun,
        "user_bytes_per_connection": grown["memory"] / max(total, 1),
        "descriptors": grown["descriptors"],
    }
    one.extra = {name: round(value, 3) for name, value in figures.items()}


# Shown -------------------------------------------------------------------


def show(session: Session) -> None:
    """A row for each level: until the last answer, or what ended it."""
    each = figure("user_bytes_per_connection")
    session.show(
        {
            "": lambda p: f"{p.server}, {p.clients:,} clients",
            "last answer": lambda p: f"{p.median('seconds') or 0:,.1f} s",
            "held": figure("connections"),
            "bytes a client":
                lambda p: each(p) if bytes_each(p.runs[-1]) else "",
            "threads": figure("threads"),
            "stopped by": kind,
        },
        "clients at once; seconds until the last answer",
    )
