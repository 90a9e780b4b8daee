"""``./bench.sh --target URL``: a bounded load on a server started elsewhere.

"The client on another machine", as in the article. What a server costs can
be read only where it runs: so there is a table of what the client saw, and
nothing is kept.
"""

import argparse
import ipaddress
import shutil
import socket
import sys
import urllib.parse

from rich.console import Console
from rich.markup import escape

from tools.bench.ab import Load
from tools.bench.load import PROGRAMS, SHOWN, patience, read, run_load
from tools.bench.preflight import NO_AB
from tools.bench.session import Refused
from tools.bench.table import (
    Columns,
    failures,
    figure,
    milliseconds,
    show_points,
)
from tools.data.results import Point

CLIENTS, MOST_CLIENTS = 10, 64  # at a time: the article's; at most
EACH, MOST_REQUESTS = 100, 4_000  # of a client on average; in all
SECONDS = 55  # of the load; with the time that it gets to end, a minute
SAMPLE = "as in http://192.168.0.7:8000/"

COLUMNS: Columns = {
    "target": lambda point: point.server,
    "clients": lambda point: f"{point.clients}",
    "requests/s": figure("requests_per_second", "{:,.1f}"),
    "p50 ms": milliseconds("p50"),
    "p99 ms": milliseconds("p99"),
    "max ms": milliseconds("max"),
    "failed": failures,
    "bytes each": figure("response_bytes"),
    "kB/s": lambda point: f"{_transfer(point) / 1000:,.1f}",
}
NOTE = (
    "bytes each: a response with its head. What the server costs (CPU, "
    "memory, system calls) can be read only where it runs: it prints its "
    "CPU time at its end. Nothing was kept."
)


def target(text: str) -> str:
    """A check for argparse: ``http://HOST:PORT/`` and nothing else."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host and port:
        host = f"[{host}]" if ":" in host else host
        if text.lower().removesuffix("/") == f"http://{host}:{port}":
            return f"http://{host}:{port}/"
    raise argparse.ArgumentTypeError(
        f"{text!r} is not http://HOST:PORT/, {SAMPLE}"
    )


def measure(options: argparse.Namespace, console: Console) -> int:
    """Load it, if it is ours or the reader says so; the exit status.

    0: measured; 1: no good figures; 2: refused; 130: interrupted.
    """
    clients = options.clients or CLIENTS
    load = Load(clients, min(clients * EACH, MOST_REQUESTS), SECONDS)
    try:
        _ask(options, load)
        return _load(options, load, console)
    except Refused as error:
        print(f"bench.sh: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print("\nInterrupted: nothing is kept.")
        return 130


def _ask(options: argparse.Namespace, load: Load) -> None:
    """See that this load may be sent there. Raises Refused."""
    address = _address(options.target)
    if ipaddress.ip_address(address).is_loopback or options.yes:
        return
    if not sys.stdin.isatty():
        raise Refused(
            f"{options.target} is another machine, and there is no terminal "
            "to ask whether it is yours: if it is, add --yes"
        )
    print(
        f"{options.target} ({address}) is another machine. It gets up to "
        f"{load.requests:,} requests of {load.clients} clients, for a minute "
        "at most.\nLoad only machines of your own, over a network of your "
        "own."
    )
    try:
        said = input("Is it yours? Type yes to continue: ")
    except EOFError:
        said = ""
    if said.strip().lower() != "yes":
        raise Refused("that was not a yes: nothing was sent")


def _address(url: str) -> str:
    """The address that its host has. Raises Refused."""
    parts = urllib.parse.urlsplit(url)
    assert parts.hostname and parts.port
    try:
        found = socket.getaddrinfo(
            parts.hostname, parts.port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        raise Refused(f"no address is known for {parts.hostname}") from error
    # It is loopback only if all that the name stands for is.
    names = [str(each[4][0]).partition("%")[0] for each in found]
    return min(names, key=lambda name: ipaddress.ip_address(name).is_loopback)


def _load(options: argparse.Namespace, load: Load, console: Console) -> int:
    """Run it and print a table; the exit status."""
    program = options.load or ("ab" if shutil.which("ab") else "python")
    if program == "python" and options.load != program:
        console.print(NO_AB, soft_wrap=True)
    shown = " ".join(load.command(options.target, SHOWN[program]))
    console.print(f"[cyan]$ {escape(shown)}", soft_wrap=True)
    words = load.command(options.target, PROGRAMS[program])
    one = read(program, *run_load(words, patience(load, 0.0), lambda: None))
    host = urllib.parse.urlsplit(options.target).netloc
    point = Point(host, "target", load.clients, 0.0, runs=[one])
    if one.error is not None:
        point.status, point.reason = "failed", one.error
    show_points(console, COLUMNS, [point])
    console.print(f"[dim]{NOTE}", soft_wrap=True)
    return int(point.status == "failed")


def _transfer(point: Point) -> float:
    """Bytes per second that arrived, heads included."""
    rate = point.median("requests_per_second") or 0.0
    return rate * (point.median("response_bytes") or 0.0)
