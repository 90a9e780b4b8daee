"""Exercise 07.2: a prefork server that repairs itself.

Run it:     python3 server.py --workers 2
The task:   task.md
"""

from __future__ import annotations

import os
import signal
import socket
import time
from argparse import Namespace

from web import TICK, Parser, announce, between, main, shutting_down
from worker import collect_totals, run_worker

workers: set[int] = set()  # process ids of those that run


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start the workers and watch over them; none is left behind."""
    for _ in range(options.workers):
        start_worker(listener, options)
    announce(listener)
    watch(listener, options)
    collect_totals()


def start_worker(listener: socket.socket, options: Namespace) -> None:
    """Make a copy of this process. The copy serves; we come back."""
    pid = os.fork()
    if pid == 0:  # this is the copy
        run_worker(listener, options)
    workers.add(pid)
    if shutting_down:  # since before the fork: it has not been told
        os.kill(pid, signal.SIGTERM)


def watch(listener: socket.socket, options: Namespace) -> None:
    """Replace workers that have ended, until there are none left."""
    # Here: wait for the end of a worker, and start another in its
    # place; once a signal has arrived, wait for the end of all.
    while not shutting_down:
        time.sleep(TICK)


def stop_workers() -> None:
    """On a signal: pass it on to the workers that run."""
    # Here too: now they are not told.


def add_options(parser: Parser) -> None:
    """Let the command line choose how many processes there are."""
    parser.add_argument(
        "--workers", type=between(1, 64), default=2,
        help="processes (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    main(serve, wake=stop_workers, add_options=add_options)
