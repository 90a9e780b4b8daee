"""Exercise 05.1: a client that leaves during its timer.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import threading
from argparse import Namespace
from queue import SimpleQueue

import web
from transfer import transfer

# The timers' threads leave their clients here and ring: the loop wakes.
worked: SimpleQueue[web.Client] = SimpleQueue()
bell, alarm = socket.socketpair()


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask who is ready, the alarm among them, go on there."""
    clients = web.Clients(listener)
    clients.selector.register(alarm, web.READABLE, alarm)
    web.announce(listener)
    while clients.here or not clients.leaving:
        clients.leaving = web.stopping()
        ready = clients.selector.select(web.TICK)
        now = web.clock()
        for key, _ in ready:
            if key.data is None:
                clients.accept()
            elif key.data is alarm:
                finish_work(clients, options)
            else:
                go_on(key.data, clients, options)
        for client in clients.late(now):
            go_on(client, clients, options)


def go_on(
    client: web.Client, clients: web.Clients, options: Namespace
) -> None:
    """Do for this client what can be done without waiting."""
    begun = client.connection.next is web.WORK
    transfer(client, clients)
    if client.connection.next is web.WORK and not begun:
        # It may leave meanwhile: then its place is free at once.
        clients.watch(client, web.READABLE)
        begin_work(client, options)


def begin_work(client: web.Client, options: Namespace) -> None:
    """Begin to wait: in a thread of its own, not here."""
    threading.Timer(options.delay, ring, (client,)).start()


def ring(client: web.Client) -> None:
    """In the timer's thread: hand over to the loop, wake it."""
    worked.put(client)
    bell.send(b"!")


def finish_work(clients: web.Clients, options: Namespace) -> None:
    """In the loop: answer the one whose timer has gone off."""
    alarm.recv(1)
    client = worked.get()
    if client.connection.next is web.CLOSE:  # has left
        return
    web.compute(options.compute)
    client.connection.worked()
    go_on(client, clients, options)


if __name__ == "__main__":
    web.main(serve)
