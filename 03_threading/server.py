"""Step 03: one thread per connection.

A blocking call holds up its own thread and no other. So each connection
gets a thread of its own, which runs the code of step 02; the main
thread does nothing but accept. Now a connection may also stay open for
more requests (keep-alive): it no longer blocks anyone else.

Run it:      python3 03_threading/server.py
Try this:    ab -n 1000 -c 10 http://127.0.0.1:8000/
What breaks: a thousand clients are a thousand threads, most of them
             asleep. pool.py bounds them; step 04 needs only one.
"""

from __future__ import annotations

import socket
import threading
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
    """Start a thread for each connection until a signal arrives."""
    listener.settimeout(TICK)
    announce(listener)
    while not shutting_down:
        sock = accept(listener)
        if sock is not None:
            start_thread(sock, options)
    for sock in accept_rest(listener):
        start_thread(sock, options)
    stop_reading()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


def start_thread(sock: socket.socket, options: Namespace) -> None:
    """Serve this client in a thread of its own."""
    try:
        threading.Thread(
            target=handle_client, args=(sock, options)
        ).start()
    except RuntimeError:  # the system gives us no more threads
        open_now.discard(sock)
        sock.close()


def handle_client(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Every wait blocks, but only this thread."""
    connection = Connection()
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
    main(serve)
