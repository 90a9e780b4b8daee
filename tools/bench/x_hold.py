"""``./bench.sh hold``: very many connections, a request under way in each.

The server lets every request wait so long that all connections are open
before the first answer is due. Then what they cost is read: that is the
price of a client who waits. Both ends of a connection are on this
machine, so what the kernel needs is measured for both together.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
from rich.console import Console
from rich.markup import escape

from tools.bench import preflight
from tools.bench.cost import Meter
from tools.bench.holder import PER_ADDRESS, ROOM, Tally, raise_open_files
from tools.bench.keep import keep_raw, number, take_cost
from tools.bench.server import Process, ServerError, start
from tools.results import Point, Results, Run
from tools.servers import ROOT, SERVERS, Server, by_name

ABOUT = "65,536 connections at once, a request under way in each (a minute)"
SUITE = "hold"
CONNECTIONS = 65_536
DELAY = 30.0  # seconds each request waits
TRIES = 3  # with a longer delay each time
MARGIN_SECONDS = 2.0  # between the last connection and the first answer
UNEVEN = 1.05  # how far the fullest worker may be above the mean
PER_HOLDER = 16_384  # connections for one process of the client
WARM_UP = 20  # requests
SAMPLE_SECONDS = 0.5
SETTLE_SECONDS = 1.0
SLACK_SECONDS = 60.0  # for all answers when the delay is over


class LateError(Exception):
    """Opening took longer than the delay. seconds: how long it took."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"opening took {seconds:.0f} s")
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    add_server(parser)
    parser.add_argument(
        "--connections", type=number(1, 1_000_000), default=CONNECTIONS,
        metavar="N", help=f"how many (default: {CONNECTIONS})",
    )
    parser.add_argument(
        "--delay", type=number(0.1, 3600, float), default=DELAY, metavar="S",
        help="seconds each request waits, made longer if opening takes "
        f"longer (default: {DELAY:g})",
    )


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure, print; 1 if a connection had no good answer."""
    limit = raise_open_files(options.connections + ROOM)
    results.machine.open_files = limit
    connections, extra, note = fit(
        options.only, options.connections, limit, options.options
    )
    if note:
        console.print(f"- {note}")
    delay, repeats = options.delay, options.repeats or 1
    point = Point(options.only.name, SUITE, connections, delay)
    point.keep_alive = True
    for _ in range(repeats):
        for tries_left in reversed(range(TRIES)):
            point.delay = delay
            try:
                one = measure(options.only, point, extra, folder)
                break
            except ServerError as error:
                one = Run(ABOUT, error=str(error))
                break
            except LateError as error:
                one = Run(ABOUT, error=f"{error}, the delay is {delay:g} s")
                delay = math.ceil(max(2 * delay, 1.5 * error.seconds))
                if tries_left:
                    console.print(f"- {error}: again with --delay {delay:g}")
        if not point.runs:
            results.points.append(point)
        point.runs.append(one)
        errors = [r.error for r in point.runs if r.error is not None]
        if errors:
            point.status, point.reason = "failed", errors[-1]
        results.save(folder)
        show(point, one, console)
    return 1 if point.status == "failed" else 0


def fit(
    server: Server, connections: int, limit: int, extra: tuple[str, ...]
) -> tuple[int, tuple[str, ...], str]:
    """What fits into so many open files a process.

    Returns the connections, the server's options, and a sentence if one
    of them is not what was asked for.
    """
    room = limit - ROOM
    if connections <= room:
        return connections, extra, ""
    note = f"This machine allows a process no more than {limit:,} open files"
    most, asked = room, " ".join((*server.options, *extra))
    if server.step == 7 and "--worker-kind thread" not in asked:
        given = re.search(r"--workers[= ](\d+)", asked)
        needed = math.ceil(connections * UNEVEN / room)
        several = int(given[1]) if given else needed
        if several >= needed:
            if given is None:
                several = max(needed, preflight.core_count())
                extra = (*extra, "--workers", str(several))
            if "--worker-kind" not in asked:  # threads are one process
                extra = (*extra, "--worker-kind", "process")
            note += f": {several} worker processes share the connections."
            return connections, extra, note
        if several > 1:
            most = math.floor(room * several / UNEVEN)
    return most, extra, f"{note}: {most:,} connections, not {connections:,}."


# One run -----------------------------------------------------------------


class Client:
    """One process of tools.bench.holder."""

    def __init__(
        self, port: int, connections: int, address: str, seconds: float
    ) -> None:
        self.command = [
            "-m", "tools.bench.holder", str(port), str(connections),
            "--address", address, "--seconds", f"{seconds:g}",
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
    port: int, connections: int, seconds: float
) -> Iterator[list[Client]]:
    """The client's processes, ended come what may."""
    limit = raise_open_files(0)
    running: list[Client] = []
    try:
        for share, address in holders(connections, limit):
            running.append(Client(port, share, address, seconds))
        yield running
    finally:
        for each in running:
            each.stop()


