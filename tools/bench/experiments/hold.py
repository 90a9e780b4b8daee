"""``./bench.sh hold``: how many clients at once can each server hold?

A request is under way for every client: it waits so long that all
connections are open before the first answer is due. From level to level
there are more clients, until something stops the server; what it was is
part of the result. What a client costs is read while all of them wait.
Both ends of a connection are on this machine, so what the kernel needs
is measured for both together.
"""

import argparse
import contextlib
import dataclasses
import ipaddress
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.bench import preflight
from tools.bench.cost import Meter
from tools.bench.experiments import hold_ends
from tools.bench.experiments.hold_ends import Fit, Seen
from tools.bench.experiments.holder import PER_ADDRESS, Tally
from tools.bench.experiments.machine import ROOM, raise_open_files
from tools.bench.experiments.session import (
    Cell,
    Session,
    common_options,
    conduct,
    number_option,
    servers_option,
    words_option,
)
from tools.bench.numbers import number
from tools.bench.outcome import keep_raw, take_cost
from tools.bench.server import Process, ServerError, start
from tools.common.launch import Launched
from tools.common.raw_client import Client, NoAnswer
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    servers_option(parser)
    parser.add_argument(
        "--clients", type=levels, default=list(LEVELS), metavar="LIST",
        help="how many at once, one after the other until a server is "
        f"stopped (default: {','.join(map(str, LEVELS))})",
    )
    number_option(
        parser, "--delay", 0.1, 3600, DELAY,
        "seconds each request waits, made longer if opening takes longer",
        float,
    )
    number_option(
        parser, "--patience", 0.1, 7200, PATIENCE,
        "seconds until a client without an answer gives up; at least twice "
        "the delay where waits overlap", float,
    )
    words_option(parser)
    common_options(parser, SUITE)


def run(options: argparse.Namespace) -> int:
    """Measure; 1 if a server could not be measured at all.

    That a server is stopped by something is a result, no failure.
    """
    return conduct(SUITE, options, measure)


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
            climb = Climb(session, server, limit)
            for clients in options.clients:
                session.say(f"[bold]{server.name}[/]: {clients:,} clients")
                if not climb.level(clients):
                    break
    finally:
        show(session)
    return int(any(kind(p) in ("start", "wrong") for p in session.points))


def kind(point: Point) -> str:
    """What stopped the server here, one of KINDS; "": nothing did."""
    return point.reason.partition(":")[0] if point.end else ""


class Climb:
    """One server, from level to level."""

    def __init__(self, session: Session, server: Server, limit: int) -> None:
        self.session = session
        self.server = server
        self.options = session.options
        self.limit = limit  # open files a process
        self.held = 0  # clients, at the level before
        self.bytes_each = 0.0  # for a client, in user space and the kernel
        self.together = hold_ends.at_once(server, self.options.options)

    def level(self, clients: int) -> bool:
        """Measure with so many clients; may there be a next level?"""
        fits = hold_ends.fit(
            self.server, clients, self.limit, self.options.options,
            self.bytes_each,
        )
        if fits.note:
            self.session.say(f"- {self.server.name}: {fits.note}.")
        point = Point(
            self.server.name, SUITE, clients, self.options.delay,
            keep_alive=True,
        )
        if fits.clients <= self.held:  # we know that it can hold those
            point.end = True
            self.session.skip(point, fits.stop)
            return False
        for _ in range(self.session.repeats(1)):
            one, stop = self.measure(point, fits)
            self.session.keep(point, one)
            if one.error is not None:
                point.status = "failed"
            point.reason = stop or fits.stop
            point.end = bool(point.reason)
            self.session.results.save(self.session.folder)
            if one.error is not None:
                break
        self.held = fits.clients
        self.bytes_each = bytes_each(point.runs[-1])
        return not point.end

    def measure(self, point: Point, fits: Fit) -> tuple[Run, str]:
        """One run, with a longer delay if need be, and what stopped it."""
        for tries_left in reversed(range(TRIES)):
            patience = self.options.patience
            if self.together is None:
                patience = max(patience, 2 * point.delay)
            plan = Plan(
                point.clients, fits.clients, point.delay, patience,
                fits.extra, self.together, self.limit,
            )
            if plan.hopeless:
                few = min(plan.clients, FEW_CLIENTS)
                plan = dataclasses.replace(plan, clients=few)
            try:
                return hold(self.server, plan, self.session.folder)
            except ServerError as error:
                return Run("", error=str(error)), f"start: {error}"
            except LateError as error:
                why = f"{error}, the delay is {point.delay:g} s"
                if tries_left:
                    longer = 1.5 * error.seconds + MARGIN_SECONDS
                    point.delay = math.ceil(max(2 * point.delay, longer))
        return Run("", error=why), f"time: {why}"


