"""Exercise 04.3: no descriptor is left.

Run it:     python3 server.py
The task:   task.md
"""

import socket
from argparse import Namespace

import web
from go_on import go_on


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
                accept(clients, options.most)
            else:
                go_on(key.data, clients, options)
        for client in clients.late(now):
            go_on(client, clients, options)


def accept(clients: web.Clients, most: int) -> None:
    """Empty the accept queue, as long as there is a place."""
    while len(clients.here) < most:
        try:
            sock, _ = clients.listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # nobody is there, or has left again
        except OSError:  # out of descriptors
            break
        sock.setblocking(False)
        client = web.Client(sock)
        clients.here.add(client)
        clients.watch(client, web.READABLE)
        web.count(connections=1)
    # The listener stays ready: let us hear no more of it. When late
    # looks around, twice a second, it asks for it again.
    clients.selector.unregister(clients.listener)
    clients.accepting = False


def add_options(parser: web.Parser) -> None:
    """Let the command line say how many clients may be here."""
    parser.add_argument(
        "--most", type=web.between(1, 10**9), default=1000
    )


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
