"""Servers under a load, in turns: ``./bench.sh crowd``, ``gains`` and more.

EXPERIMENTS, at the end, is the table of them: what --help says, the
options, what is measured, and the columns of what is printed.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools.bench import interpreters, preflight, wrk
from tools.bench.ab import MANY, Load
from tools.bench.experiments import ideas
from tools.bench.machine import ROOM, raise_open_files
from tools.bench.numbers import number
from tools.bench.peers import start
from tools.bench.session import (
    Option,
    Refused,
    Session,
    Work,
    number_option,
)
from tools.bench.table import (
    MEGABYTE,
    Cell,
    failures,
    figure,
    spread,
    title_of,
)
from tools.data.results import Point, Run
from tools.peers import Peer
from tools.peers import by_name as peer_by_name
from tools.servers import ROOT, Server, by_name

CAN_PIN = hasattr(os, "sched_setaffinity")  # not on macOS
CELLS: dict[str, Cell] = {
    "clients": lambda p: f"{p.clients:,}",
    "requests/s": spread("requests_per_second"),
    "possible": lambda p: f"{p.possible or 0:,.0f}",
    "mean ms": figure("mean", "{:.2f}"),
    "stdev ms": figure("stdev", "{:.2f}"),
    "p99 ms": figure("p99", "{:.2f}"),
    "max ms": figure("max", "{:.2f}"),
    "MB/s": figure("sent_mb_per_second", "{:.1f}"),
    "user us": figure("cpu_user_ms", "{:.1f}", 0.001),
    "system us": figure("cpu_system_ms", "{:.1f}", 0.001),
    "CPU us": spread("cpu_ms", "{:.2f}", 0.001),
    "speed-up": spread("speed_up_times", "{:.2f}"),
    "cores": figure("cores", "{:.2f}"),
    "load cores": figure("load_cores", "{:.2f}"),
    "load's limit": figure("load_limit_per_second"),
    "MB": figure("peak_memory", "{:.1f}", MEGABYTE),
    "failed": failures,
}


@dataclass(frozen=True)
class Experiment:
    """One of them; HELP and OPTIONS are as those of a module.

    work: what is measured, in a session; its stack ends after that;
    columns: names of CELLS; repeats: how often, unless --repeats says so;
    note: below the last table.
    """

    HELP: str
    OPTIONS: tuple[Option, ...]
    work: Callable[[Session, contextlib.ExitStack], Iterator[Work]]
    columns: tuple[str, ...]
    repeats: int = 5
    note: str = ""

    def measure(self, session: Session) -> int:
        """All points in turns, and a table of each suite."""
        with contextlib.ExitStack() as stack:
            session.rounds([*self.work(session, stack)], self.repeats)
        suites = [*dict.fromkeys(point.suite for point in session.points)]
        for suite in suites:
            points = session.results.suite(suite)
            columns = {name: CELLS[name] for name in self.columns}
            note = self.note if suite == suites[-1] else ""
            title = suite if len(suites) > 1 else None
            session.show({"server": title_of, **columns}, note, points, title)
        return session.status()


def work_of(
    session: Session, server: Server, suite: str, load: Load | wrk.Load,
    *words: str, variant: str, delay: float = 0.0,
    compute: int = 0, **how: Any,
) -> Work:
    """A point of one of our servers; words, how: see `Session.measure`."""
    point = Point(
        server.name, suite, load.clients, delay, compute,
        keep_alive=load.keep_alive, variant=variant,
    )
    if compute:
        words = ("--compute", str(compute), *words)
    how = {"name": server.name, "delay": delay, **how}
    return point, partial(session.measure, server, load, *words, **how)


def count(how_many: int, what: str) -> str:
    """Such as "2 workers"."""
    return f"{how_many} {what}{'s' * (how_many > 1)}"


def crowd(session: Session, stack: contextlib.ExitStack) -> Iterator[Work]:
    """Many clients, connections new and kept. Raises Refused.

    With a delay of 0.1 s every client can get ten responses a second.
    Whether all do is decided by the server and by the load generator, so
    how busy that is stands beside every figure. Below its limit, clients
    come in waves: those that begin together come back together.
    """
    options = session.options
    most = max(options.clients)
    limit = raise_open_files(most + ROOM)
    session.results.machine.open_files = limit
    if limit < most + ROOM:
        raise Refused(
            f"this machine allows a process no more than {limit:,} open "
            f"files: {most:,} clients are not possible"
        )
    for clients in options.clients:
        for suite, keep in (("crowd-new", False), ("crowd-keep", True)):
            load = Load(clients, MANY, options.seconds, keep_alive=keep)
            yield work_of(
                session, by_name("07"), suite, load, "--workers", "1",
                variant="1 worker", delay=0.1, warm_up=2, busy=True,
            )


def gains(session: Session, stack: contextlib.ExitStack) -> Iterator[Work]:
    """07 as it is and without each idea, in both suites."""
    seconds = session.options.seconds
    loads: dict[str, Load | wrk.Load] = {
        ideas.KEEP: Load(100, MANY, seconds, keep_alive=True),
        ideas.NEW: Load(100, MANY, seconds),
    }
    if version := wrk.version():
        session.results.tools["wrk"] = version
        loads[ideas.KEEP] = wrk.Load(100, seconds)
    servers = stack.enter_context(ideas.copies())
    for suite, load in loads.items():
        for idea in ideas.IDEAS:
            name = idea["name"]
            if suite in idea.get("suites", loads):
                yield work_of(
                    session, servers[name], suite, load, "--workers", "1",
                    variant=name, warm_up=100,
                )


RUN_ON = (
    *(f"python3.{minor}" for minor in range(11, 16)),
    "python3.13t", "python3.14t", "python3.15t", "pypy3.11",
)


def pythons(session: Session, stack: contextlib.ExitStack) -> Iterator[Work]:
    """06 and 07 under both loads, on every interpreter. Raises Refused.

    Only the server runs on it, and only its CPU time per request is
    compared: the load takes the other core, whatever serves. Where the
    build has a JIT, it is measured without and with it.
    """
    options = session.options
    found = [
        each for each in interpreters.choose(options.pythons, RUN_ON)
        if interpreters.numbers(each) >= [3, 11]  # on which they run
    ]
    if not found:
        raise Refused("none of these interpreters is 3.11 or newer")
    names = {python.name for python in found}
    if not options.pythons and (gone := sorted({*RUN_ON} - names)):
        session.say(f"Not on the PATH: {', '.join(gone)}.")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    jits = [interpreters.with_jit(each, folder) for each in found]
    found += [each for each in jits if each and each.name not in names]
    found.sort(key=interpreters.order)
    session.note_pythons(found)
    for suite, keep in (("pythons-keep", True), ("pythons-new", False)):
        load = Load(50, MANY, options.seconds, keep_alive=keep)
        for name, words in (("06", ()), ("07", ("--workers", "1"))):
            for python in found:
                variant = f"{python.version}, {python.build}"
                yield work_of(
                    session, by_name(name), suite, load, *words,
                    variant=variant, python=python.program,
                    name=f"{name}, {variant}",
                )


def scale(session: Session, stack: contextlib.ExitStack) -> Iterator[Work]:
    """07 with 1, 2 ... workers, and 03 on one core and on all.

    A request computes for a millisecond and does not wait, so more than a
    thousand a second need another core. Each has a connection of its own:
    the kernel deals connections out to the workers by a hash, without
    looking at who is busy. Those that are kept may go 6 to 2; new ones
    are dealt again and again.
    """
    cores = preflight.core_count()
    steps = interpreters.steps_in(sys.executable, 0.001)
    load = Load(64, MANY, session.options.seconds)
    sizes = range(1, cores + 1)
    seven = [(count(n, "worker"), ("--workers", str(n))) for n in sizes]
    three = [(count(n, "core"), ()) for n in sorted({1, cores})
             if n > 1 or CAN_PIN]
    for name, cases in (("07", seven), ("03", three)):
        alone: Point | None = None
        for variant, words in cases:
            point, measure = work_of(
                session, by_name(name), "scale", load, *words,
                variant=variant, compute=steps, warm_up=50, busy=True,
                one_core=variant == "1 core",
            )
            alone = alone or point
            yield point, partial(speed_up, measure, alone, point)


def speed_up(measure: Callable[[], Run], alone: Point, point: Point) -> Run:
    """A run, and how many times faster it is than the one alone.

    Than that of the same turn: both had the same disturbances.
    """
    one = measure()
    turn = len(point.runs)
    for other in alone.runs[turn : turn + 1]:
        if one.requests_per_second and other.requests_per_second:
            times = one.requests_per_second / other.requests_per_second
            one.extra["speed_up_times"] = round(times, 4)
    return one


# static ---------------------------------------------------------------------

PAGE_NAME = "index.html"
PAGE = (b"<!doctype html>\n<title>A page of text</title>\n" + 200
        * b"<p>One line of many, as a page of text has them.</p>\n")[:6_700]
PROGRAM = ".node-peers/node_modules/http-server/bin/http-server"
# A line for each request is of no use, and would fill a file.
QUIET = ("sh", "-c", 'exec "$@" 2>/dev/null', "sh")
SITE = ("--bind", "{host}", "--directory", "{site}", "{port}")
KEPT = ("--protocol", "HTTP/1.1", *SITE)
# It sends head and body in two pieces. The second waits until the client has
# acknowledged the first (Nagle's algorithm, delayed acknowledgements).
NO_DELAY = (
    "import runpy, socketserver as s; "
    "s.StreamRequestHandler.disable_nagle_algorithm = True; "
    "runpy.run_module('http.server', run_name='__main__')"
)
CLOSING = Peer(
    "http.server", "as it is", "",
    (*QUIET, "{ours}", "-m", "http.server", *SITE),
)
NODE = Peer(  # without the listings of folders that it could make
    "node http-server", "", "",
    ("node", PROGRAM, "{site}", "-a", "{host}", "-p", "{port}", "--silent"),
    get="npm install --prefix .node-peers http-server@14.1.1",
)
SEVEN = (
    "{ours}", "07_parallel/server.py", "--port", "{port}", "--delay", "0",
    "--directory", "{site}", "--workers",
)
def static_peers() -> list[Peer]:
    """The servers of the comparison; their title says what sets each apart."""
    nginx = peer_by_name("nginx")
    return [
        CLOSING,
        Peer("http.server", "keep-alive", "",
             (*QUIET, "{ours}", "-m", "http.server", *KEPT)),
        Peer("http.server", "keep-alive, TCP_NODELAY", "",
             (*QUIET, "{ours}", "-c", NO_DELAY, *KEPT)),
        NODE, Peer("nginx", "1 worker", "", nginx.start, get=nginx.get),
        *(
            Peer("07", count(workers, "worker"), "", (*SEVEN, str(workers)))
            for workers in sorted({1, preflight.core_count()})
        ),
    ]


def static(session: Session, stack: contextlib.ExitStack) -> Iterator[Work]:
    """A page from each server; a row says why one cannot be had.

    PyParallel's comparison of 2014, repeated: wrk with 8 connections, a
    page of about 6.7 kB. There http.server closed after each response
    while PyParallel kept its connections; here it is measured both ways.
    Raises Refused.
    """
    results = session.results
    version = wrk.version()
    if version is None:
        raise Refused(
            "wrk makes this load and is missing: apt-get install wrk (or "
            "brew install wrk)"
        )
    results.load = "wrk"
    results.tools.pop("ab", None)
    results.tools["wrk"] = version
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    site = make_site(Path(folder))
    for peer in static_peers():
        point = Point(
            peer.name, "static", 8, 0.0, keep_alive=peer is not CLOSING,
            variant=peer.title,
        )
        if why := static_missing(peer):
            session.skip(point, why)
            continue
        if peer.get:
            program = peer_by_name(peer.start[0])
            results.tools.update(start.versions([program]))
        yield point, partial(static_run, session, peer, site)


def static_missing(peer: Peer) -> str:
    """Why it cannot be measured, and how to change that; else ""."""
    if not peer.get:  # it is ours, or Python's
        return ""
    if why := start.missing([peer_by_name(peer.start[0])]):
        return "".join(why.values())
    if peer is NODE and not (ROOT / PROGRAM).is_file():
        return f"http-server is not installed: {peer.get}"
    return ""


def make_site(folder: Path) -> Path:
    """A folder with the page, readable for a worker of another user."""
    site = folder / "site"
    site.mkdir()
    (site / PAGE_NAME).write_bytes(PAGE)
    return site


def static_run(session: Session, peer: Peer, site: Path) -> Run:
    """One run against a fresh server. Raises ServerError."""
    load = wrk.Load(8, session.options.seconds, threads=2)
    with start.start(peer, PAGE, site) as process:
        url = f"{process.url}{PAGE_NAME}"
        preflight.output_of(*wrk.Load(8, 1, threads=2).command(url))
        one = session.load(
            process, load, name=f"{peer.name}, {peer.title}", url=url,
            command=process.command.removeprefix(" ".join(QUIET)).strip(),
        )
    one.body_bytes = len(PAGE)
    return one


# threads --------------------------------------------------------------------

NAMES = tuple(
    f"python3.{minor}{free}" for free in ("t", "") for minor in (15, 14, 13)
)
INTERPRETERS = [3, 14]  # the first Python with them
ARRANGED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("03", "a thread each, one core", ()), ("03", "a thread each", ()),
    ("06", "one loop", ()),
    ("07", "1 thread", ("--workers", "1", "--worker-kind", "thread")),
    ("07", "2 threads", ("--workers", "2", "--worker-kind", "thread")),
    ("07", "1 process", ("--workers", "1", "--worker-kind", "process")),
    ("07", "2 processes", ("--workers", "2", "--worker-kind", "process")),
    ("07", "1 interpreter",
     ("--workers", "1", "--worker-kind", "interpreter")),
    ("07", "2 interpreters",
     ("--workers", "2", "--worker-kind", "interpreter")),
)


def threads(session: Session, stack: contextlib.ExitStack) -> Iterator[Work]:
    """Every arrangement on every interpreter.

    Every request computes as many loop steps as take a millisecond there,
    and waits for nothing: only cores can make that faster.
    """
    options = session.options
    found = interpreters.choose(options.pythons, NAMES)
    session.note_pythons(found)
    load = Load(10, MANY, options.seconds)
    for python in found:
        steps = interpreters.steps_in(python.program, 0.001)
        for name, how, words in ARRANGED:
            one_core = how.endswith("one core")
            if "interpreter" in words and (
                interpreters.numbers(python) < INTERPRETERS
            ):
                continue
            variant = f"{python.label}, {how}"
            if CAN_PIN or not one_core:
                yield work_of(
                    session, by_name(name), "threads", load, *words,
                    variant=variant, compute=steps, python=python.program,
                    one_core=one_core, name=f"{name}, {variant}",
                )


# The table ------------------------------------------------------------------


def seconds_option(default: float) -> Option:
    """How long a load takes."""
    return number_option("--seconds", 1, 3600, default, "of each load")


def pythons_option(flag: str, default: str) -> Option:
    """Which interpreters."""
    return flag, {
        "metavar": "PATH[,PATH...]", "dest": "pythons",
        "help": f"the interpreters, or scripts that exec one (default: "
        f"{default})",
    }


EXPERIMENTS = {
    "crowd": Experiment(
        "1,000 and 4,000 clients against one worker of 07 (about 4 minutes)",
        (
            ("--clients", {
                "type": number(1, 100_000), "nargs": "+",
                "default": (1000, 4000), "metavar": "N",
                "help": "how many at once (default: 1000 4000)",
            }),
            seconds_option(10),
        ),
        crowd,
        ("clients", "requests/s", "possible", "failed", "cores",
         "load cores", "load's limit"),
        repeats=3,
        note="load cores: of the load generator; near 1 it can do no more. "
        "load's limit: requests/s it could make on a core of its own",
    ),
    "gains": Experiment(
        "what each idea of 07 is worth: taken away one at a time (9 minutes)",
        (seconds_option(3),), gains, ("CPU us", "requests/s"),
    ),
    "pythons": Experiment(
        "06 and 07 on each Python of this machine (about a minute for each "
        "of them)",
        (pythons_option("--python", "3.11 to 3.15, free-threaded ones and "
                        "PyPy, as far as they are on the PATH"),
         seconds_option(2)),
        pythons, ("CPU us",),
    ),
    "scale": Experiment(
        "1 ms of computing a request: 07 on 1, 2 ... cores, and 03 (3 "
        "minutes)",
        (seconds_option(5),), scale,
        ("requests/s", "speed-up", "cores", "load cores"),
    ),
    "static": Experiment(
        "a static page of 6.7 kB, as PyParallel was measured (5 minutes)",
        (seconds_option(10),), static,
        ("requests/s", "MB/s", "mean ms", "stdev ms", "p99 ms", "max ms",
         "user us", "system us", "MB", "failed"),
        repeats=3,
    ),
    "threads": Experiment(
        "threads, processes and interpreters, with and without a GIL (about "
        "3 minutes for each Python)",
        (
            pythons_option(
                "--pythons", "the one that runs this, and "
                f"{', '.join(NAMES)} if they are on the PATH",
            ),
            seconds_option(3),
        ),
        threads, ("requests/s", "CPU us", "cores", "MB"),
    ),
}  # fmt: skip
