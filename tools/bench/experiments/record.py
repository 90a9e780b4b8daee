"""``./bench.sh record``: what clients see, and what the server does.

A few clients begin at the same moment, with one request each, against a
server as it is. They write down their moments; strace, attached before
they come, writes down each system call of each thread. Both use the
system's clock, and `timeline` puts them together.
"""

import argparse
import math
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
from rich.markup import escape

from tools.bench import calls, preflight
from tools.bench.recording import burst, timeline
from tools.bench.server import ServerError, start
from tools.bench.session import Session, servers_option
from tools.bench.strace import StraceError, attached
from tools.bench.table import typed
from tools.data import recording
from tools.data.recording import CLIENTS, MOST_BYTES, Recording
from tools.data.results import Results
from tools.servers import NO, POOL, Server

HELP = "20 clients at once: what each thread of a server does (a minute)"
PLACE = "recordings"
ON_EVERY_PAGE = True  # the site shows it beside the steps: build it after
DELAY = 0.1  # seconds each request waits
ATTEMPTS = 5  # to make a recording without a fault
WARM_UP = 3  # requests before strace takes hold
SETTLE_SECONDS = 0.05  # for the server to close what it has open
# What is shorter than so many µs is no span of its own; the next value is
# taken if the file would become too large, as on a busy machine.
DETAIL = (100, 200, 500, 1000, 2000, 5000)
# Times, threads, numbers; of structures only these are read.
STRACE = (
    "strace", "-ff", "-ttt", "-T", "-s", "1",
    "-e", "verbose=?accept,?accept4,?poll,?ppoll",
)  # fmt: skip

SLOWER = (
    "Seen with strace, which makes every system call slower, most of all "
    "the start of a thread: compare shapes, not milliseconds."
)
RINGS = (
    "Over io_uring, to accept, to receive and to send are no system calls: "
    "these moments are those at which io_uring_enter began or returned."
)
CHANCE = (  # faults that may not come again
    burst.BurstError,
    timeline.TimelineError,
    StraceError,
    psutil.Error,
)
FORBIDDEN = "Operation not permitted"  # what strace says


# What a server promises ---------------------------------------------------


def waiting(server: Server) -> int:
    """For how many of the clients it can wait at once."""
    overlap = server.lessons["overlap"]
    if overlap == POOL:
        return server.workers
    return 1 if overlap == NO else CLIENTS


def promised(server: Server) -> int:
    """How many of the clients it has in service at once."""
    # Where others wait for the pool unread, only its own are in service.
    pool = server.lessons["silent"] == POOL
    return waiting(server) if pool or waiting(server) == 1 else CLIENTS


def unlike(server: Server, found: Recording) -> str:
    """What it shows of the server that this does not promise; or ""."""
    wanted = promised(server)
    if found.peak != wanted:
        return f"{found.peak} requests at once instead of {wanted}"
    delays = math.ceil(CLIENTS / waiting(server))
    most = round((1 + 1.2 * delays) * DELAY * 1_000_000)
    if found.length > most:  # on a machine that has time
        took = f"{found.length / 1000:.0f} ms"
        return f"it took {took}, more than {most / 1000:.0f}"
    return ""


# One recording ------------------------------------------------------------


def attempt(server: Server, results: Results) -> Recording:
    """Record it once. Raises one of CHANCE, or ServerError."""
    options: tuple[str, ...] = ()
    if server.workers:
        options = ("--workers", str(server.workers))
    with (
        tempfile.TemporaryDirectory() as folder,
        start(server, DELAY, options) as process,
    ):
        process.warm_up(WARM_UP)
        workers = process.processes()
        owners: dict[int, int] = {}  # client's port -> process

        def look() -> None:  # a ring does not tell
            if len(workers) > 1 and len(owners) < CLIENTS:
                owners.update(
                    (connection.raddr.port, worker.pid)
                    for worker in workers
                    for connection in worker.net_connections("tcp4")
                    if connection.raddr
                )

        pids = [each.pid for each in workers]
        with attached(STRACE, pids, Path(folder, "calls")):
            threads = {  # of each process, the oldest first
                thread: each.pid
                for each in process.processes()
                for thread in sorted(found.id for found in each.threads())
            }
            moments = burst.burst(process.port, CLIENTS, look)
            time.sleep(SETTLE_SECONDS)
        made = calls.read(Path(folder))
    seen = timeline.build(made, moments, threads, DELAY, owners)
    words = ["--delay", f"{DELAY:g}", *server.options, *options]
    rings = "io_uring_enter" in seen.calls_by_name
    return as_fits(Recording(
        server=server.name,
        command=" ".join(["python3", server.file, *words]),
        started=results.started,
        commit=results.commit,
        machine=results.machine,
        tools={"strace": results.tools.get("strace", "?")},
        delay=DELAY, note=f"{SLOWER} {RINGS}" if rings else SLOWER,
        **vars(seen),
    ))


