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
from clients import Client, Clients
from transfer import transfer

# When, and whose work is done then.
timers: list[tuple[float, Client]] = []
WAIT = re.compile(rb"[?&]wait=([0-9]{1,2}(?:\.[0-9]{1,3})?)\b")


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, until the next timer is due."""
    clients = Clients(listener)
    web.announce(listener)
    while clients.active or not clients.stopped:
        ready = clients.selector.select(timeout())
        now = web.clock()
        for key, _ in ready:
            if key.data is None:
                clients.accept()
            else:
                resume(key.data, clients, now, options)
        finish_work(clients, now, options)
        if clients.is_tick():
            clients.keep_house()
            for client in clients.overdue():
                client.connection.timed_out()
                resume(client, clients, now, options)


def timeout() -> float:
    """Seconds until the next timer is due, TICK at most."""
    return 0 if timers else web.TICK  # is any due? Look at once


def resume(
    client: Client, clients: Clients, now: float,
    options: Namespace,
) -> None:  # fmt: skip
    """Do for this client what can be done without waiting."""
    transfer(client, clients)
    if client.connection.next is web.WORK:
        # Remember when it will be done, instead of sleeping.
        due = now + seconds(client, options.delay)
        timers.append((due, client))


def seconds(client: Client, delay: float) -> float:
    """How long its request waits: /?wait=0.3 says it by itself."""
    assert client.connection.request
    match = WAIT.search(client.connection.request.target)
    return float(match[1]) if match else delay


def finish_work(
    clients: Clients, now: float, options: Namespace
) -> None:
    """Respond to the clients whose timers are due by now."""
    # Every turn looks at every timer, and the next turn follows at
    # once (see timeout). Keep them in a heap, look at the first only,
    # and let the selector sleep until that one is due.
    for timer in list(timers):
        due, client = timer
        if due <= now:
            timers.remove(timer)
            web.compute(options.compute)
            client.connection.work_done()
            resume(client, clients, now, options)


if __name__ == "__main__":
    web.main(serve)
