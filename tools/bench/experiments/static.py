"""One small file from several servers: PyParallel's comparison, repeated.

In November 2014 PyParallel was compared on python-ideas with http.server
and with node's http-server: wrk with 8 connections, a static page of
about 6.7 kB. There http.server closed after each answer while PyParallel
kept its connections; here it is measured both ways.
"""

import argparse
import contextlib
import os
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from tools.bench import preflight, wrk
from tools.bench.server import HOST, Running, ServerError, free_port, start
from tools.bench.session import (
    Refused,
    Session,
    number_option,
)
from tools.bench.table import MEGABYTE, failures, figure, spread, title_of
from tools.common.launch import scrub
from tools.data.results import Point, Run
from tools.servers import ROOT, by_name

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
# A line for each request is of no use, and would fill a file.
QUIET = ("sh", "-c", 'exec "$@" 2>/dev/null', "sh", sys.executable)
KEEPING_SERVER = (
    *QUIET, "tools/bench/peers/static_http.py", "{port}", "{site}",
)

# As little as nginx needs; everything it writes goes to a folder of its
# own. Without keepalive_requests it would close after 1,000 answers.
NGINX = string.Template("""\
${user}daemon off;
worker_processes 1;
error_log stderr;
pid $folder/nginx.pid;
events { worker_connections 1024; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    types { text/html html; }
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen 127.0.0.1:$port;
        root $site;
    }
}
""")


@dataclass(frozen=True)
class Case:
    """One server in one arrangement.

    name, variant: of its point; words: its command line, with {port},
    {site}, {folder} and {node} to be filled in; workers: of our own
    server, if it is that; keep_alive: does it keep connections open?
    """

    name: str
    variant: str = ""
    words: tuple[str, ...] = ()
    workers: int = 0
    keep_alive: bool = True


CLOSING = Case(
    "http.server", "as it is",
    (*QUIET, "-m", "http.server", "--bind", HOST, "--directory", "{site}",
     "{port}"),
    keep_alive=False,
)  # fmt: skip
NODE = Case(
    "node http-server", "",
    # Silent, and without the directory listings it could make.
    ("node", "{node}", "{site}", "-a", HOST, "-p", "{port}", "--silent"),
)
ENGINE_X = Case(
    "nginx", "1 worker",
    ("nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf"),
)


def cases() -> list[Case]:
    """What is measured on this machine."""
    cores = preflight.core_count()
    found = [
        CLOSING,
        Case("http.server", "keep-alive", KEEPING_SERVER),
        Case(
            "http.server", "keep-alive, TCP_NODELAY",
            (*KEEPING_SERVER, "--no-delay"),
        ),
        NODE, ENGINE_X, Case("07", "1 worker", workers=1),
    ]  # fmt: skip
    if cores > 1:
        found.append(Case("07", f"{cores} workers", workers=cores))
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    number_option(parser, "--seconds", 1, 600, SECONDS, "one run takes")


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
                case.name, SUITE, CLIENTS, 0.0, keep_alive=case.keep_alive,
                variant=case.variant,
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


# Servers ------------------------------------------------------------------


def missing(case: Case, session: Session) -> str:
    """Why a case cannot be measured, and how to change that; else "".

    Installs what npm can bring, and notes versions in the results.
    """
    tools = session.results.tools
    if case is NODE:
        node = shutil.which("node")
        if not node or not shutil.which("npm"):
            return (
                "node or npm is missing: install Node.js 18 or newer "
                "(apt-get install nodejs npm)"
            )
        words = ["npm", "install", "--prefix", PEERS.name, HTTP_SERVER]
        if not node_server().is_file():
            session.say(f"[cyan]$ {' '.join(words)}")
            PEERS.mkdir(exist_ok=True)
            _said(
                [*words, "--no-audit", "--no-fund", "--loglevel=error"],
                INSTALL_SECONDS,
            )
        if not node_server().is_file():
            return f"npm could not install it: {' '.join(words)}"
        tools["node"] = _said([node, "--version"]).lstrip("v")
        tools["http-server"] = HTTP_SERVER.partition("@")[2]
    if case is ENGINE_X:
        if not shutil.which("nginx"):
            return "nginx is missing: apt-get install nginx-light"
        tools["nginx"] = _said(["nginx", "-v"]).partition("/")[2]
    return ""


def _said(words: list[str], seconds: float = 20) -> str:
    """What a program prints, on stdout or stderr; "" if it fails."""
    try:
        done = subprocess.run(
            words, cwd=ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=seconds, check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def node_server() -> Path:
    """Where npm puts the program of http-server."""
    return PEERS / "node_modules" / "http-server" / "bin" / "http-server"


@contextlib.contextmanager
def started(case: Case, site: Path) -> Iterator[Running]:
    """A case's server, fresh, stopped at the end. Raises ServerError."""
    if case.workers:
        words = ("--workers", str(case.workers), "--directory", str(site))
        with start(by_name("07"), 0.0, words) as process:
            yield process
        return
    port, folder = free_port(), site.parent
    if case is ENGINE_X:
        # Only root may change to another user, and would.
        user = f"user {psutil.Process().username()};\n"
        text = NGINX.substitute(
            user=user if os.geteuid() == 0 else "", folder=folder,
            port=port, site=site,
        )
        (folder / "nginx.conf").write_text(text)
    known = {
        "port": port, "site": site, "folder": folder, "node": node_server(),
    }
    words_here = [word.format_map(known) for word in case.words]
    program = Running(words_here, ROOT, port)
    try:
        yield program
    finally:
        program.stop()


# Measuring ----------------------------------------------------------------


def measure_one(
    session: Session, case: Case, site: Path, load: wrk.Load
) -> Run:
    """One run against a fresh server."""
    name = "-".join(f"{case.name} {case.variant}".replace(",", "").split())
    try:
        with started(case, site) as process:
            process.check_page(page())
            url = f"{process.url}{PAGE_NAME}"
            warm = wrk.Load(CLIENTS, WARM_UP_SECONDS, THREADS)
            _said(warm.command(url))
            one = session.load(
                process, load, name=name, url=url,
                command=shown(process.command, site),
            )
    except ServerError as error:
        raise ServerError(shown(str(error), site)) from error
    one.body_bytes = PAGE_BYTES
    return one


def shown(text: str, site: Path) -> str:
    """A text without what only this machine knows."""
    for path, stands_for in (
        (str(site), "DIR"), (str(site.parent), "FOLDER"),
        (sys.executable, "python3"), ('sh -c exec "$@" 2>/dev/null sh ', ""),
    ):
        text = text.replace(path, stands_for)
    return scrub(text)
