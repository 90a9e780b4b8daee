"""Exercise 03.4: a race for tickets.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import threading
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading
from tickets import look_up, store


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
                    time.sleep(options.delay)
                    web.compute(options.compute)
                    connection.work_done()
                    add_ticket(connection)
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


def add_ticket(connection: web.Connection) -> None:
    """A field Ticket in the response's head, if wanted."""
    if connection.request and b"?ticket" in connection.request.target:
        head, _, body = connection.unsent.partition(b"\r\n\r\n")
        field = b"Ticket: %d" % take_ticket()
        connection.unsent = b"\r\n".join([head, field, b"", body])


def take_ticket() -> int:
    """The number of the next ticket; the first is 1."""
    number = look_up() + 1
    store(number)  # meanwhile, another thread may have taken it
    return number


if __name__ == "__main__":
    web.main(serve)
