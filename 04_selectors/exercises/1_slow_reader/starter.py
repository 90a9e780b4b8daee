"""Exercise 04.1: a client that does not read.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import time
from argparse import Namespace

import web


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, go on there, ask again."""
    clients = web.Clients(listener)
    web.announce(listener)
    while clients.here or not clients.leaving:
        clients.leaving = web.stopping()
        ready = clients.selector.select(web.TICK)
        now = web.clock()
        for key, _ in ready:
            if key.data is None:
                clients.accept()
            else:
                go_on(key.data, clients, options)
        for client in clients.late(now):
            go_on(client, clients, options)


def go_on(
    client: web.Client, clients: web.Clients, options: Namespace
) -> None:
    """Do for this client what can be done without waiting."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (web.READ, web.DRAIN):
            connection.came(sock.recv(web.RECV_SIZE))
        while connection.next in (web.WORK, web.SEND):
            if connection.next is web.WORK:
                time.sleep(options.delay)  # blocks: everybody waits
                web.compute(options.compute)
                connection.worked()
            else:
                send(connection, sock, options.piece)
    except BlockingIOError:  # not ready: the selector will tell
        pass
    except OSError:  # the client is gone
        connection.wait_for(web.CLOSE)
    if connection.next is web.CLOSE:
        clients.close(client)
    else:
        clients.watch(client, web.READABLE)


def send(
    connection: web.Connection, sock: socket.socket, piece: int
) -> None:
    """Send our answer, all of it."""
    # sendall returns when the kernel has taken the whole answer. Until
    # then everybody waits. Send at most a piece, keep the rest, and go
    # on in another turn, when the selector says that there is room.
    sock.settimeout(web.SEND_SECONDS)
    sock.sendall(connection.unsent)
    sock.setblocking(False)
    connection.sent(len(connection.unsent))
    if connection.next is web.DRAIN:
        sock.shutdown(socket.SHUT_WR)


def add_options(parser: web.Parser) -> None:
    """Let the command line say how much a client gets in a turn."""
    parser.add_argument(
        "--piece", type=web.between(1, 10**9), default=1000
    )


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
