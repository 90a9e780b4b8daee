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
import http.client
import ipaddress
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tools.bench import hold_limits, preflight
from tools.bench.cost import Meter
from tools.bench.hold_limits import Fit, Seen
from tools.bench.holder import (
    OPEN_SECONDS,
    PER_ADDRESS,
    ROOM,
    Tally,
    raise_open_files,
)
from tools.bench.numbers import formatted, number
from tools.bench.outcome import keep_raw, take_cost
from tools.bench.server import Process, ServerError, start
from tools.data.results import Point, Results, Run
from tools.servers import ROOT, SERVERS, Server, by_name, select

ABOUT = (
    "how many clients at once each server can hold, up to 65,536 "
    "(about 15 minutes)"
)
SUITE = "hold"
LEVELS = (100, 1_000, 10_000, 65_536)  # clients at once
MOST_CLIENTS = 1_000_000
DELAY = 10.0  # seconds each request waits
PATIENCE = 60.0  # seconds until a client without an answer gives up
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

Tell = Callable[[str], None]  # says on the terminal what goes on


class LateError(Exception):
    """Opening took longer than the delay. seconds: how long it takes."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"opening takes about {seconds:.0f} s")
        self.seconds = seconds


# Kinds of values on the command line, for other experiments too.


def one_server(text: str) -> Server:
    """A check for argparse: the name of one server."""
    try:
        return by_name(text)
    except KeyError:
        names = ", ".join(s.name for s in SERVERS)
        raise argparse.ArgumentTypeError(
            f"no server is called {text!r}; there are {names}"
        ) from None


def words(text: str) -> tuple[str, ...]:
    """A check for argparse: words as a shell would split them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add ``--only`` and ``--options``."""
    parser.add_argument(
        "--only", type=one_server, default=by_name("07"), metavar="NAME",
        help="the server (default: 07)",
    )
    parser.add_argument(
        "--options", type=words, default=(), metavar="WORDS",
        help="more for the server's command line, as in "
        "--options='--workers 4'",
    )


def some_servers(text: str) -> list[Server]:
    """A check for argparse: servers by step or name."""
    try:
        chosen = select(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not chosen:
        raise argparse.ArgumentTypeError("it names no server")
    return chosen


def levels(text: str) -> list[int]:
    """A check for argparse: numbers of clients, the fewest first."""
    check = number(1, MOST_CLIENTS)
    found = {int(check(word)) for word in text.split(",") if word.strip()}
    if not found:
        raise argparse.ArgumentTypeError("it names no number of clients")
    return sorted(found)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    add = parser.add_argument
    add(
        "--only", type=some_servers, default=list(SERVERS), metavar="LIST",
        help="servers: step numbers or names, as in --only 03,06-protocol",
    )
    add(
        "--clients", type=levels, default=list(LEVELS), metavar="LIST",
        help="how many at once, one after the other until a server is "
        f"stopped (default: {','.join(map(str, LEVELS))})",
    )
    add(
        "--delay", type=number(0.1, 3600, float), default=DELAY, metavar="S",
        help="seconds each request waits, made longer if opening takes "
        f"longer (default: {DELAY:g})",
    )
    add(
        "--patience", type=number(0.1, 7200, float), default=PATIENCE,
        metavar="S", help="seconds until a client without an answer gives "
        f"up; at least twice the delay where waits overlap (default: "
        f"{PATIENCE:g})",
    )
    add(
        "--options", type=words, default=(), metavar="WORDS",
        help="more for the server's command line, as in "
        "--options='--workers 4'",
    )


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure, print; 1 if a server could not be measured at all.

    That a server is stopped by something is a result, no failure.
    """
    limit = raise_open_files(options.clients[-1] + ROOM)
    results.machine.open_files = limit
    if limit < 2 * ROOM:
        console.print(
            f"This machine allows a process no more than {limit:,} open "
            f"files: at least {2 * ROOM} are needed to measure anything."
        )
        return 1
    if preflight.core_count() == 1:
        console.print(
            "- There is one core, for the server and the load together: "
            "opening takes longer than it could."
        )
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=console, transient=True,
    )
    total = len(options.only) * len(options.clients)
    try:
        with progress:
            task = progress.add_task("", total=total)
            for done, server in enumerate(options.only):
                climb = Climb(server, options, results, folder, limit)
                for step, clients in enumerate(options.clients):
                    words = f"{server.name}: {clients:,} clients"
                    progress.update(
                        task, description=words,
                        completed=done * len(options.clients) + step,
                    )

                    def tell(text: str, words: str = words) -> None:
                        progress.update(task, description=f"{words}, {text}")

                    if not climb.level(clients, tell, console):
                        break
            progress.update(task, completed=total)
    finally:
        show(results.points, console)
    return int(any(kind(p) in ("start", "wrong") for p in results.points))


