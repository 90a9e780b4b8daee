"""``./bench.sh soak``: mixed clients, good and bad, for a quarter of an hour.

Many clients in one asyncio loop, each taking up one role after the other
(see `soak_clients`). From time to time a worker of the server is killed
(SIGKILL). It passes if no rule was broken, if descriptors, threads and
memory are at the end where they were after a warm-up, if nothing was
written to stderr, and if the server ended with status 0 on SIGTERM.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import psutil

from tools.bench.cost import Meter, States, look
from tools.bench.experiments.soak_clients import PATIENCE, Clients, Counts
from tools.bench.outcome import keep_raw, take_cost
from tools.bench.server import Running, start
from tools.bench.session import WORDS, Session, number_option, servers_option
from tools.common.launch import STOP_SECONDS
from tools.data.results import Point, Run
from tools.servers import NO, YES, Server, by_name

HELP = "mixed load with resets, slow readers and killed workers (15 minutes)"
SUITE = "soak"
CLIENTS = 32  # at a time
MINUTES = 15.0
DELAY = 0.02  # seconds each request waits
WORKERS = ("--workers", "2")
PATIENCE_ALONE = 60.0  # seconds, where the wait of one holds up the others
TELL_SECONDS = 30.0  # between two lines on the screen
RESTART_SECONDS = 3.0  # from a kill until there is a new worker
REST_SECONDS = 15.0  # until nothing is left of clients that are gone
SETTLED_SECONDS = 1.5  # unchanged for so long: the server is at rest
GROWTH_BYTES = 16 * 2**20  # of a process; more is a leak


@dataclass
class Report(Counts):
    """What happened. Nothing broke if ``faults`` is empty.

    kills: how many workers; restart_seconds: the longest that one was
    missing; growth_bytes: the most a process that lived all the time has
    grown.
    """

    seconds: float = 0.0
    kills: int = 0
    restart_seconds: float = 0.0
    growth_bytes: int = 0
    before: States = field(default_factory=dict)
    after: States = field(default_factory=dict)


def total(states: States, name: str) -> int:
    """The sum of one figure over all processes."""
    return sum(getattr(state, name) for state in states.values())


async def rest(server: psutil.Process, before: States | None) -> States:
    """Wait until nothing changes, and is no more than before."""

    def counts(states: States) -> list[int]:
        return [total(states, name) for name in ("descriptors", "threads")]

    most = counts(before) if before is not None else [sys.maxsize] * 2
    begun = since = time.monotonic()
    last: list[int] = []
    while True:
        found, wall = look(server), time.monotonic()
        now = counts(found)
        if now != last:
            last, since = now, wall
        less = all(a <= b for a, b in zip(now, most, strict=True))
        settled = wall - since > SETTLED_SECONDS and less
        if settled or wall - begun > REST_SECONDS:
            return found
        await asyncio.sleep(0.1)


def compare(report: Report) -> None:
    """Descriptors, threads and memory must be where they began."""
    before, after = report.before, report.after
    faults = report.faults
    if len(after) != len(before):
        faults.append(f"{len(before)} processes became {len(after)}")
    for name in ("descriptors", "threads"):
        old, new = total(before, name), total(after, name)
        if new > old:
            what = "open descriptors" if name == "descriptors" else name
            faults.append(f"{old} {what} became {new}")
    for pid in before.keys() & after.keys():
        old, new = before[pid].memory, after[pid].memory
        report.growth_bytes = max(report.growth_bytes, new - old)
        if new - old > GROWTH_BYTES:
            faults.append(f"a process grew from {old:,} to {new:,} bytes")


async def killer(
    clients: Clients, server: psutil.Process, seconds: float, report: Report
) -> None:
    """Kill a worker now and then, and see that another takes its place.

    Always the youngest: the eldest lives through it all, and what it has
    in the end can be compared.
    """
    every = min(10.0, seconds / 4)
    while True:
        await asyncio.sleep(clients.random.uniform(0.5, 1.5) * every)
        late = time.monotonic() + RESTART_SECONDS > clients.until
        workers = server.children()
        if late or clients.over() or not workers:  # threads: none to kill
            return
        youngest = max(workers, key=lambda w: (w.create_time(), w.pid))
        begun = time.monotonic()
        clients.kills.append(begun)
        report.kills += 1
        os.kill(youngest.pid, signal.SIGKILL)
        old = {worker.pid for worker in workers}
        gone, new = 0.0, old
        while new == old or len(new) < len(old):
            if gone > 3 * RESTART_SECONDS:
                break
            await asyncio.sleep(0.02)
            new = {w.pid for w in server.children() if alive(w)}
            gone = time.monotonic() - begun
        report.restart_seconds = max(report.restart_seconds, gone)
        if gone > RESTART_SECONDS:
            clients.fault(f"a killed worker was missing for {gone:.1f} s")


def alive(process: psutil.Process) -> bool:
    """Does it run, and not only wait for its parent to notice its end?"""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


# A soak ---------------------------------------------------------------


def soak(
    port: int, pid: int, seconds: float, seed: int, *,
    clients: int = CLIENTS, polite: bool = False,
    patience: float = PATIENCE,
    tick: Callable[[Report], object] = lambda report: None,
) -> Report:
    """Let mixed clients loose on a server for about so many seconds.

    port: of the server on 127.0.0.1; pid: of its first process, whose
    children are its workers; seed: of all that is random; clients: at a
    time; polite: without those that hold up a server which serves one
    client at a time; patience: seconds for an answer; tick: called about
    once a second.
    """
    server = psutil.Process(pid)
    ours = Clients(port, seed, polite, patience)
    report = Report()
    ours.counts = report

    async def mix(seconds: float, kill: bool = True) -> None:
        """All clients at once for so long, then until all are done."""
        ours.until = time.monotonic() + seconds
        pending = {asyncio.create_task(ours.client()) for _ in range(clients)}
        if kill:
            work = killer(ours, server, seconds, report)
            pending.add(asyncio.create_task(work))
        while pending:
            done, pending = await asyncio.wait(pending, timeout=1.0)
            for task in done:
                task.result()
            tick(report)

    async def whole() -> None:
        """Warm up, look, mix, look again."""
        await ours.probe()
        if report.faults:
            return
        warm = min(max(seconds / 10, 0.5), 30.0)
        await mix(warm, kill=False)
        report.before = await rest(server, None)
        await mix(seconds - warm)
        report.after = await rest(server, report.before)
        compare(report)
        await ours.probe()

    begun = time.monotonic()
    asyncio.run(whole())
    report.seconds = time.monotonic() - begun
    return report


# The experiment -------------------------------------------------------


OPTIONS = (
    servers_option([by_name("07")]), WORDS,
    number_option("--minutes", 0.05, 10_000, MINUTES, "how long", float),
    number_option("--seed", 0, 2**32, 1, "of all that is random"),
    number_option("--clients", 1, 1000, CLIENTS, "at a time"),
)


def options_of(server: Server, extra: tuple[str, ...]) -> tuple[str, ...]:
    """The server's options: two workers unless they say otherwise."""
    if server.step == 7 and not any("--workers" in word for word in extra):
        return (*WORKERS, *extra)
    return extra


