"""Exercise 03.6: from an empty file, a quota for each key.

Run it:     python3 server.py --quota 2
The task:   task.md
"""

import collections
import re
import socket
import threading
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading

KEY = re.compile(rb"[?&]key=([^&]+)")
asked: collections.Counter[bytes] = collections.Counter()  # by key
counting = threading.Lock()  # for threads that look and add


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start a thread for each connection until a signal arrives."""
    listener.settimeout(web.TICK)
    web.announce(listener)
    while not web.shutting_down:
        sock = accept(listener)
        if sock is not None:
            threading.Thread(
                target=handle_client, args=(sock, options)
            ).start()
    listener.close()
    stop_reading()
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
                    work(connection, options)
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone
            pass
        finally:
            open_now.discard(sock)


def work(connection: web.Connection, options: Namespace) -> None:
    """Do the work of a request, or refuse it."""
    assert connection.request
    key = KEY.search(connection.request.target)
    if key and not is_within(key[1], options.quota):
        error = web.BadRequest(429, "the quota is used up")
        connection.send_response(web.error_response(error), last=True)
        return
    time.sleep(options.delay)
    web.compute(options.compute)
    connection.work_done()


def is_within(key: bytes, quota: int) -> bool:
    """Count a request of this key, unless its quota is used up."""
    with counting:
        if asked[key] >= quota:
            return False
        asked[key] += 1
        return True


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
    """Let the command line say how many requests a key has."""
    parser.add_argument(
        "--quota", type=web.between(1, 10**9), default=100
    )


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
