"""Exercise 05.1: a client that leaves during its timer.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import threading
from argparse import Namespace
from queue import SimpleQueue

import web
from clients import READABLE, Client, Clients
from transfer import transfer

# The timers' threads put their clients here and wake the loop.
done: SimpleQueue[Client] = SimpleQueue()
wake_send, wake_recv = socket.socketpair()


def serve(listener: socket.socket, options: Namespace) -> None:
    """Wait for ready sockets, or to be woken, and serve them."""
    clients = Clients(listener)
    clients.selector.register(wake_recv, READABLE, wake_recv)
    web.announce(listener)
    while clients.active or not clients.stopped:
        for key, _ in clients.selector.select(web.TICK):
            if key.data is None:
                clients.accept()
            elif key.data is wake_recv:
                finish_work(clients, options)
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
    begun = client.connection.next is web.WORK
    transfer(client, clients)
    if client.connection.next is web.WORK and not begun:
        # It may leave meanwhile: then its place is free at once.
        clients.watch(client, READABLE)
        begin_work(client, options)


def begin_work(client: Client, options: Namespace) -> None:
    """Start to wait: in a thread of its own, not here."""
    threading.Timer(options.delay, wake_loop, (client,)).start()


def wake_loop(client: Client) -> None:
    """Runs in the timer's thread: queue it, wake the loop."""
    done.put(client)
    wake_send.send(b"!")


def finish_work(clients: Clients, options: Namespace) -> None:
    """Runs in the loop: respond to the client whose timer is due."""
    wake_recv.recv(1)
    client = done.get()
    if client.connection.next is web.CLOSE:  # it is gone
        return
    web.compute(options.compute)
    client.connection.work_done()
    resume(client, clients, options)


if __name__ == "__main__":
    web.main(serve)
