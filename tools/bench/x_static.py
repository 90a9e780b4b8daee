"""One small file from several servers: PyParallel's comparison, repeated.

In November 2014 PyParallel was compared on python-ideas with http.server
and with node's http-server: wrk with 8 connections, a static page of
about 6.7 kB. There http.server closed after each answer while PyParallel
kept its connections; here it is measured both ways.
"""

import argparse
import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench import server as servers
from tools.bench import wrk
from tools.bench.cost import Meter
from tools.bench.numbers import formatted, number
from tools.bench.outcome import (
    add,
    any_fault,
    keep_raw,
    take_cost,
    take_report,
)
from tools.bench.run import run_load, summary
from tools.data.results import Point, Results, Run
from tools.servers import ROOT, by_name

ABOUT = "a static page of 6.7 kB, as PyParallel was measured (5 minutes)"
SUITE = "static"
REPEATS = 3
CLIENTS = 8
THREADS = 2  # of wrk
SECONDS = 10  # one run
WARM_UP_SECONDS = 1  # of the same load before it
GRACE_SECONDS = 5.0  # for wrk to end after its time
PAGE_BYTES = 6_700
PAGE_NAME = "index.html"
INSTALL_SECONDS = 180  # for npm
MEGABYTE = 1_000_000

PEERS = ROOT / ".node-peers"  # what npm installs for us; not in git
HTTP_SERVER = "http-server@14.1.1"
STATIC_HTTP = "tools/bench/peers/static_http.py"

# As little as nginx needs; everything it writes goes to a folder of its
# own. Without keepalive_requests it would close after 1,000 answers.
NGINX = """\
{user}daemon off;
worker_processes 1;
error_log stderr;
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    types {{ text/html html; }}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {site};
    }}
}}
"""


@dataclass(frozen=True)
class Case:
    """One server in one arrangement.

    name, variant: of its point; workers: of our own server, 0: it is
    another; keep_alive: does it keep connections open?
    """

    name: str
    variant: str = ""
    workers: int = 0
    keep_alive: bool = True


CLOSING = Case("http.server", "as it is", keep_alive=False)
KEEPING = Case("http.server", "keep-alive")
NO_DELAY = Case("http.server", "keep-alive, TCP_NODELAY")
NODE = Case("node http-server")
ENGINE_X = Case("nginx", "1 worker")


