"""``./bench.sh hold``: how many clients at once can each server hold?

A request is under way for every client: it waits so long that all
connections are open before the first response is due. From level to level
there are more clients, until something stops the server. What it was is
part of the result, "kind: sentence". What a client costs is read while
all of them wait.
"""

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator

import psutil

from labs.hold import clients as load_program
from labs.hold.clients import Tally, total
from tools.bench import machine, preflight
from tools.bench import session as bench
from tools.bench.cost import Meter, States, look
from tools.bench.numbers import number
from tools.bench.outcome import keep_raw, take_cost
from tools.bench.server import ServerError, start
from tools.bench.table import Columns, figure
from tools.common.launch import Launched
from tools.common.raw_client import Client, NoResponse
from tools.data.results import Point, Run
from tools.servers import NO, POOL, ROOT, Server

HELP = "how many clients at once each server holds (about 15 minutes)"
SUITE = "hold"
LEVELS = (100, 1_000, 10_000, 65_536)  # clients at once
PATIENCE = 60.0  # seconds until a client without a response gives up
LONGER = (1, 2, 4, 8, 16)  # times the delay, until opening is faster
MARGIN_SECONDS = 2.0  # between the last connection and the first response
PER_LOAD = 16_384  # connections for one process of the load
MOST_LOADS = 16  # processes that hold fewer than that
WARM_UP = 20  # requests
SAMPLE_SECONDS = 0.5
SETTLE_SECONDS = 1.0
SURE = 1000  # clients from which on memory for each is sure enough
UNEVEN = 1.05  # how far the fullest worker may be above the mean
SHARE = 0.8  # of what the whole machine has that one run may take
THREAD_BYTES, ENTRY_BYTES = 65_536, 24_576  # for a client, roughly
MISSING = b"GET /missing HTTP/1.1\r\nHost: hold\r\nConnection: close\r\n\r\n"


def levels(text: str) -> list[int]:
    """A check for argparse: numbers of clients, the fewest first."""
    return sorted({int(number(1, 10**6)(word)) for word in text.split(",")})


OPTIONS = (
    bench.servers_option(),
    ("--clients", {
        "type": levels, "default": list(LEVELS), "metavar": "LIST",
        "help": "how many at once, one after the other until a server is "
        f"stopped (default: {','.join(map(str, LEVELS))})",
    }),
    bench.number_option(
        "--delay", 0.1, 3600, 10.0, "seconds each request waits, made "
        "longer if opening takes longer", float,
    ),
    bench.WORDS,
)  # fmt: skip


def measure(session: bench.Session) -> int:
    """Every server, from level to level."""
    options = session.options
    limit = machine.raise_open_files(options.clients[-1] + machine.ROOM)
    session.results.machine.open_files = limit
    if limit < 2 * machine.ROOM:
        raise bench.Refused(
            f"a process may open no more than {limit:,} files here, and at "
            f"least {2 * machine.ROOM} are needed: raise ulimit -n"
        )
    try:
        for server in options.only:
            for clients in options.clients:
                if stopped(session, server, clients):
                    break
    finally:
        session.show(
            COLUMNS, "clients at once; seconds until the last response"
        )
    return int(any(p.reason.startswith("start: ") for p in session.points))


COLUMNS: Columns = {
    "": lambda point: f"{point.server}, {point.clients:,} clients",
    "last response": figure("seconds", "{:,.1f}"),
    "held": figure("connections"),
    "bytes a client": figure("user_bytes_per_connection"),
    "threads": figure("threads"),
    "stopped by": lambda point: point.reason.partition(":")[0],
}


def stopped(session: bench.Session, server: Server, asked: int) -> bool:
    """Measure one server with so many clients; was it stopped there?"""
    options, limit = session.options, session.results.machine.open_files
    clients, words, most = room(server, asked, limit, options.options)
    session.say(f"[bold]{server.name}[/]: {clients:,} clients")
    point = Point(server.name, SUITE, asked, options.delay, keep_alive=True)
    for _ in range(session.repeats(1)):
        for longer in LONGER:
            point.delay = options.delay * longer
            one = Run("")
            stop = f"time: opening takes more than {point.delay:g} s"
            try:
                one, stop = run_once(
                    session, server, words, clients, point.delay
                )
            except TimeoutError:
                continue
            except ServerError as error:
                stop = f"start: {error}"
            break
        one.error = stop.partition(": ")[2] or None
        session.keep(point, one)
        point.status, point.reason = "failed" if stop else "ok", stop or most
        point.end = bool(point.reason)
        if stop:
            break
    session.save()
    return point.end


def room(
    server: Server, clients: int, limit: int, words: tuple[str, ...]
) -> tuple[int, tuple[str, ...], str]:
    """How many of so many clients fit, and what stops the others.

    What is known beforehand is not tried out. limit: open files a
    process. Between the two: more for the server's command line, since
    step 07 gets more workers if one has no room.
    """
    files, free = limit - machine.ROOM, machine.free_memory()
    one_each = server.lessons["threads"] == NO
    each = THREAD_BYTES if one_each else ENTRY_BYTES
    asked = " ".join((*server.options, *words))
    if server.step == 7 and clients > files and "--worker" not in asked:
        several = math.ceil(min(clients / files, MOST_LOADS) * UNEVEN)
        several = max(several, preflight.core_count())
        words += "--workers", str(several), "--worker-kind", "process"
    fits = [
        (clients, ""),
        # Step 07 is several processes, and so is the load.
        (files * (MOST_LOADS if server.step == 7 else 1), "descriptors: this "
         f"machine allows a process no more than {limit:,} open files"),
    ]
    if clients > SURE:  # fewer need hardly anything
        fits.append((int(SHARE * free / each), "memory: "
                     f"{free / 1e9:,.1f} GB are free on this machine"))
    # A limit of the server alone is there to be met. But who uses up what
    # all programs share could not even log in any more.
    fits += [
        (int(SHARE * most), f"threads: this machine allows {most:,} for all "
         f"programs together ({name}), and we leave some to the others")
        for name, most in machine.thread_limits().items()
        if one_each and name in machine.SHARED
    ]
    fitting, stop = min(fits)
    return fitting, words, stop


