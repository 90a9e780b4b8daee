"""One small file from several servers: PyParallel's comparison, repeated.

In November 2014 PyParallel was compared on python-ideas with http.server
and with node's http-server: wrk with 8 connections, a static page of
about 6.7 kB. There http.server closed after each answer while PyParallel
kept its connections; here it is measured both ways.
"""

import tempfile
from functools import partial
from pathlib import Path

from tools.bench import preflight, wrk
from tools.bench.peers import start
from tools.bench.session import Refused, Session, number_option
from tools.bench.table import MEGABYTE, failures, figure, spread, title_of
from tools.data.results import Point, Run
from tools.peers import Peer, by_name
from tools.servers import ROOT

HELP = "a static page of 6.7 kB, as PyParallel was measured (5 minutes)"
SUITE = "static"
REPEATS = 3
CLIENTS = 8
THREADS = 2  # of wrk
SECONDS = 10  # one run
WARM_UP_SECONDS = 1  # of the same load before it
PAGE_BYTES = 6_700
PAGE_NAME = "index.html"
INSTALL_SECONDS = 180  # for npm

PEERS = ROOT / ".node-peers"  # what npm installs for us; not in git
HTTP_SERVER = "http-server@14.1.1"
PROGRAM = "node_modules/http-server/bin/http-server"
# A line for each request is of no use, and would fill a file.
QUIET = ("sh", "-c", 'exec "$@" 2>/dev/null', "sh")
KEEPING = (
    *QUIET, "{ours}", "tools/bench/peers/static_http.py", "{port}", "{site}",
)

# The servers of the comparison; their title says what sets each apart.
CLOSING = Peer("http.server", "as it is", "", (
    *QUIET, "{ours}", "-m", "http.server", "--bind", "{host}",
    "--directory", "{site}", "{port}",
))  # fmt: skip
# Silent, and without the directory listings it could make.
NODE = Peer("node http-server", "", "", (
    "node", f"{PEERS.name}/{PROGRAM}", "{site}", "-a", "{host}", "-p",
    "{port}", "--silent",
))  # fmt: skip
ENGINE_X = Peer("nginx", "1 worker", "", by_name("nginx").start)


def cases() -> list[Peer]:
    """What is measured on this machine."""
    found = [
        CLOSING,
        Peer("http.server", "keep-alive", "", KEEPING),
        Peer(
            "http.server", "keep-alive, TCP_NODELAY", "",
            (*KEEPING, "--no-delay"),
        ),
        NODE, ENGINE_X,
    ]  # fmt: skip
    for workers in sorted({1, preflight.core_count()}):
        words = (
            "{ours}", "07_parallel/server.py", "--port", "{port}", "--delay",
            "0", "--workers", str(workers), "--directory", "{site}",
        )
        title = f"{workers} worker{'s' * (workers > 1)}"
        found.append(Peer("07", title, "", words))
    return found


OPTIONS = (number_option("--seconds", 1, 600, SECONDS, "one run takes"),)


def measure(session: Session) -> int:
    """Every case that can be had; a row says why one cannot."""
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
    load = wrk.Load(CLIENTS, int(session.options.seconds), THREADS)
    with tempfile.TemporaryDirectory() as directory:
        site = make_site(Path(directory))
        work = []
        for case in cases():
            point = Point(
                case.name, SUITE, CLIENTS, 0.0,
                keep_alive=case is not CLOSING, variant=case.title,
            )
            reason = missing(case, session)
            if reason:
                session.skip(point, reason)
            else:
                one = partial(measure_one, session, case, site, load)
                work.append((point, one))
        session.rounds(work, REPEATS)
    session.show(
        {
            "server": title_of,
            "requests/s": spread("requests_per_second"),
            "mean ms": figure("mean", "{:.2f}"),
            "p99 ms": figure("p99", "{:.2f}"),
            "CPU ms": figure("cpu_ms", "{:.4f}"),
            "MB": figure("peak_memory", "{:.1f}", MEGABYTE),
            "failed": failures,
        },
        "CPU ms: for each request; MB: peak memory",
    )
    return session.status()


def page() -> bytes:
    """The page, always the same PAGE_BYTES bytes."""
    head = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        "<title>A page of text</title>\n"
    )
    line = "<p>One line of many, as a page of text has them.</p>\n"
    end = "<!-- the end -->\n"
    room = PAGE_BYTES - len(head) - len(end)
    text = head + line * (room // len(line))
    return (text.ljust(PAGE_BYTES - len(end)) + end).encode()


def make_site(folder: Path) -> Path:
    """A folder with the page, readable for a worker of another user."""
    site = folder / "site"
    site.mkdir()
    (site / PAGE_NAME).write_bytes(page())
    return site


def missing(case: Peer, session: Session) -> str:
    """Why a case cannot be measured, and how to change that; else "".

    Installs what npm can bring, and notes versions in the results.
    """
    if case not in (NODE, ENGINE_X):
        return ""
    program = by_name(case.start[0])  # is measured as a peer too
    why = start.missing([program]).get(program.name, "")
    if why:
        return why
    tools = session.results.tools
    tools.update(start.versions([program]))
    if case is NODE:
        words = ["npm", "install", "--prefix", str(PEERS), HTTP_SERVER]
        if not node_server().is_file():
            session.say(f"[cyan]$ {' '.join(words)}")
            PEERS.mkdir(exist_ok=True)
            more = ("--no-audit", "--no-fund", "--loglevel=error")
            preflight.output_of(*words, *more, seconds=INSTALL_SECONDS)
        if not node_server().is_file():
            return f"npm could not install {HTTP_SERVER}"
        tools["http-server"] = HTTP_SERVER.partition("@")[2]
    return ""


def node_server() -> Path:
    """Where npm puts the program of http-server."""
    return PEERS / PROGRAM


def measure_one(
    session: Session, case: Peer, site: Path, load: wrk.Load
) -> Run:
    """One run against a fresh server. Raises ServerError."""
    with start.start(case, page(), site) as process:
        url = f"{process.url}{PAGE_NAME}"
        warm = wrk.Load(CLIENTS, WARM_UP_SECONDS, THREADS)
        preflight.output_of(*warm.command(url))
        one = session.load(
            process, load, name=f"{case.name}, {case.title}", url=url,
            command=process.command.removeprefix(" ".join(QUIET)).strip(),
        )
    one.body_bytes = PAGE_BYTES
    return one
