"""Step 01: the standard library's http.server, one request at a time.

Python brings a web server along. We say what to answer to GET; the
library listens, accepts, reads, parses and closes for us, one
connection after the other. Step 02 does the same by hand, to see how.

Run it:     python3 01_httpserver/server.py
Try this:   curl http://127.0.0.1:8000/ in two terminals at once
Goes wrong: the second curl waits for the first: two clients, twice the
            time. And what happens in between is hidden from us.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NoReturn
from urllib.parse import urlsplit

HEAD_SECONDS = 10.0  # for a client to send something

PAGE = b"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Seven servers</title>
</head>
<body>
<h1>It works!</h1>
<p>This page is from a web server you can read from end to end.
How many clients can it serve at once?</p>
</body>
</html>
"""


class Handler(BaseHTTPRequestHandler):
    """Answers one request; http.server makes one for each client."""

    options: Namespace
    timeout = HEAD_SECONDS

    def do_GET(self) -> None:
        """Wait, compute, send the page (HEAD: all but the page)."""
        path = urlsplit(self.path).path
        if path not in ("/", "", "/healthz"):
            self.send_error(404)
            return
        if path == "/healthz" and asked:  # we are about to stop
            self.send_error(503)
            return
        if self.options.delay:
            time.sleep(self.options.delay)  # blocks: all wait
        compute(self.options.compute)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(PAGE)

    do_HEAD = do_GET

    def refuse_method(self) -> None:
        """Answer a method that is known, but not allowed here."""
        self.send_error(405)

    do_POST = do_PUT = do_PATCH = do_DELETE = refuse_method
    do_OPTIONS = do_TRACE = do_CONNECT = refuse_method

    def end_headers(self) -> None:
        """Every 405 must say what is allowed (RFC 9110, 15.5.6)."""
        if self.status == 405:
            self.send_header("Allow", "GET, HEAD")
        super().end_headers()

    def log_request(
        self, code: int | str = "-", size: object = "-"
    ) -> None:
        """Count the answers instead of logging them."""
        self.status = int(code)
        count(requests=1)

    def log_message(self, format: str, *args: object) -> None:
        """Do not write about each refused request or lost client."""

    def setup(self) -> None:
        """Called first; remember whom we may be waiting for."""
        super().setup()
        connections.add(self.connection)
        count(connections=1)

    def finish(self) -> None:
        """Called last."""
        connections.discard(self.connection)
        super().finish()


