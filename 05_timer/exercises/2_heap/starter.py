"""Exercise 05.2: a heap of timers.

Run it:     python3 server.py
The task:   task.md
"""

import heapq
import itertools
import re
import socket
from argparse import Namespace

import web
from transfer import transfer

# When, and whose work is done then.
timers: list[tuple[float, web.Client]] = []
WAIT = re.compile(rb"[?&]wait=([0-9]{1,2}(?:\.[0-9]{1,3})?)\b")


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask who is ready, and wait no longer than to the next timer."""
    clients = web.Clients(listener)
    web.announce(listener)
    while clients.here or not clients.leaving:
        clients.leaving = web.stopping()
        ready = clients.selector.select(pause())
        now = web.clock()
        for key, _ in ready:
            if key.data is None:
                clients.accept()
            else:
                go_on(key.data, clients, now, options)
        finish_work(clients, now, options)
        for client in clients.late(now):
            go_on(client, clients, now, options)


def pause() -> float:
    """Seconds that the selector may wait before somebody is due."""
    return 0 if timers else web.TICK  # is anybody due? Look at once


def go_on(
    client: web.Client, clients: web.Clients, now: float,
    options: Namespace,
) -> None:  # fmt: skip
    """Do for this client what can be done without waiting."""
    transfer(client, clients)
    if client.connection.next is web.WORK:
        # Remember when it is done: nobody waits for it here.
        due = now + seconds(client, options.delay)
        timers.append((due, client))


def seconds(client: web.Client, delay: float) -> float:
    """How long its request waits: /?wait=0.3 says it by itself."""
    assert client.connection.request
    match = WAIT.search(client.connection.request.target)
    return float(match[1]) if match else delay


def finish_work(
    clients: web.Clients, now: float, options: Namespace
) -> None:
    """Answer those whose timers have gone off by now."""
    # Every turn looks at every timer, and the next turn follows at
    # once (see pause). Keep them in a heap, look at the first only,
    # and let the selector sleep until that one is due.
    for timer in list(timers):
        due, client = timer
        if due <= now:
            timers.remove(timer)
            web.compute(options.compute)
            client.connection.worked()
            go_on(client, clients, now, options)


if __name__ == "__main__":
    web.main(serve)