def manners(server: Server) -> tuple[bool, float]:
    """Must clients be polite, and how long must they wait for answers?

    Where a silent client holds up the others, there can be none.
    """
    polite = server.lessons["silent"] != YES
    alone = polite or server.lessons["overlap"] == NO
    return polite, PATIENCE_ALONE if alone else PATIENCE


def measure(session: Session) -> int:
    """One soak after the other, each with a seed of its own."""
    options = session.options
    for server in options.only:
        extra = options_of(server, options.options)
        point = Point(
            server.name, SUITE, options.clients, DELAY, keep_alive=True,
            variant=" ".join(extra),
        )

        work = point, partial(measure_one, session, server, extra, point)
        session.rounds([work], 1, told)
        bad = [run.error for run in point.runs if run.error is not None]
        if bad:  # one is enough here
            point.status, point.reason = "failed", bad[0]
    return session.status()


def measure_one(
    session: Session, server: Server, extra: tuple[str, ...], point: Point
) -> Run:
    """One soak of a server, to its end."""
    options = session.options
    seed = options.seed + len(point.runs)
    polite, patience = manners(server)
    with start(server, DELAY, extra) as process:
        meter = Meter(process)
        report = soak(
            process.port, process.pid, 60 * options.minutes, seed,
            clients=options.clients, polite=polite, patience=patience,
            tick=ticker(meter, session),
        )
        cost = meter.read()
        report.faults += end(process)
    one = Run(f"{process.command}\nseed {seed}, {options.clients} clients")
    one.requests, one.failed = report.answered, len(report.faults)
    one.seconds = round(report.seconds, 3)
    one.requests_per_second = round(report.answered / report.seconds, 3)
    # CPU: of those that were not killed; who is gone cannot be asked.
    take_cost(one, cost)
    one.extra = figures(report)
    one.error = "; ".join(report.faults) or None
    text = json.dumps(dataclasses.asdict(report), indent=1)
    keep_raw(session.folder, server.name, one.command, text)
    return one


def ticker(meter: Meter, session: Session) -> Callable[[Report], None]:
    """Watches memory, and tells now and then how far we are."""
    begun = last = time.monotonic()

    def tick(report: Report) -> None:
        nonlocal last
        meter.sample()
        if time.monotonic() - last > TELL_SECONDS:
            last = time.monotonic()
            session.say(
                f"  {last - begun:,.0f} s: {report.answered:,} answered on "
                f"{report.connections:,} connections, {report.kills} workers "
                f"killed, {len(report.faults)} faults"
            )

    return tick


def end(process: Running) -> list[str]:
    """SIGTERM, and what is wrong with how it ends."""
    if process.status() is not None:
        return [f"the server died: {process.last_words()}"]
    process.signal(signal.SIGTERM)
    status = process.wait(STOP_SECONDS)
    if status is None:
        return [f"it still runs {STOP_SECONDS:g} s after SIGTERM"]
    if status:
        words = process.last_words()
        return [f"SIGTERM ended it with status {status}: {words}"]
    if process.complaints:
        return [f"on stderr: {process.last_words()}"]
    return []


def figures(report: Report) -> dict[str, float]:
    """The counts of a report, by names that say their unit."""
    return {
        "requests_answered": report.answered,
        "connections": report.connections,
        "requests_cut_by_client": report.cut_by_client,
        "connections_cut_by_kill": report.cut_by_kill,
        "workers_killed": report.kills,
        "longest_restart_seconds": round(report.restart_seconds, 3),
        "growth_bytes": report.growth_bytes,
        **{f"role_{name}": count for name, count in report.roles.items()},
    }


def told(one: Run) -> str:
    """The counts, for the screen."""
    lines = [
        f"  {name.replace('_', ' '):<28} {value:>12,.10g}"
        for name, value in one.extra.items()
    ]
    return "\n".join(["Nothing broke.", *lines])