class Server(HTTPServer):
    """http.server's own, on our listening socket."""

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept; when out of descriptors, wait until some are free."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(TICK)
            raise

    def serve_rest(self) -> None:
        """Serve who is in the accept queue; refuse all others."""
        self.socket.setblocking(False)
        rest = []
        try:
            while True:
                rest.append(self.socket.accept())
        except OSError:  # the queue is empty
            self.server_close()
        Handler.timeout = TICK
        for client, address in rest:
            client.setblocking(True)
            try:
                self.process_request(client, address)
            except OSError:
                self.shutdown_request(client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


connections: set[socket.socket] = set()  # open now: one or none


def serve(listener: socket.socket, options: Namespace) -> None:
    """Handle one connection after the other until asked to stop."""
    Handler.options = options
    server = Server(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.timeout = TICK
    announce(listener)
    while not stopping():
        server.handle_request()
    server.serve_rest()


def stop_reading() -> None:
    """On a signal: whoever waits for a request sees the end of it."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


# === Command line, the same in every step ===========================

TICK = 0.5  # seconds until a wait ends to look whether we should stop
GRACE_SECONDS = 5  # for requests under way when we are asked to stop
BACKLOG = 4096  # connections the kernel may hold for accept

asked: list[int] = []  # signals so far; then health checks fail
signals: list[int] = []  # those that made us begin to stop
totals = {"requests": 0, "connections": 0}
totals_lock = threading.Lock()  # for the steps that have threads


def stopping() -> bool:
    """Have we begun to stop?"""
    return bool(signals)


def count(requests: int = 0, connections: int = 0) -> None:
    """Add to the totals of the closing line."""
    with totals_lock:
        totals["requests"] += requests
        totals["connections"] += connections


def compute(steps: int) -> None:
    """Keep the processor busy, as a template would."""
    for _ in range(steps):
        pass


def announce(listener: socket.socket) -> None:
    """Say that from now on clients are welcome."""
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    url = f"http://{host}:{port}/"
    print(f"Serving on {url} (Ctrl-C to stop)", flush=True)


def closing_line() -> str:
    """What was done, and what it cost this process and its children."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = own.ru_utime + children.ru_utime
    system = own.ru_stime + children.ru_stime
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = max(own_peak() or own.ru_maxrss, children.ru_maxrss) / unit
    return (
        f"Answered {totals['requests']} requests on "
        f"{totals['connections']} connections; CPU {user:.2f} s user, "
        f"{system:.2f} s system; peak memory {peak:.1f} MiB\n"
    )


def own_peak() -> int:
    """Peak memory of this process in KiB; 0 where there is no /proc.

    Linux's ru_maxrss is no less than that of whoever started us.
    """
    try:
        with open("/proc/self/status") as status:
            return int(status.read().partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 0


def stop_now(status: int) -> NoReturn:
    """Say goodbye and end, whatever is still under way."""
    try:
        os.write(1, closing_line().encode())
    except OSError:  # nobody reads our output any more
        pass
    os._exit(status)


def between(
    low: float, high: float, kind: Callable[[str], float] = int
) -> Callable[[str], float]:
    """A check for argparse: a number from low to high."""

    def check(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise ArgumentTypeError(
                f"{text!r} is not a number from {low} to {high}"
            )
        return value

    return check


class Parser(ArgumentParser):
    """An argument parser that complains in one line."""

    def error(self, message: str) -> NoReturn:
        """End with status 2, for wrong usage."""
        self.exit(2, f"{self.prog}: {message} (--help explains)\n")


def main(
    serve: Callable[[socket.socket, Namespace], None],
    wake: Callable[[], None] = lambda: None,
    add_options: Callable[[Parser], None] = lambda parser: None,
) -> None:
    """Read the command line, listen, serve until a signal comes.

    wake is called when we begin to stop, to end long waits;
    add_options may add to the command line.
    """
    parser = Parser(
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address (%(default)s)"
    )
    parser.add_argument(
        "--port", type=between(0, 65535), default=8000,
        help="port; 0 takes a free one (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--delay", type=between(0, 3600, float), default=0.1,
        help="seconds each request waits (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--compute", type=between(0, 10**9), default=0,
        help="loop steps each request computes (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--lame-duck", type=between(0, 60, float), default=0,
        help="seconds /healthz fails before it stops (%(default)s)",
    )  # fmt: skip
    add_options(parser)
    options = parser.parse_args()

    def on_signal(number: int, frame: object) -> None:
        if asked:  # again
            stop_now(128 + number)
        asked.append(number)
        if options.lame_duck:
            # A balancer sends us clients until a check tells it.
            signal.setitimer(signal.ITIMER_REAL, options.lame_duck)
        else:
            on_alarm(number, frame)

    def on_alarm(number: int, frame: object) -> None:
        if signals:  # too late
            stop_now(0)
        signals.append(number)
        signal.alarm(GRACE_SECONDS)
        wake()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    signal.signal(signal.SIGALRM, on_alarm)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    address = (options.host, options.port)
    try:
        # Sets SO_REUSEADDR: we can start again on this port at once.
        listener = socket.create_server(
            address, family=family, backlog=BACKLOG
        )
    except (OSError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error)
        why = why.partition(" (")[0]
        sys.exit(f"cannot listen on {address[0]}:{address[1]}: {why}")
    serve(listener, options)
    stop_now(0)


if __name__ == "__main__":
    main(serve, wake=stop_reading)
