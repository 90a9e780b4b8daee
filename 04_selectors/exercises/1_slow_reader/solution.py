"""Exercise 04.1: a client that does not read.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import time
from argparse import Namespace

import web
from clients import READABLE, WRITABLE, Client, Clients


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, serve those, ask again."""
    clients = Clients(listener)
    web.announce(listener)
    while clients.active or not clients.stopped:
        for key, _ in clients.selector.select(web.TICK):
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
        if connection.next in (web.READ, web.LINGER):
            connection.data_received(sock.recv(web.RECV_SIZE))
        if connection.next is web.WORK:
            time.sleep(options.delay)  # blocks: all clients wait
            web.compute(options.compute)
            connection.work_done()
        if connection.next is web.SEND:
            send(connection, sock, options.piece)
    except BlockingIOError:  # not ready: wait for the selector
        pass
    except OSError:  # the client is gone
        connection.wait_for(web.CLOSE)
    if connection.next is web.CLOSE:
        clients.close(client)
    elif connection.next in (web.READ, web.LINGER):
        clients.watch(client, READABLE)
    else:  # a piece, or a request, is left for another turn
        clients.watch(client, WRITABLE)
        if connection.next is web.WORK:  # it must read to get there
            connection.wait_for(web.WORK, web.SEND_SECONDS)


def send(
    connection: web.Connection, sock: socket.socket, piece: int
) -> None:
    """Send a piece of the response, or less if there is no room."""
    connection.data_sent(sock.send(connection.unsent[:piece]))
    if connection.next is web.LINGER:
        sock.shutdown(socket.SHUT_WR)


def add_options(parser: web.Parser) -> None:
    """Let the command line say how much a client gets in a turn."""
    parser.add_argument(
        "--piece", type=web.between(1, 10**9), default=1000
    )


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
