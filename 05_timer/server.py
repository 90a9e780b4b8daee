"""Step 05: the same loop, the timers inside it.

Waiting needs no thread: the loop remembers who is due when, in a heap
that has the next one on top, and lets the selector wait no longer than
until then. One thread now does everything, and no lock is needed.

Run it:      python3 05_timer/server.py
Try this:    ab -n 10000 -c 1000 http://127.0.0.1:8000/
What breaks: what was one function in step 02 is spread over a dozen
             callbacks. Step 06 gives us the loop and the function back.
"""

from __future__ import annotations

import heapq
import itertools
import socket
from argparse import Namespace

from clients import NOTHING, READABLE, WRITABLE, Client, Clients
from web import (
    CLOSE,
    LINGER,
    READ,
    RECV_SIZE,
    SEND,
    TICK,
    announce,
    clock,
    compute,
    main,
)

# When, a number that breaks ties, and whose work is done then.
timers: list[tuple[float, int, Client]] = []
ties = itertools.count()


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, until the next timer is due."""
    clients = Clients(listener)
    announce(listener)
    while clients.active or not clients.stopped:
        for key, _ in clients.selector.select(timeout()):
            if key.data is None:
                clients.accept()
            else:
                resume(key.data, clients, options)
        now = clock()
        while timers and timers[0][0] <= now:
            finish_work(heapq.heappop(timers)[-1], clients, options)
        if clients.is_tick():
            clients.keep_house()
            for client in clients.overdue():
                client.connection.timed_out()
                resume(client, clients, options)


def timeout() -> float:
    """Seconds until the next timer is due, TICK at most."""
    if not timers:
        return TICK
    return min(max(timers[0][0] - clock(), 0), TICK)


def resume(
    client: Client, clients: Clients, options: Namespace
) -> None:
    """Do for this client what can be done without waiting."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (READ, LINGER):
            connection.data_received(sock.recv(RECV_SIZE))
        if connection.next is SEND:
            connection.data_sent(sock.send(connection.unsent))
            if connection.next is LINGER:
                sock.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # not ready: wait for the selector
        pass
    except OSError:  # the client is gone
        connection.wait_for(CLOSE)
    if connection.next is CLOSE:
        clients.close(client)
    elif connection.next in (READ, LINGER):
        clients.watch(client, READABLE)
    elif connection.next is SEND:
        clients.watch(client, WRITABLE)
    else:
        clients.watch(client, NOTHING)
        begin_work(client, options)


def begin_work(client: Client, options: Namespace) -> None:
    """Remember when it will be done, instead of sleeping."""
    due = clock() + options.delay
    heapq.heappush(timers, (due, next(ties), client))


def finish_work(
    client: Client, clients: Clients, options: Namespace
) -> None:
    """The timer is due: respond."""
    compute(options.compute)
    client.connection.work_done()
    resume(client, clients, options)


if __name__ == "__main__":
    main(serve)
