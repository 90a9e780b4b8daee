"""How many clients fit on this machine, and what stopped a server.

For ``./bench.sh hold``. What is known beforehand is not tried out: a
server without descriptors left, a machine without memory or process
numbers, a client who would have to wait for a quarter of an hour. Every
end has a word, one of `KINDS`, and a sentence.
"""

import contextlib
import math
import os
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.bench import preflight
from tools.bench.holder import ROOM, Tally
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
UNEVEN = 1.05  # how far the fullest worker may be above the mean
MOST_HOLDERS = 16  # processes of the load
SHARE = 0.8  # of what the whole machine has that one run may take
LOAD_BYTES = 4096  # that the load itself needs for a connection
HELP_SECONDS = 20.0  # for a server to explain its options
MAPS_PER_THREAD = 2  # mappings in memory: its stack, and the guard below


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
    for other in (
        fit_threads(server, clients), fit_memory(clients, bytes_each),
    ):
        if other.clients < found.clients:
            found = Fit(other.clients, found.extra, found.note, other.stop)
    return found


def fit_files(
    server: Server, clients: int, limit: int, extra: tuple[str, ...]
) -> Fit:
    """What fits into so many open files a process.

    Step 07 gets more worker processes if that helps.
    """
    room = max(limit - ROOM, 0)
    may = f"this machine allows a process no more than {limit:,} open files"
    load = room * MOST_HOLDERS
    if clients > load:
        clients, stop = load, (
            f"descriptors: {may}, and the load needs one for each client too"
        )
    else:
        stop = ""
    if clients <= room:
        return Fit(clients, extra, "", stop)
    asked = " ".join((*server.options, *extra))
    if server.step == 7 and "--worker-kind thread" not in asked:
        given = re.search(r"--workers[= ](\d+)", asked)
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


def fit_threads(server: Server, clients: int) -> Fit:
    """What a server with a thread for each client may start here.

    Only the limits that all programs share are kept at a distance: who
    used them up could not even log in any more. A limit of the server
    alone is there to be met.
    """
    if server.lessons["threads"] != NO:
        return Fit(clients)
    shared = {
        name: most
        for name, most in thread_limits().items()
        if name in SHARED
    }
    if not shared:
        return Fit(clients)
    name = min(shared, key=lambda each: shared[each])
    room = int(SHARE * shared[name])
    if clients <= room:
        return Fit(clients)
    return Fit(
        room, stop=f"threads: this machine allows {shared[name]:,} for all "
        f"programs together ({name}), and we leave some to the others",
    )


def fit_memory(clients: int, bytes_each: float) -> Fit:
    """What fits into the memory that is free."""
    free = free_memory()
    room = int(SHARE * free / (bytes_each + LOAD_BYTES))
    if not bytes_each or clients <= room:
        return Fit(clients)
    return Fit(
        room, stop=f"memory: {clients:,} clients would take "
        f"{clients * bytes_each / 1e9:,.1f} GB, "
        f"{free / 1e9:,.1f} GB are free",
    )


def free_memory() -> int:
    """Bytes that we could get, in a container too."""
    free = int(psutil.virtual_memory().available)
    cgroup = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        most = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        free = min(free, max(most - used, 0))
    return free


SHARED = ("ulimit -u", "kernel.pid_max", "kernel.threads-max", "pids.max")


def thread_limits() -> dict[str, int]:
    """What limits the threads of a process here, by name.

    How many that allows is a rough number for memory: a thread takes a
    stack, a guard, and the first ones an arena of malloc.
    """
    found = {}
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most != resource.RLIM_INFINITY and os.geteuid():
        found["ulimit -u"] = most
    for name, file in (
        ("kernel.pid_max", "/proc/sys/kernel/pid_max"),
        ("kernel.threads-max", "/proc/sys/kernel/threads-max"),
        ("pids.max", "/sys/fs/cgroup/pids.max"),
        ("vm.max_map_count", "/proc/sys/vm/max_map_count"),
    ):
        with contextlib.suppress(OSError, ValueError):
            found[name] = int(Path(file).read_text())
    if "vm.max_map_count" in found:
        found["vm.max_map_count"] //= MAPS_PER_THREAD
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if resource.RLIM_INFINITY not in (space, stack) and stack:
        found["ulimit -v"] = space // stack
    return found