@dataclass
class State:
    """What the server and the kernel hold. Bytes where it says so."""

    user_bytes: int  # of all its processes; what they share counts once
    descriptors: int
    slab_bytes: int  # kernel objects of the whole machine
    buffer_bytes: int  # TCP buffers of the whole machine
    tcp_sockets: int  # of the whole machine
    overflows: int  # connections dropped: the queue for accept was full


def look(process: Process) -> State:
    """The state now; 0 for what cannot be known here."""
    members = process.processes()
    sockets = _file("/proc/net/sockstat")
    return State(
        user_bytes=sum(_memory(member) for member in members),
        descriptors=sum(_descriptors(member) for member in members),
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


def measure(
    server: Server, point: Point, extra: tuple[str, ...], folder: Path
) -> Run:
    """One run against a fresh server.

    Raises LateError if answers were due before all were open, and
    ServerError.
    """
    total, delay = point.clients, point.delay
    with start(server, delay, extra) as process:
        warm_up(process)
        members = len(process.processes())
        if server.step == 7:
            several = max(members - 1, 1)
            point.variant = f"{several} worker{'s' * (several > 1)}"
        time.sleep(SETTLE_SECONDS)  # for the last to be closed
        before = look(process)
        meter = Meter(process)
        with clients(process.port, total, delay + SLACK_SECONDS) as running:
            commands = [
                process.command,
                *(" ".join(["python3", *c.command]) for c in running),
            ]
            opened = wait(running, 1, meter)
            time.sleep(SETTLE_SECONDS)  # for the last to be accepted
            held = look(process)
            begun = min(tally.first_open for tally in opened)
            until = max(tally.last_open for tally in opened)
            if until + MARGIN_SECONDS > begun + delay and delay < 3600:
                raise LateError(until - begun)
            done = wait(running, 2, meter)
            texts = [client.output() for client in running]
        cost = meter.read()
        died = process.died() is not None
        words_of_it = process.last_words() if died else ""
    one = Run("\n".join(commands))
    fill(one, opened, done, before, held)
    take_cost(one, cost)
    errors = [tally.error for tally in done if tally.error]
    if died:
        one.error = f"the server died: {words_of_it}"
    elif one.requests < total:
        why = errors[-1] if errors else "the client ended early"
        one.error = f"{one.requests} of {total} were answered: {why}"
    keep_raw(folder, server.name, one.command, "".join(texts))
    return one


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
    begun = min(tally.first_open for tally in done)
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


def show(point: Point, one: Run, console: Console) -> None:
    """Print a run: one figure a line."""
    name = f"{point.server} {point.variant}".strip()
    console.print(f"\n[bold]{name}, --delay {point.delay:g}")
    for key, value in one.extra.items():
        console.print(f"  {key.replace('_', ' '):<46} {value:>14,.10g}")
    if one.error is not None:
        console.print(f"  [red]failed[/]: {escape(one.error)}")
