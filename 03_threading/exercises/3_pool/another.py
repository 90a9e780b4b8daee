"""Exercise 03.3: a pool with a queue.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor

import web


def serve(listener: socket.socket, options: Namespace) -> None:
    """Hand each connection to the pool until asked to stop.

    The executor has the threads and the queue inside. Leaving the with
    waits until what was handed to it is done.
    """
    listener.settimeout(web.TICK)
    with ThreadPoolExecutor(options.workers) as pool:
        web.announce(listener)
        while not web.stopping():
            sock = web.accept(listener)
            if sock is not None:
                pool.submit(talk, sock, options)
        listener.close()
        web.stop_reading()


def talk(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Each wait blocks, but only this thread."""
    connection = web.Connection()
    with sock:
        try:
            while connection.next is not web.CLOSE:
                if connection.next is web.WORK:
                    time.sleep(options.delay)
                    web.compute(options.compute)
                    connection.worked()
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone
            pass
        finally:
            web.open_now.discard(sock)


def wait(sock: socket.socket, connection: web.Connection) -> None:
    """Receive or send something, as long as our patience lasts."""
    try:
        sock.settimeout(connection.patience())
        if connection.next is web.SEND:
            connection.sent(sock.send(connection.unsent))
            if connection.next is web.DRAIN:
                sock.shutdown(socket.SHUT_WR)
        else:  # what comes may be half a request
            connection.came(sock.recv(web.RECV_SIZE))
    except TimeoutError:
        connection.late()


def add_options(parser: web.Parser) -> None:
    """Let the command line choose the size of the pool."""
    parser.add_argument(
        "--workers", type=web.between(1, 10_000), default=10,
        help="threads (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
