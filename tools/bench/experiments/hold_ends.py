"""How many clients fit on this machine, and what stopped a server.

For ``./bench.sh hold``. What is known beforehand is not tried out: a
server without descriptors left, a machine without memory or process
numbers, a client who would have to wait for a quarter of an hour. Every
end has a word, one of `KINDS`, and a sentence.
"""

import math
import re
import subprocess
import sys
from dataclasses import dataclass

from tools.bench import preflight
from tools.bench.experiments.holder import Tally
from tools.bench.machine import ROOM, SHARED, free_memory, thread_limits
from tools.servers import NO, POOL, Server

KINDS = {
    "threads": "the system gave the server no more threads",
    "descriptors": "a process may not open more files",
    "memory": "the machine has no more memory",
    "time": "the answers come too late",
    "closed": "the server closed connections without an answer",
    "wrong": "answers were not what they should be",
    "died": "the server ended",
    "start": "the server could not be measured",
}
# What a dead server's last words hold -> what it died of.
DEATHS = (
    ("SIGKILL", "memory"), ("MemoryError", "memory"),
    ("start new thread", "threads"), ("", "died"),
)
UNEVEN = 1.05  # how far the fullest worker may be above the mean
MOST_HOLDERS = 16  # processes of the load
SHARE = 0.8  # of what the whole machine has that one run may take
OTHER_BYTES = 16_384  # of the load and the kernel, for a connection
WORKERS = re.compile(r"--workers[= ](\d+)")


@dataclass(frozen=True)
class Fit:
    """How many clients to try, and why not all that were asked for.

    extra: more for the server's command line; note: a sentence if
    something had to be done to make them fit; stop: what stops the
    server at this number, "kind: sentence", or "" if all fit.
    """

    clients: int
    extra: tuple[str, ...] = ()
    note: str = ""
    stop: str = ""


# Beforehand --------------------------------------------------------------


def fit(
    server: Server, clients: int, limit: int, extra: tuple[str, ...],
    bytes_each: float = 0.0,
) -> Fit:
    """What of so many clients fits: descriptors, threads, memory.

    limit: open files a process; bytes_each: memory for a client, as
    measured with fewer; 0: not known.
    """
    found = fit_files(server, clients, limit, extra)
    for room, stop in (
        fit_threads(server, clients), fit_memory(clients, bytes_each),
    ):
        if room < found.clients:
            found = Fit(room, found.extra, found.note, stop)
    return found


def fit_files(
    server: Server, clients: int, limit: int, extra: tuple[str, ...]
) -> Fit:
    """What fits into so many open files a process.

    Step 07 gets more worker processes if that helps.
    """
    room = max(limit - ROOM, 0)
    may = f"this machine allows a process no more than {limit:,} open files"
    stop = ""
    if clients > room * MOST_HOLDERS:
        clients = room * MOST_HOLDERS
        stop = f"descriptors: {may}, and the load needs one for each client"
    if clients <= room:
        return Fit(clients, extra, "", stop)
    asked = " ".join((*server.options, *extra))
    if server.step == 7 and "--worker-kind thread" not in asked:
        given = WORKERS.search(asked)
        needed = math.ceil(clients * UNEVEN / room)
        several = int(given[1]) if given else needed
        if several >= needed:
            if given is None:
                several = max(needed, preflight.core_count())
                extra = (*extra, "--workers", str(several))
            if "--worker-kind" not in asked:  # threads are one process
                extra = (*extra, "--worker-kind", "process")
            note = f"{may}: {several} worker processes share the clients"
            return Fit(clients, extra, note, stop)
        if several > 1:
            room = math.floor(room * several / UNEVEN)
    return Fit(room, extra, "", f"descriptors: {may}")


def fit_threads(server: Server, clients: int) -> tuple[int, str]:
    """What a server with a thread for each client may start here.

    Only the limits that all programs share are kept at a distance: who
    used them up could not even log in any more. A limit of the server
    alone is there to be met.
    """
    limits = thread_limits()
    shared = {name: limits[name] for name in SHARED if name in limits}
    if server.lessons["threads"] != NO or not shared:
        return clients, ""
    name = min(shared, key=lambda each: shared[each])
    return int(SHARE * shared[name]), (
        f"threads: this machine allows {shared[name]:,} for all programs "
        f"together ({name}), and we leave some to the others"
    )


def fit_memory(clients: int, bytes_each: float) -> tuple[int, str]:
    """What fits into the memory that is free."""
    if not bytes_each:
        return clients, ""
    free = free_memory()
    return int(SHARE * free / (bytes_each + OTHER_BYTES)), (
        f"memory: {clients:,} clients would take "
        f"{clients * bytes_each / 1e9:,.1f} GB, {free / 1e9:,.1f} GB are free"
    )


def at_once(server: Server, extra: tuple[str, ...]) -> int | None:
    """How many requests can wait at once; None: all that come."""
    if server.lessons["overlap"] == NO:
        return 1
    if server.lessons["overlap"] != POOL:
        return None
    given = WORKERS.search(" ".join(extra))
    if given is None:  # the size of its pool, as its --help gives it
        done = subprocess.run(
            [sys.executable, str(server.path), "--help"],
            capture_output=True, text=True, check=False,
        )
        said = " ".join(done.stdout.split())
        given = re.search(r"--workers WORKERS [^-]*\((\d+)\)", said)
    return int(given[1]) if given else None


# Afterwards --------------------------------------------------------------


def stopped_by(
    server: Server, done: list[Tally], *, total: int, threads: int,
    fullest: int, limit: int, died: str | None, seconds: float,
) -> str:
    """What stopped a server, "kind: sentence"; "" if nothing did.

    done: what each process of the load said last; total: clients;
    threads: the most at once; fullest: descriptors of the process that
    had most; limit: descriptors a process may have; died: its last
    words, None if it lives; seconds: how long clients waited.
    """
    answered, late, wrong, failed = (
        sum(getattr(tally, name) for tally in done)
        for name in ("answered", "unanswered", "wrong", "failed")
    )
    errors = [tally.error for tally in done if tally.error]
    one_each = server.lessons["threads"] == NO
    if died is not None:
        kinds = (kind for words, kind in DEATHS if words in died)
        return f"{next(kinds)}: the server ended ({died})"
    if answered == total:
        return ""
    if any("Too many open files" in error for error in errors):
        why = "descriptors: the load may not open more files"
    elif fullest >= limit - 1:
        why = (
            f"descriptors: a process of it had {fullest:,} open, {limit:,} "
            "are allowed"
        )
    elif failed > late and one_each and threads < total:
        limits = thread_limits()
        name = min(limits, key=limits.__getitem__, default="not known")
        why = (
            f"threads: the server had {threads:,} and was given no more (the "
            f"nearest limit is {name})"
        )
    elif late:
        beside = f" from {threads:,} threads" if one_each else ""
        why = (
            f"time: {late:,} clients had no answer{beside} after "
            f"{seconds:.0f} s"
        )
    elif any(" 408 " in error for error in errors):
        why = (
            "time: the server gave up on requests that it had had no time "
            "to read (408)"
        )
    else:
        kind = "wrong" if wrong and not failed else "closed"
        why = f"{kind}: {errors[-1] if errors else 'the load ended early'}"
    return f"{why}; {answered:,} of {total:,} clients were answered"
