"""Exercise 03.2: count the threads and bound them.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import threading
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start the threads, which accept for themselves; wait for a stop.

    A client that is not accepted yet waits in the kernel's queue, and
    costs us nothing.
    """
    listener.settimeout(web.TICK)
    threads = [
        threading.Thread(target=run_worker, args=(listener, options))
        for _ in range(options.workers)
    ]
    for thread in threads:
        thread.start()
    web.announce(listener)
    while not web.shutting_down:
        time.sleep(web.TICK)
    stop_reading()
    for thread in threads:
        thread.join()
    listener.close()


def run_worker(listener: socket.socket, options: Namespace) -> None:
    """Accept one connection after the other, as step 02 does."""
    while not web.shutting_down:
        sock = accept(listener)
        if sock is not None:
            handle_client(sock, options)


def handle_client(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Every wait blocks, but only this thread."""
    connection = web.Connection()
    with sock:
        try:
            while connection.next is not web.CLOSE:
                if connection.next is web.WORK:
                    time.sleep(options.delay)
                    web.compute(options.compute)
                    connection.work_done()
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone
            pass
        finally:
            open_now.discard(sock)


def wait(sock: socket.socket, connection: web.Connection) -> None:
    """Receive or send something before the deadline."""
    try:
        sock.settimeout(connection.time_left())
        if connection.next is web.SEND:
            connection.data_sent(sock.send(connection.unsent))
            if connection.next is web.LINGER:
                sock.shutdown(socket.SHUT_WR)
        else:  # it may be half a request
            connection.data_received(sock.recv(web.RECV_SIZE))
    except (TimeoutError, BlockingIOError):
        connection.timed_out()


def add_options(parser: web.Parser) -> None:
    """Let the command line choose the size of the pool."""
    parser.add_argument(
        "--workers", type=web.between(1, 10_000), default=10,
        help="threads (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