def kind(point: Point) -> str:
    """What stopped the server here, one of KINDS; "": nothing did."""
    return point.reason.partition(":")[0] if point.end else ""


class Climb:
    """One server, from level to level."""

    def __init__(
        self, server: Server, options: argparse.Namespace, results: Results,
        folder: Path, limit: int,
    ) -> None:
        self.server = server
        self.options = options
        self.results = results
        self.folder = folder
        self.limit = limit  # open files a process
        self.held = 0  # clients, at the level before
        self.bytes_each = 0.0  # for a client, in user space and the kernel
        self.together = hold_limits.at_once(server, options.options)

    def level(self, clients: int, tell: Tell, console: Console) -> bool:
        """Measure with so many clients; may there be a next level?"""
        fits = hold_limits.fit(
            self.server, clients, self.limit, self.options.options,
            self.bytes_each,
        )
        if fits.note:
            console.print(f"- {self.server.name}: {fits.note}.")
        point = Point(
            self.server.name, SUITE, clients, self.options.delay,
            keep_alive=True,
        )
        if fits.clients <= self.held:  # we know that it can hold those
            point.status, point.reason, point.end = "skipped", fits.stop, True
            self.results.points.append(point)
            self.results.save(self.folder)
            return False
        for _ in range(self.options.repeats or 1):
            one, stop = self.measure(point, fits, tell)
            stop = stop or fits.stop
            if stop:
                point.reason, point.end = stop, True
            if not point.runs:  # an interrupt leaves no point without a run
                self.results.points.append(point)
            point.runs.append(one)
            if one.error is not None:
                point.status = "failed"
            self.results.save(self.folder)
            if one.error is not None:
                break
        self.held = fits.clients
        self.bytes_each = bytes_each(point.runs[-1])
        return not point.end

    def measure(
        self, point: Point, fits: Fit, tell: Tell
    ) -> tuple[Run, str]:
        """One run, with a longer delay if need be, and what stopped it."""
        for tries_left in reversed(range(TRIES)):
            plan = Plan(
                point.clients, fits.clients, point.delay,
                self.patience(point.delay), fits.extra, self.together,
                self.limit,
            )
            if plan.hopeless:
                few = min(plan.clients, FEW_CLIENTS)
                plan = replace(plan, clients=few)
            try:
                return measure(self.server, plan, self.folder, tell)
            except ServerError as error:
                return Run("", error=str(error)), f"start: {error}"
            except LateError as error:
                why = f"{error}, the delay is {point.delay:g} s"
                if tries_left:
                    longer = max(
                        2 * point.delay, 1.5 * error.seconds + MARGIN_SECONDS
                    )
                    point.delay = float(math.ceil(longer))
        return Run("", error=why), f"time: {why}"

    def patience(self, delay: float) -> float:
        """How long clients wait for their answers, in seconds."""
        if self.together is not None:
            return float(self.options.patience)
        return float(max(self.options.patience, 2 * delay))


def sure_of_memory(one: Run) -> bool:
    """Did it hold so many that memory for each is more than noise?"""
    held = one.extra.get("descriptors", 0)
    return held >= SURE and held >= HELD * one.extra["connections"]


def bytes_each(one: Run) -> float:
    """Memory that a client took, the kernel's included; 0: not known."""
    if not sure_of_memory(one):
        return 0.0
    names = (
        "user_bytes_per_connection",
        "kernel_slab_bytes_per_connection_both_ends",
        "kernel_buffer_bytes_per_connection_both_ends",
    )
    return max(sum(one.extra.get(name, 0.0) for name in names), 0.0)


# One run -----------------------------------------------------------------


