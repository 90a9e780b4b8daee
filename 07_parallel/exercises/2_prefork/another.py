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
    """Replace workers that have ended, until there are none left.

    Looks twice a second, as step 07 does, and tells them itself: this
    parent could do something else meanwhile.
    """
    while not shutting_down:
        for _ in range(discard_ended()):
            start_worker(listener, options)
        time.sleep(TICK)
    for pid in workers:  # all are ours still, as zombies at least
        os.kill(pid, signal.SIGTERM)
    while workers:
        discard_ended()
        time.sleep(TICK / 10)


def discard_ended() -> int:
    """Forget the workers that have ended; how many there were."""
    ended = {
        pid for pid in workers if os.waitpid(pid, os.WNOHANG) != (0, 0)
    }
    workers.difference_update(ended)
    return len(ended)


def add_options(parser: Parser) -> None:
    """Let the command line choose how many processes there are."""
    parser.add_argument(
        "--workers", type=between(1, 64), default=2,
        help="processes (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    main(serve, add_options=add_options)