def cases() -> list[Case]:
    """What is measured on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(
        os, "sched_getaffinity"
    ) else os.cpu_count() or 1
    ours = [Case("07", "1 worker", 1)]
    if cores > 1:
        ours.append(Case("07", f"{cores} workers", cores))
    return [CLOSING, KEEPING, NO_DELAY, NODE, ENGINE_X, *ours]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``./bench.sh static``."""
    parser.add_argument(
        "--seconds", type=number(1, 600), default=SECONDS, metavar="N",
        help=f"how long one run takes (default: {SECONDS})",
    )


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure every case, save after each run, print a table.

    Returns 0 (a row says what is missing); 1 if a server failed; 2 with
    a sentence without wrk.
    """
    version = wrk.version()
    if version is None:
        print(
            "bench.sh: wrk makes this load and is missing: apt-get "
            "install wrk (or brew install wrk)",
            file=sys.stderr,
        )
        return 2
    results.load = "wrk"
    results.tools.pop("ab", None)
    results.tools["wrk"] = version
    load = wrk.Load(CLIENTS, int(options.seconds), THREADS)
    points = {
        case: Point(
            case.name, SUITE, CLIENTS, 0.0, keep_alive=case.keep_alive,
            variant=case.variant,
        )
        for case in cases()
    }
    for case, point in points.items():
        reason = missing(case, results, console)
        if reason:
            point.status, point.reason = "skipped", reason
    repeats = options.repeats or REPEATS
    with tempfile.TemporaryDirectory() as directory:
        site = make_site(Path(directory))
        for count in range(1, repeats + 1):
            for case, point in points.items():
                if point.status == "skipped":
                    if count == 1:
                        results.points.append(point)
                    continue
                console.print(
                    f"[bold]{case.name}[/] {case.variant}, run {count} "
                    f"of {repeats}"
                )
                one = measure(case, site, load, folder)
                console.print(f"  {escape(summary(one))}", soft_wrap=True)
                add(results, point, one)
                results.save(folder)
    show(results, console)
    return 1 if any(p.status == "failed" for p in points.values()) else 0


def page() -> bytes:
    """The page, always the same PAGE_BYTES bytes."""
    head = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        "<title>A page of text</title>\n"
    )
    line = "<p>One line of many, as a page of text has them.</p>\n"
    text = head + line * (PAGE_BYTES // len(line))
    end = "<!-- the end -->\n"
    text = text[: PAGE_BYTES - len(end) - 1].rpartition("\n")[0] + "\n"
    return (text.ljust(PAGE_BYTES - len(end) - 1) + "\n" + end).encode()


def make_site(folder: Path) -> Path:
    """A folder with the page, readable for a worker of another user."""
    site = folder / "site"
    site.mkdir()
    (site / PAGE_NAME).write_bytes(page())
    return site


# Servers ------------------------------------------------------------------


def missing(case: Case, results: Results, console: Console) -> str:
    """Why a case cannot be measured, and how to change that; else "".

    Installs what npm can bring, and notes versions in the results.
    """
    if case is NODE:
        node = shutil.which("node")
        if not node or not shutil.which("npm"):
            return (
                "node or npm is missing: install Node.js 18 or newer "
                "(apt-get install nodejs npm)"
            )
        if not node_server().is_file() and not _install(console):
            return (
                f"npm could not install it: npm install --prefix "
                f"{PEERS.name} {HTTP_SERVER}"
            )
        results.tools["node"] = _said([node, "--version"]).lstrip("v")
        results.tools["http-server"] = HTTP_SERVER.partition("@")[2]
    if case is ENGINE_X:
        if not shutil.which("nginx"):
            return "nginx is missing: apt-get install nginx-light"
        results.tools["nginx"] = _said(["nginx", "-v"]).partition("/")[2]
    return ""


def _said(words: list[str]) -> str:
    """What a program prints, on stdout or stderr; "" if it fails."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=20, check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def node_server() -> Path:
    """Where npm puts the program of http-server."""
    return PEERS / "node_modules" / "http-server" / "bin" / "http-server"