def at_once(server: Server, extra: tuple[str, ...]) -> int | None:
    """How many requests can wait at once; None: all that come."""
    if server.lessons["overlap"] == NO:
        return 1
    if server.lessons["overlap"] != POOL:
        return None
    given = re.search(r"--workers[= ](\d+)", " ".join(extra))
    return int(given[1]) if given else _pool_size(server)


def _pool_size(server: Server) -> int | None:
    """The size of a pool, as the server's --help gives it."""
    try:
        done = subprocess.run(
            [sys.executable, str(server.path), "--help"],
            capture_output=True, text=True, timeout=HELP_SECONDS,
            stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "COLUMNS": "200"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"--workers WORKERS\s[^\n]*\((\d+)\)", done.stdout)
    return int(found[1]) if found else None


def needed_seconds(clients: int, delay: float, together: int | None) -> float:
    """How long these clients take at the least, so many at once."""
    return delay if together is None else math.ceil(clients / together) * delay


def too_long(
    clients: int, together: int | None, delay: float, patience: float
) -> str:
    """The sentence for a server that would need longer than patience."""
    ways = "one after the other" if together == 1 else f"{together} at a time"
    needed = needed_seconds(clients, delay, together)
    return (
        f"time: {clients:,} requests of {delay:g} s, {ways}, take "
        f"{needed:,.0f} s; clients wait {patience:g} s"
    )


# Afterwards --------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What was seen of a server in a run.

    total: clients; done: what each process of the load said last;
    threads: the most at once; fullest: descriptors of the process that
    had most; limit: descriptors a process may have; died: its last
    words, None if it lives; seconds: how long clients waited.
    """

    total: int
    done: list[Tally]
    threads: int
    fullest: int
    limit: int
    died: str | None
    seconds: float


def stopped_by(server: Server, seen: Seen) -> str:
    """What stopped a server, "kind: sentence"; "" if nothing did."""
    answered = sum(tally.answered for tally in seen.done)
    if seen.died is not None:
        return _death(seen.died)
    if answered == seen.total:
        return ""
    count = f"{answered:,} of {seen.total:,} clients were answered"
    errors = [tally.error for tally in seen.done if tally.error]
    why = errors[-1] if errors else "the load ended early"
    if any("Too many open files" in error for error in errors):
        return f"descriptors: the load may not open more files; {count}"
    if seen.fullest >= seen.limit - 1:
        return (
            f"descriptors: a process of it had {seen.fullest:,} open, "
            f"{seen.limit:,} are allowed; {count}"
        )
    late = sum(tally.unanswered for tally in seen.done)
    wrong = sum(tally.wrong for tally in seen.done)
    failed = sum(tally.failed for tally in seen.done)
    if failed > late and _out_of_threads(server, seen):
        return f"threads: {_threads(seen)}; {count}"
    if late:
        beside = ""
        if server.lessons["threads"] == NO:
            beside = f" from {seen.threads:,} threads"
        return (
            f"time: {late:,} clients had no answer{beside} after "
            f"{seen.seconds:.0f} s; {count}"
        )
    if any(" 408 " in error for error in errors):
        return (
            "time: the server gave up on requests that it had had no time "
            f"to read (408); {count}"
        )
    if wrong and not failed:
        return f"wrong: {why}; {count}"
    return f"closed: {why}; {count}"


def _death(words: str) -> str:
    """Why a server ended, from its last words."""
    if "SIGKILL" in words or "MemoryError" in words:
        return f"memory: the server ended ({words})"
    if "start new thread" in words:
        return f"threads: the server ended ({words})"
    return f"died: the server ended ({words})"


def _out_of_threads(server: Server, seen: Seen) -> bool:
    """Did it need a thread for each, and have fewer?"""
    return server.lessons["threads"] == NO and seen.threads < seen.total


def _threads(seen: Seen) -> str:
    """How many threads it got, and which limit is the nearest."""
    limits = thread_limits()
    words = f"the server had {seen.threads:,} and was given no more"
    if not limits:
        return words
    name = min(limits, key=lambda each: limits[each])
    return f"{words} (the nearest limit is {name})"
