"""Step 05, threads: the same loop, the timers in threads.

The loop sets a timer, serves others, and resumes the request when the
timer is due. threading.Timer is a thread, and threads must not touch
the loop's sockets; it only puts the client into a queue and wakes the
loop with a byte through a pair of sockets (a self-pipe).

Run it:      python3 05_timer/threads.py
Try this:    ab -n 1000 -c 10 http://127.0.0.1:8000/
What breaks: each threading.Timer is a thread of its own, so a thousand
             waits are a thousand threads again. server.py needs none.
"""

from __future__ import annotations

import socket
import threading
from argparse import Namespace
from queue import SimpleQueue

from clients import NOTHING, READABLE, WRITABLE, Client, Clients
from web import (
    CLOSE,
    LINGER,
    READ,
    RECV_SIZE,
    SEND,
    TICK,
    announce,
    compute,
    main,
)

# The timers' threads put their clients here and wake the loop.
done: SimpleQueue[Client] = SimpleQueue()
wake_send, wake_recv = socket.socketpair()


def serve(listener: socket.socket, options: Namespace) -> None:
    """Wait for ready sockets, or to be woken, and serve them."""
    clients = Clients(listener)
    wake_send.setblocking(False)
    clients.selector.register(wake_recv, READABLE, wake_recv)
    announce(listener)
    while clients.active or not clients.stopped:
        for key, _ in clients.selector.select(TICK):
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
        begin_work(client, clients, options)


def begin_work(
    client: Client, clients: Clients, options: Namespace
) -> None:
    """Start to wait: in a thread of its own, not here."""
    try:
        threading.Timer(options.delay, wake_loop, (client,)).start()
    except RuntimeError:  # the system gives us no more threads
        clients.close(client)


def wake_loop(client: Client) -> None:
    """Runs in the timer's thread: queue the client, wake the loop."""
    done.put(client)
    try:
        wake_send.send(b"!")
    except BlockingIOError:  # so many bytes that it wakes anyway
        pass


def finish_work(clients: Clients, options: Namespace) -> None:
    """Runs in the loop: respond to clients whose timers are due."""
    wake_recv.recv(RECV_SIZE)
    while not done.empty():
        client = done.get()
        compute(options.compute)
        client.connection.work_done()
        resume(client, clients, options)


if __name__ == "__main__":
    main(serve)