def _install(console: Console) -> bool:
    """Let npm install node's http-server in a folder of ours."""
    words = ["npm", "install", "--prefix", PEERS.name, HTTP_SERVER]
    console.print(f"[cyan]$ {' '.join(words)}")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        PEERS.mkdir(exist_ok=True)
        subprocess.run(
            [*words, "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=INSTALL_SECONDS, check=True,
        )
    return node_server().is_file()


def words_of(case: Case, port: int, site: Path) -> list[str]:
    """The command line of a server that is not ours."""
    if case is NODE:
        # Silent, and without the directory listings it could make.
        return [
            "node", str(node_server()), str(site), "-a", "127.0.0.1",
            "-p", str(port), "--silent",
        ]
    if case is ENGINE_X:
        conf = site.parent / "nginx.conf"
        user = f"user {psutil.Process().username()};\n"
        conf.write_text(
            NGINX.format(
                # Only root may change to another user, and would.
                user=user if os.geteuid() == 0 else "",
                folder=site.parent, port=port, site=site,
            )
        )
        return ["nginx", "-p", str(site.parent), "-c", str(conf)]
    if case is CLOSING:
        return [
            sys.executable, "-m", "http.server", "--bind", "127.0.0.1",
            "--directory", str(site), str(port),
        ]
    more = ["--no-delay"] if case is NO_DELAY else []
    return [sys.executable, STATIC_HTTP, str(port), str(site), *more]


class Program(servers.Running):
    """A server that is not ours, running. Use `started`."""

    def __init__(self, words: list[str], port: int) -> None:
        """Start it and wait until it listens. Raises ServerError."""
        # A line for each request is of no use, and would fill a file.
        quiet = ["sh", "-c", 'exec "$@" 2>/dev/null', "sh"]
        python = words[0] == sys.executable
        super().__init__(
            [*quiet, *words] if python else words, ROOT, port
        )
        self.command = " ".join(words) + " 2>/dev/null" * python


@contextlib.contextmanager
def started(case: Case, site: Path) -> Iterator[servers.Running]:
    """A case's server, fresh, stopped at the end. Raises ServerError."""
    if case.workers:
        ours = by_name("07")
        options = (
            "--workers", str(case.workers), "--directory", str(site)
        )
        with servers.start(ours, 0.0, options) as process:
            yield process
        return
    port = servers.free_port()
    program = Program(words_of(case, port, site), port)
    try:
        yield program
    finally:
        program.stop()


# Measuring ----------------------------------------------------------------


def measure(case: Case, site: Path, load: wrk.Load, folder: Path) -> Run:
    """One run against a fresh server."""
    one = Run(case.name)
    try:
        with started(case, site) as process:
            one.command = shown(process.command, site)
            check(process.port)
            url = f"{process.url}{PAGE_NAME}"
            first = wrk.Load(CLIENTS, WARM_UP_SECONDS, THREADS)
            run_load(
                first.command(url), WARM_UP_SECONDS + GRACE_SECONDS,
                lambda: None,
            )
            words = load.command(url)
            one.command += f"\n{' '.join(words)}"
            meter = Meter(process)
            text, late = run_load(
                words, load.seconds + GRACE_SECONDS, meter.sample
            )
            cost = meter.read()
            keep_raw(folder, raw_name(case), one.command, text)
            fill(one, text, late)
            take_cost(one, cost)
            if process.status() is not None:
                one.error = f"the server died: {process.last_words()}"
    except servers.ServerError as error:
        one.error = shown(str(error), site)
    return one


def check(port: int) -> None:
    """Is the page the right one, as a client sees it?

    Raises ServerError if not.
    """
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        client.request("GET", f"/{PAGE_NAME}")
        answer = client.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise servers.ServerError(
            f"GET /{PAGE_NAME} has no good answer: {error}"
        ) from error
    finally:
        client.close()
    if answer.status != 200 or body != page():
        raise servers.ServerError(
            f"GET /{PAGE_NAME} is answered with status {answer.status} "
            f"and {len(body)} bytes, not with the page"
        )


def fill(one: Run, text: str, late: bool) -> None:
    """wrk's figures into a run."""
    try:
        report = wrk.parse(text)
    except wrk.WrkError as error:
        one.error = str(error)
        return
    take_report(one, report)
    one.body_bytes = PAGE_BYTES
    one.error = any_fault(
        report, late, "wrk was interrupted: it did not end by itself"
    )


def shown(text: str, site: Path) -> str:
    """A text without what only this machine knows."""
    for path, stands_for in (
        (str(site), "DIR"), (str(site.parent), "FOLDER"),
        (sys.executable, "python3"),
    ):
        text = text.replace(path, stands_for)
    return servers.scrub(text)


def raw_name(case: Case) -> str:
    """What the file of a case's raw outputs is called."""
    return "-".join(f"{case.name} {case.variant}".replace(",", "").split())


# The table ----------------------------------------------------------------


def show(results: Results, console: Console) -> None:
    """A row for each server."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("server")
    for title in (
        "requests/s", "mean ms", "p99 ms", "CPU ms", "MB", "failed",
    ):
        table.add_column(title, justify="right")
    points = results.suite(SUITE)
    for point in points:
        name = f"{point.server}, {point.variant}".rstrip(", ")
        if not point.runs or point.status != "ok":
            table.add_row(name, point.status if point.reason else "")
            continue
        low, high = point.spread("requests_per_second") or (0.0, 0.0)
        table.add_row(
            name,
            f"{point.median('requests_per_second'):,.0f} "
            f"[dim]{low:,.0f}-{high:,.0f}",
            formatted(point.median("mean"), "{:.2f}"),
            formatted(point.median("p99"), "{:.2f}"),
            formatted(point.median("cpu_ms"), "{:.4f}"),
            formatted(point.median("peak_memory"), "{:.1f}", MEGABYTE),
            str(sum(run.failed for run in point.runs)),
        )
    console.print(table)
    console.print("[dim]CPU ms: for each request; MB: peak memory")
    for point in points:
        if point.reason:
            console.print(
                f"{point.status}: {point.server} {point.variant}: "
                f"{escape(point.reason)}", soft_wrap=True,
            )