def sure_of_memory(one: Run) -> bool:
    """Did it hold so many that memory for each is more than noise?"""
    held = one.extra.get("descriptors", 0)
    return held >= SURE and held >= HELD * one.extra["connections"]


def bytes_each(one: Run) -> float:
    """Memory that a client took, the kernel's included; 0: not known."""
    names = (
        "user_bytes_per_connection",
        "kernel_slab_bytes_per_connection_both_ends",
        "kernel_buffer_bytes_per_connection_both_ends",
    )
    if not sure_of_memory(one):
        return 0.0
    return max(sum(one.extra.get(name, 0.0) for name in names), 0.0)


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
def clients(port: int, plan: "Plan") -> Iterator[list[Launched]]:
    """The client's processes, ended come what may."""
    seconds = f"{plan.open_seconds:g}", f"{plan.watch_seconds:g}"
    with contextlib.ExitStack() as stack:
        running = []
        for share, address in holders(plan.clients, raise_open_files(0)):
            one = Launched(
                [
                    sys.executable, "-m", "tools.bench.experiments.holder",
                    str(port), str(share), address, *seconds,
                ],
                cwd=ROOT,
            )
            stack.callback(one.kill)
            running.append(one)
        yield running


def tallies(client: Launched) -> list[Tally]:
    """None at first, one when all are open, two when all is over."""
    return [
        Tally(**json.loads(line))
        for line in client.output.splitlines()
        if line.startswith("{") and line.endswith("}")
    ]


def wait(running: list[Launched], lines: int, meter: Meter) -> list[Tally]:
    """Wait until every client has said so much; what they said last."""
    while not all(
        client.status() is not None or len(tallies(client)) >= lines
        for client in running
    ):
        meter.sample()
        time.sleep(SAMPLE_SECONDS)
    return [(tallies(client) or [Tally()])[-1] for client in running]


@dataclass
class State:
    """What the server and the kernel hold. Bytes where it says so."""

    user_bytes: int  # of all its processes; what they share counts once
    descriptors: int
    fullest: int  # descriptors of the process that has most
    slab_bytes: int  # kernel objects of the whole machine
    buffer_bytes: int  # TCP buffers of the whole machine
    tcp_sockets: int  # of the whole machine
    overflows: int  # connections dropped: the queue for accept was full


def look(process: Process) -> State:
    """The state now; 0 for what cannot be known here."""
    memory, descriptors = 0, [0]
    for member in process.processes():
        with contextlib.suppress(psutil.Error):
            memory += _memory(member)
            descriptors.append(member.num_fds())
    sockets = _file("/proc/net/sockstat")
    # ListenOverflows: in a table with a line of names, one of numbers.
    table = re.findall(r"^TcpExt: (.*)", _file("/proc/net/netstat"), re.M)
    names, numbers = (row.split() for row in table or ("", ""))
    overflows = dict(zip(names, numbers, strict=True))
    return State(
        user_bytes=memory,
        descriptors=sum(descriptors),
        fullest=max(descriptors),
        slab_bytes=_find(r"^Slab:\s+(\d+)", _file("/proc/meminfo")) * 1024,
        buffer_bytes=_find(r"^TCP:.* mem (\d+)", sockets)
        * os.sysconf("SC_PAGE_SIZE"),
        tcp_sockets=_find(r"^TCP: inuse (\d+)", sockets),
        overflows=int(overflows.get("ListenOverflows", 0)),
    )


def _memory(member: psutil.Process) -> int:
    """Bytes of a process; a page of several counts by its share."""
    text = _file(f"/proc/{member.pid}/smaps_rollup")
    if text:
        return _find(r"^Pss:\s+(\d+)", text) * 1024
    return int(member.memory_full_info().uss)