def as_fits(made: Recording) -> Recording:
    """In as much detail as a file has room for. Raises TimelineError."""
    for tiny in DETAIL:
        lanes = [
            replace(lane, spans=timeline.simplify(lane.spans, tiny))
            for lane in made.lanes
        ]
        fewer = replace(made, lanes=lanes)
        if len(recording.to_json(fewer).encode()) <= MOST_BYTES:
            return fewer
    raise timeline.TimelineError("there was too much for one file")


def record(server: Server, results: Results) -> tuple[Recording | None, str]:
    """Record it until all is well; what came out and what is wrong.

    None: there was a fault each time; the text is that of the last. A
    recording with a text: it is complete, but not what was promised.
    Raises StraceError if strace may not watch anything here.
    """
    complete: list[tuple[Recording, str]] = []
    fault = ""
    for _ in range(ATTEMPTS):
        try:
            found = attempt(server, results)
        except ServerError as error:
            return None, str(error)
        except CHANCE as error:
            fault = str(error)
            if FORBIDDEN in fault:
                raise
            continue
        why = unlike(server, found)
        if not why:
            return found, ""
        complete.append((found, f"{why}: this machine is too busy"))
    if complete:
        return min(complete, key=lambda each: each[0].length)
    return None, f"not recorded in {ATTEMPTS} attempts: {fault}"


# The command --------------------------------------------------------------


OPTIONS = (servers_option(),)


def impossible(options: argparse.Namespace, place: Path) -> tuple[int, str]:
    """The exit status and why it cannot be done; 0 if it can."""
    if options.repeats:
        return 2, "A recording is made once: leave out --repeats."
    if options.output and any(place.glob("*.json")):
        return 2, "--output names a folder that holds recordings."
    missing = preflight.no_strace()
    if sys.platform != "linux":
        return 1, (
            "Recording needs strace, which is for Linux: the site shows the "
            "recordings in docs/data/recordings."
        )
    if missing and "not installed" in missing:
        return 1, (
            "Recording needs strace, which is not installed: install the "
            "package strace, as in sudo apt-get install strace."
        )
    if missing:
        return 1, f"Recording is not possible: {missing}."
    return 0, ""


def run(options: argparse.Namespace) -> int:
    """Record the servers, save each at once, print; the exit status."""
    session = Session("record", options)
    say = session.console.print
    place = options.output or recording.OWN
    if options.reference:
        place = recording.REFERENCE
    status, why = impossible(options, place)
    if why:
        say(why)
        return status
    kept = 0
    faults = []
    try:
        for server in options.only:
            session.say(f"[bold]{server.name}[/]")
            found, fault = record(server, session.results)
            if fault:
                faults.append(f"{server.name}: {fault}.")
            if found and not (fault and options.reference):
                session.say(f"[dim]- {summary(found)}")
                found.save(place)
                kept += 1
        status = int(kept < len(options.only))
    except KeyboardInterrupt:
        status = 130
        faults.append("Interrupted: what is named above is kept." if kept
                      else "Interrupted before anything was recorded.")
    except StraceError as error:
        status = 1
        faults.append(
            f"{str(error).capitalize()}: strace may not watch other "
            "processes here; in a container, start that with "
            "--cap-add=SYS_PTRACE."
        )
    if kept:
        say(f"The recordings: {escape(typed(place))}")
    for fault in faults:
        say(escape(fault))
    return status


def summary(found: Recording) -> str:
    """What was recorded, in a line."""
    first = min(client.first_byte for client in found.clients) / 1000
    return (
        f"first response after {first:.0f} ms, last after "
        f"{found.length / 1000:.0f} ms; in service at once: {found.peak}; "
        f"threads: {len(found.lanes)}, waiting at once: {found.busy}; "
        f"system calls: {sum(found.calls_by_name.values()):,}"
    )