class Client:
    """One process of tools.bench.holder."""

    def __init__(
        self, port: int, connections: int, address: str, seconds: float,
        open_seconds: float,
    ) -> None:
        self.command = [
            "-m", "tools.bench.holder", str(port), str(connections),
            "--address", address, "--seconds", f"{seconds:g}",
            "--open-seconds", f"{open_seconds:g}",
        ]
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, *self.command], cwd=ROOT,
            stdin=subprocess.DEVNULL, stdout=self._output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )

    def output(self) -> str:
        """What it has written so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode()

    def tallies(self) -> list[Tally]:
        """None at first, one when all are open, two when all is over."""
        return [
            Tally(**json.loads(line))
            for line in self.output().splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def ended(self) -> bool:
        """Has it ended, well or not?"""
        return self.process.poll() is not None

    def stop(self) -> None:
        """End it if it still runs."""
        if not self.ended():
            self.process.kill()
        self.process.wait()
        self._output.close()


def holders(connections: int, limit: int) -> list[tuple[int, str]]:
    """How many each process of the client holds, from which address."""
    each = min(PER_HOLDER, limit - ROOM)
    number = math.ceil(connections / each)
    shares = [
        connections // number + (index < connections % number)
        for index in range(number)
    ]
    if sys.platform != "linux":  # there is only one address
        return [(share, "127.0.0.1") for share in shares]
    step = math.ceil(each / PER_ADDRESS)
    first = ipaddress.ip_address("127.0.0.2")
    return [
        (share, str(first + index * step))
        for index, share in enumerate(shares)
    ]


@contextlib.contextmanager
def clients(
    port: int, connections: int, seconds: float, open_seconds: float
) -> Iterator[list[Client]]:
    """The client's processes, ended come what may.

    seconds: to wait for answers; open_seconds: to open all connections.
    """
    limit = raise_open_files(0)
    running: list[Client] = []
    try:
        for share, address in holders(connections, limit):
            running.append(
                Client(port, share, address, seconds, open_seconds)
            )
        yield running
    finally:
        for each in running:
            each.stop()


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
    members = process.processes()
    sockets = _file("/proc/net/sockstat")
    descriptors = [_descriptors(member) for member in members]
    return State(
        user_bytes=sum(_memory(member) for member in members),
        descriptors=sum(descriptors),
        fullest=max(descriptors, default=0),
        slab_bytes=_find(r"^Slab:\s+(\d+)", _file("/proc/meminfo")) * 1024,
        buffer_bytes=_find(r"^TCP:.* mem (\d+)", sockets)
        * os.sysconf("SC_PAGE_SIZE"),
        tcp_sockets=_find(r"^TCP: inuse (\d+)", sockets),
        overflows=_overflows(_file("/proc/net/netstat")),
    )


def _memory(member: psutil.Process) -> int:
    """Bytes of a process; a page of several counts by its share."""
    text = _file(f"/proc/{member.pid}/smaps_rollup")
    if text:
        return _find(r"^Pss:\s+(\d+)", text) * 1024
    with contextlib.suppress(psutil.Error):
        return int(member.memory_full_info().uss)
    return 0


def _descriptors(member: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(member.num_fds())
    return 0


def _overflows(text: str) -> int:
    """ListenOverflows: a table with a line of names, one of numbers."""
    rows = [row.split() for row in text.splitlines() if "TcpExt:" in row]
    if len(rows) != 2:
        return 0
    return int(dict(zip(*rows, strict=True)).get("ListenOverflows", 0))


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
        return hold_limits.needed_seconds(
            self.asked, self.delay, self.together
        )

    @property
    def hopeless(self) -> str:
        """Why it cannot end within the patience, "" if it can."""
        if self.together is None or self.needed_seconds <= self.patience:
            return ""
        return hold_limits.too_long(
            self.asked, self.together, self.delay, self.patience
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
        few = max(FEW_DELAYS * self.delay, FEW_SECONDS)
        return min(few, self.patience)


def measure(
    server: Server, plan: Plan, folder: Path, tell: Tell
) -> tuple[Run, str]:
    """One run against a fresh server, and what stopped the server.

    Raises LateError if answers were due before all were open, and
    ServerError.
    """
    with start(server, plan.delay, plan.extra) as process:
        warm_up(process)
        members = len(process.processes())
        time.sleep(SETTLE_SECONDS)  # for the last to be closed
        before = look(process)
        meter = Meter(process)
        with clients(
            process.port, plan.clients, plan.watch_seconds,
            plan.open_seconds,
        ) as running:
            commands = [
                process.command,
                *(" ".join(["python3", *c.command]) for c in running),
            ]
            tell("opening")
            opened = wait(running, 1, meter)
            time.sleep(SETTLE_SECONDS)  # for the last to be accepted
            held = look(process)
            if plan.together is None:
                check_in_time(opened, plan)
            tell("waiting")
            done = wait(running, 2, meter)
            texts = [client.output() for client in running]
        cost = meter.read()
        died = process.status() is not None
        words_of_it = process.last_words() if died else None
    one = Run("\n".join(commands))
    fill(one, opened, done, before, held)
    take_cost(one, cost)
    if plan.hopeless:
        one.extra["needed_seconds"] = round(plan.needed_seconds, 3)
        one.extra["watched_seconds"] = plan.watch_seconds
    if server.step == 7:
        one.extra["workers"] = max(members - 1, 1)
    seen = Seen(
        plan.clients, done, cost.threads, held.fullest, plan.limit,
        words_of_it, plan.watch_seconds,
    )
    stop = hold_limits.stopped_by(server, seen)
    if plan.hopeless and not died:
        stop = plan.hopeless
    if stop:
        one.error = stop.partition(": ")[2]
    keep_raw(folder, server.name, one.command, "".join(texts))
    return one, stop


def check_in_time(opened: list[Tally], plan: Plan) -> None:
    """Raise LateError if an answer was due before all were open."""
    begun = min(tally.first_open for tally in opened)
    took = max(tally.last_open for tally in opened) - begun
    if all(tally.in_time for tally in opened) and (
        took + MARGIN_SECONDS <= plan.delay
    ):
        return
    part = sum(tally.opened for tally in opened) / plan.clients
    raise LateError(took / part if part else 2 * plan.delay)


def warm_up(process: Process) -> None:
    """Requests that are answered at once, however long the delay is."""
    for _ in range(WARM_UP):
        client = http.client.HTTPConnection(
            "127.0.0.1", process.port, timeout=10
        )
        try:
            client.request("GET", "/missing")
            client.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(f"GET /missing has no answer: {error}") from None
        finally:
            client.close()


def wait(running: list[Client], lines: int, meter: Meter) -> list[Tally]:
    """Wait until every client has said so much; what they said last."""
    while not all(
        client.ended() or len(client.tallies()) >= lines
        for client in running
    ):
        meter.sample()
        time.sleep(SAMPLE_SECONDS)
    return [(client.tallies() or [Tally()])[-1] for client in running]


def fill(
    one: Run, opened: list[Tally], done: list[Tally], before: State,
    held: State,
) -> None:
    """The figures of a run."""
    total = sum(tally.opened for tally in opened)
    each = max(total, 1)
    begun = min(tally.first_open for tally in opened)
    ends = [tally.last_answer for tally in done if tally.last_answer]
    starts = [tally.first_answer for tally in done if tally.first_answer]
    one.requests = sum(tally.answered for tally in done)
    one.failed = sum(tally.failed + tally.wrong for tally in done)
    one.seconds = round(max(ends, default=begun) - begun, 3)
    figures = {
        "connections": total,
        "answered": one.requests,
        "wrong": sum(tally.wrong for tally in done),
        "open_seconds": max(t.last_open for t in opened)
        - min(t.first_open for t in opened),
        "first_answer_seconds": min(starts, default=begun) - begun,
        "answer_seconds": max(ends, default=0.0) - min(starts, default=0.0),
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


def show(points: list[Point], console: Console) -> None:
    """Print a row for each server: until the last answer, or what ended."""
    if not points:
        return
    most = sorted({point.clients for point in points})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for clients in most:
        table.add_column(f"{clients:,}", justify="right")
    table.add_column("bytes a client", justify="right")
    table.add_column("threads", justify="right")
    for name in dict.fromkeys(point.server for point in points):
        row = {p.clients: p for p in points if p.server == name}
        runs = [one for point in row.values() for one in point.runs]
        sure = [one for one in runs if sure_of_memory(one)]
        each = formatted(
            sure[-1].extra["user_bytes_per_connection"] if sure else None,
            "{:,.0f}",
        )
        threads = max((one.threads or 0 for one in runs), default=0)
        cells = (_cell(row.get(clients)) for clients in most)
        table.add_row(name, *cells, each, f"{threads:,}" if threads else "")
    console.print(table)
    console.print(
        "[dim]clients at once; seconds until the last answer, or what "
        "stopped the server, with how many were held"
    )
    for point in points:
        if point.reason:
            console.print(
                f"{point.server} at {point.clients:,}: "
                f"{escape(point.reason)}"
            )


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    if not point.end:
        return f"{point.median('seconds') or 0:,.1f} s"
    found = f"[yellow]{kind(point)}[/]"
    held = point.median("connections") if point.status == "ok" else None
    return found if held is None else f"{held:,.0f}, then\n{found}"
