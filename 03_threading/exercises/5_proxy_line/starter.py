"""Exercise 03.5: who is asking? The PROXY line.

Run it:     python3 server.py --proxy 127.0.0.1
The task:   task.md
"""

import ipaddress
import socket
import threading
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading

LONGEST = 107  # bytes of a PROXY line, its end included


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
            who = caller(sock, connection, options.proxy)
            print(f"Hello {who}", flush=True)
            while connection.next is not web.CLOSE:
                if connection.next is web.WORK:
                    time.sleep(options.delay)
                    connection.work_done()
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone, or none of ours
            pass
        finally:
            open_now.discard(sock)


def caller(
    sock: socket.socket, connection: web.Connection, proxy: str
) -> str:
    """The client's address. Raises ConnectionError."""
    # Behind a balancer this is the address of the balancer.
    return str(sock.getpeername()[0])


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
    """--proxy: the only address whose PROXY lines we believe."""
    parser.add_argument("--proxy", default="", metavar="ADDRESS")


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
