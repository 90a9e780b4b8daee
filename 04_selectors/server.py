"""Step 04: one thread for many sockets.

Instead of one call that waits for one client, one call waits for all of
them (I/O multiplexing): the selector reports which sockets are *ready*,
and only those are read or written, without ever blocking. A loop like
this is also called a reactor. How far a client has come, which a thread
kept on its stack in step 03, is now an object.

Run it:      python3 04_selectors/server.py
Try this:    nc 127.0.0.1 8000 (and type nothing), then curl beside it
What breaks: a silent client no longer holds up the others, but
             time.sleep still stops the only thread we have: all clients
             wait for each request's work. Step 05 changes that.
"""

from __future__ import annotations

import socket
import time
from argparse import Namespace

from clients import READABLE, WRITABLE, Client, Clients
from web import (
    CLOSE,
    LINGER,
    READ,
    RECV_SIZE,
    SEND,
    SEND_SECONDS,
    TICK,
    WORK,
    announce,
    compute,
    main,
)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, serve those, ask again."""
    clients = Clients(listener)
    announce(listener)
    while clients.active or not clients.stopped:
        for key, _ in clients.selector.select(TICK):
            if key.data is None:
                clients.accept()
            else:
                resume(key.data, clients, options)
        if clients.is_tick():
            clients.keep_house()
            for client in clients.overdue():
                client.connection.timed_out()
                resume(client, clients, options)


def resume(
    client: Client, clients: Clients, options: Namespace
) -> None:
    """Do for this client what can be done without waiting."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (READ, LINGER):
            connection.data_received(sock.recv(RECV_SIZE))
        if connection.next is WORK:
            if options.delay:
                time.sleep(options.delay)  # blocks: all clients wait
            compute(options.compute)
            connection.work_done()
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
    else:
        clients.watch(client, WRITABLE)
        if connection.next is WORK:  # pipelined: let others go first
            connection.wait_for(WORK, SEND_SECONDS)


if __name__ == "__main__":
    main(serve)
