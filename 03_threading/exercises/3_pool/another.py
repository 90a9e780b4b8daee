"""Exercise 03.3: a pool with a queue, the newest first.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import threading
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading


class Waiting:
    """Clients that wait for a thread: the newest is the last."""

    def __init__(self) -> None:
        self.clients: list[socket.socket] = []
        self.ended = False  # there are no more
        self.changed = threading.Condition()

    def add(self, sock: socket.socket) -> None:
        """One more; wakes a thread that waits for one."""
        with self.changed:
            self.clients.append(sock)
            self.changed.notify()

    def end(self) -> None:
        """There are no more; wakes all threads."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def serve_newest(self, options: Namespace) -> None:
        """What each thread does: serve one client after the other."""
        while True:
            with self.changed:
                self.changed.wait_for(
                    lambda: self.clients or self.ended
                )
                if self.ended:
                    return
                sock = self.clients.pop()
            handle_client(sock, options)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Hand each connection to the threads until a signal arrives."""
    listener.settimeout(web.TICK)
    waiting = Waiting()
    for _ in range(options.workers):
        threading.Thread(
            target=waiting.serve_newest, args=[options]
        ).start()
    web.announce(listener)
    while not web.shutting_down:
        sock = accept(listener)
        if sock is not None:
            waiting.add(sock)
    listener.close()
    stop_reading()
    waiting.end()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


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