# One run -----------------------------------------------------------------


def run_once(
    session: bench.Session, server: Server, words: tuple[str, ...],
    clients: int, delay: float,
) -> tuple[Run, str]:
    """One run against a fresh server, and what stopped the server.

    Raises ServerError, and TimeoutError if a response was due before all
    connections were open.
    """
    limit = session.results.machine.open_files
    at_once = server.lessons["overlap"] not in (NO, POOL)
    to_open = delay if at_once else PATIENCE
    to_wait = max(PATIENCE, 2 * delay) if at_once else PATIENCE
    with start(server, delay, words) as process:
        warm_up(process.port)
        time.sleep(SETTLE_SECONDS)  # for the last to be closed
        own = psutil.Process(process.pid)
        before, meter = look(own, shares=True), Meter(process)
        with load(process.port, clients, limit, to_open, to_wait) as loads:
            opened = wait(loads, 1, meter)
            time.sleep(SETTLE_SECONDS)  # for the last to be accepted
            held = look(own, shares=True)
            took = opened.last_open - opened.first_open
            if at_once and took + MARGIN_SECONDS > delay:
                raise TimeoutError
            done = wait(loads, 2, meter)
            said = "".join(each.output for each in loads)
        cost = meter.read()
        died = process.last_words() if process.status() is not None else ""
    shown = [" ".join(["python3", *each.words[1:]]) for each in loads]
    one = Run("\n".join([process.command, *shown]))
    keep_raw(session.folder, server.name, one.command, said)
    take_cost(one, cost)
    fill(one, done, before, held)
    one.failed = clients - done.answered
    full = any(each.descriptors >= limit - 1 for each in held.values())
    return one, stopped_by(server, done, clients, cost.threads, full, died)


def warm_up(port: int) -> None:
    """Requests that are answered at once. Raises ServerError."""
    try:
        for _ in range(WARM_UP):
            with Client(port, MISSING) as client:
                client.response()
    except (OSError, NoResponse) as error:
        raise ServerError(f"no response to GET /missing: {error}") from None


@contextlib.contextmanager
def load(
    port: int, clients: int, limit: int, to_open: float, to_wait: float
) -> Iterator[list[Launched]]:
    """The processes of the load, ended come what may."""
    several = math.ceil(clients / min(PER_LOAD, limit - machine.ROOM))
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(Launched(
                [sys.executable, "-m", load_program.__name__, str(port),
                 str(place), str((clients + place) // several),
                 f"{to_open:g}", f"{to_wait:g}"], cwd=ROOT,
            ))
            for place in range(several)
        ]


def wait(loads: list[Launched], lines: int, meter: Meter) -> Tally:
    """Wait until each has printed so many lines; the sum of the last."""
    while not all(
        each.status() is not None or each.output.count("}\n") >= lines
        for each in loads
    ):
        meter.sample()
        time.sleep(SAMPLE_SECONDS)
    last = [each.output.strip().rpartition("\n")[2] for each in loads]
    return total([Tally(**json.loads(line or "{}")) for line in last])


def fill(one: Run, done: Tally, before: States, held: States) -> None:
    """The figures of a run."""
    begun = done.first_open
    one.requests = done.answered
    if done.last_response:
        one.seconds = round(done.last_response - begun, 3)
    memory, descriptors = (
        sum(getattr(state, name) for state in held.values())
        - sum(getattr(state, name) for state in before.values())
        for name in ("memory", "descriptors")
    )
    figures = {
        "connections": done.opened,
        "answered": done.answered,
        "open_seconds": done.last_open - begun,
        "first_answer_seconds": min(done.first_response - begun, one.seconds),
        "descriptors": descriptors,
    }
    if memory > 0 and descriptors >= SURE:
        figures["user_bytes_per_connection"] = memory / descriptors
    one.extra = {name: round(value, 3) for name, value in figures.items()}


def stopped_by(
    server: Server, done: Tally, clients: int, threads: int, full: bool,
    died: str,
) -> str:
    """What stopped a server, "kind: sentence"; "" if nothing did.

    threads: the most at once; full: whether a process had all descriptors
    that it may have; died: the server's last words, "" if it lives.
    """
    if died:
        return f"died: the server ended ({died})"
    if done.answered == clients:
        return ""
    one_each = server.lessons["threads"] == NO
    closed = clients - done.answered - done.unanswered
    if full:
        why = "descriptors: a process of it had all that are allowed"
    elif closed and one_each and threads < clients:
        limits = machine.thread_limits()
        name = min(limits, key=limits.__getitem__, default="not known")
        why = (
            f"threads: the server had {threads:,} and was given no more (the "
            f"nearest limit is {name})"
        )
    elif done.unanswered:
        beside = f" from {threads:,} threads" if one_each else ""
        why = f"time: {done.unanswered:,} clients had no response{beside}"
    else:
        why = f"closed: {done.error or 'the load ended early'}"
    return f"{why}; {done.answered:,} of {clients:,} clients were answered"
