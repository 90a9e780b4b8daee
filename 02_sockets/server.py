"""Step 02: the same server by hand, on one blocking socket.

A web server is a loop: accept a connection, read a request, respond,
close, begin again. Each of these calls *blocks*: the program stands
still until the other side has done its part.

Run it:      python3 02_sockets/server.py
Try this:    curl http://127.0.0.1:8000/ in two terminals at once
What breaks: the second curl waits for the first, and one client that
             connects and sends nothing holds up all the others. So
             step 03 gives each connection a thread.
"""

from __future__ import annotations

import socket
import time
from argparse import Namespace

from accepting import accept, accept_rest, open_now, stop_reading
from web import (
    CLOSE,
    LINGER,
    RECV_SIZE,
    SEND,
    TICK,
    WORK,
    Connection,
    announce,
    compute,
    main,
    shutting_down,
)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Accept one connection after the other until a signal arrives."""
    listener.settimeout(TICK)
    announce(listener)
    while not shutting_down:
        sock = accept(listener)
        if sock is not None:
            handle_client(sock, options)
    for sock in accept_rest(listener):
        handle_client(sock, options)


def handle_client(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Every wait blocks the whole server."""
    connection = Connection(keep=False)  # it would block the rest
    with sock:
        try:
            while connection.next is not CLOSE:
                if connection.next is WORK:
                    if options.delay:
                        time.sleep(options.delay)
                    compute(options.compute)
                    connection.work_done()
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone
            pass
        finally:
            open_now.discard(sock)


def wait(sock: socket.socket, connection: Connection) -> None:
    """Receive or send something before the deadline."""
    try:
        sock.settimeout(connection.time_left())
        if connection.next is SEND:
            connection.data_sent(sock.send(connection.unsent))
            if connection.next is LINGER:
                sock.shutdown(socket.SHUT_WR)
        else:  # it may be half a request
            connection.data_received(sock.recv(RECV_SIZE))
    except (TimeoutError, BlockingIOError):
        connection.timed_out()


if __name__ == "__main__":
    main(serve, wake=stop_reading)
