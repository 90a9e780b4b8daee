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
    announce(listener)
    # Here: as many processes as the options say, all of which accept
    # from this listener. Now there is one, and that is we ourselves.
    run_worker(listener, options)  # never returns
    collect_totals()


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
