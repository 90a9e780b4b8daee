"""Exercise 04.3: no descriptor is left.

Run it:     python3 server.py
The task:   task.md
"""

import socket
from argparse import Namespace

import web
from clients import READABLE, Client, Clients
from resume import resume


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, serve those, ask again."""
    clients = Clients(listener)
    web.announce(listener)
    while clients.active or not clients.stopped:
        for key, _ in clients.selector.select(web.TICK):
            if key.data is None:
                accept(clients, options.most)
            else:
                resume(key.data, clients, options)
        if clients.is_tick():
            clients.keep_house()
            for client in clients.overdue():
                client.connection.timed_out()
                resume(client, clients, options)


def accept(clients: Clients, most: int) -> None:
    """Empty the accept queue, as long as there is a place."""
    while len(clients.active) < most:
        try:
            sock, _ = clients.listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # the queue is empty, or a client gone again
        except OSError:  # out of file descriptors
            break
        sock.setblocking(False)
        client = Client(sock)
        clients.active.add(client)
        clients.watch(client, READABLE)
        web.count(connections=1)
    # The listener stays ready: let the selector wait for it no more.
    # Twice a second, keep_house lets it wait again.
    clients.selector.unregister(clients.listener)
    clients.accepting = False


def add_options(parser: web.Parser) -> None:
    """Let the command line say how many clients there may be."""
    parser.add_argument(
        "--most", type=web.between(1, 10**9), default=1000
    )


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
