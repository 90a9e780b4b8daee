"""Exercise 07.1: share a listening socket.

Run it:     python3 server.py --workers 2
The task:   task.md
"""

from __future__ import annotations

import os
import signal
import socket
from argparse import Namespace

from web import Parser, announce, between, main
from worker import collect_totals, run_worker

workers: list[int] = []  # their process ids


def serve(listener: socket.socket, options: Namespace) -> None:
    """Let options.workers processes serve; end when they have ended."""
    for _ in range(options.workers or os.cpu_count() or 1):
        start_worker(listener, options)
    announce(listener)
    for pid in workers:
        os.waitpid(pid, 0)
    collect_totals()


def start_worker(listener: socket.socket, options: Namespace) -> None:
    """Make a copy of this process. The copy serves; we come back.

    The copy has the same descriptors: both listeners are one in the
    kernel, with one accept queue; the one that is free takes from it.
    """
    pid = os.fork()
    if pid == 0:  # this is the copy
        run_worker(listener, options)
    workers.append(pid)


def stop_workers() -> None:
    """On a signal: pass it on to the workers."""
    for pid in workers:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:  # it has ended already
            pass


def add_options(parser: Parser) -> None:
    """Let the command line choose how many processes there are."""
    parser.add_argument(
        "--workers", type=between(0, 64), default=2,
        help="processes; 0: one for each core (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    main(serve, wake=stop_workers, add_options=add_options)