def _file(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _find(pattern: str, text: str) -> int:
    found = re.search(pattern, text, re.M)
    return int(found[1]) if found else 0


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
        return hold_ends.needed_seconds(self.asked, self.delay, self.together)

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
        members = len(process.processes())
        time.sleep(SETTLE_SECONDS)  # for the last to be closed
        before = look(process)
        meter = Meter(process)
        with clients(process.port, plan) as running:
            shown = [" ".join(["python3", *c.words[1:]]) for c in running]
            opened = wait(running, 1, meter)
            time.sleep(SETTLE_SECONDS)  # for the last to be accepted
            held = look(process)
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
    if server.step == 7:
        one.extra["workers"] = max(members - 1, 1)
    seen = Seen(
        plan.clients, done, cost.threads, held.fullest, plan.limit, died,
        plan.watch_seconds,
    )
    stop = hold_ends.stopped_by(server, seen)
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
                client.answer()
        except (OSError, NoAnswer) as error:
            raise ServerError(f"GET /missing has no answer: {error}") from None


def fill(
    one: Run, opened: list[Tally], done: list[Tally], before: State,
    held: State,
) -> None:
    """The figures of a run."""
    total = sum(tally.opened for tally in opened)
    each = max(total, 1)
    begun = min(tally.first_open for tally in opened)
    last = max(tally.last_answer for tally in done) or begun
    firsts = [tally.first_answer for tally in done if tally.first_answer]
    first = min(firsts, default=begun)
    one.requests = sum(tally.answered for tally in done)
    one.failed = sum(tally.failed + tally.wrong for tally in done)
    one.seconds = round(last - begun, 3)
    figures = {
        "connections": total,
        "answered": one.requests,
        "wrong": sum(tally.wrong for tally in done),
        "open_seconds": max(t.last_open for t in opened) - begun,
        "first_answer_seconds": first - begun,
        "answer_seconds": last - first,
        "user_bytes_per_connection":
            (held.user_bytes - before.user_bytes) / each,
        "idle_bytes": before.user_bytes,
        "descriptors": held.descriptors - before.descriptors,
        "accept_queue_overflows": held.overflows - before.overflows,
    }
    if held.slab_bytes:
        figures |= {
            "kernel_slab_bytes_per_connection_both_ends":
                (held.slab_bytes - before.slab_bytes) / each,
            "kernel_buffer_bytes_per_connection_both_ends":
                (held.buffer_bytes - before.buffer_bytes) / each,
            "tcp_sockets": held.tcp_sockets - before.tcp_sockets,
        }
    one.extra = {name: round(value, 3) for name, value in figures.items()}


# Shown -------------------------------------------------------------------


def show(session: Session) -> None:
    """A row for each server: until the last answer, or what ended it."""
    found = {(p.server, p.clients): p for p in session.points}

    def level(clients: int) -> Cell:
        return lambda row: cell(found.get((row.server, clients)))

    columns: dict[str, Cell] = {"": lambda row: row.server} | {
        f"{clients:,}": level(clients)
        for clients in sorted({clients for _, clients in found})
    }
    columns["bytes a client"] = lambda row: bytes_of(
        [p for p in session.points if p.server == row.server]
    )
    names = dict.fromkeys(server for server, _ in found)
    session.show(
        columns,
        "clients at once; seconds until the last answer, or what stopped "
        "the server, with how many were held",
        [Point(name, SUITE, 0, 0.0) for name in names],
    )
    for point in session.points:
        if point.reason:
            session.say(f"{point.server} at {point.clients:,}: {point.reason}")


def bytes_of(points: list[Point]) -> str:
    """A cell: memory of a server for a client, and its threads."""
    runs = [one for point in points for one in point.runs]
    sure = [one for one in runs if sure_of_memory(one)]
    each = sure[-1].extra["user_bytes_per_connection"] if sure else None
    threads = max((one.threads or 0 for one in runs), default=0)
    return f"{'' if each is None else f'{each:,.0f}'}\n[dim]{threads:,} thr."


def cell(point: Point | None) -> str:
    """A cell: seconds, or what stopped the server at this level."""
    if point is None:
        return ""
    if not point.end:
        return f"{point.median('seconds') or 0:,.1f} s"
    found = f"[yellow]{kind(point)}[/]"
    held = point.median("connections") if point.status == "ok" else None
    return found if held is None else f"{held:,.0f}, then\n{found}"
