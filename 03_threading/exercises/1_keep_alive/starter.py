"""Exercise 03.1: keep the connection open.

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
    received = bytearray()  # arrived, but not handled yet
    with sock:
        try:
            sock.settimeout(web.HEAD_SECONDS)
            answer_request(sock, received, options.delay, True)  # (1)
            sock.shutdown(socket.SHUT_WR)  # that was all
            sock.settimeout(web.LINGER_SECONDS)
            while sock.recv(web.RECV_SIZE):  # wait for the client's end
                pass
        except OSError:  # the client is gone, or too slow
            pass
        finally:
            open_now.discard(sock)


def answer_request(
    sock: socket.socket, received: bytearray, delay: float, last: bool
) -> bool:
    """Answer one request, perhaps the last. May another one follow?"""
    try:
        request = receive(sock, received)
    except web.BadRequest as error:
        sock.sendall(web.error_response(error))
        return False
    if request.status == 200:
        time.sleep(delay)
    web.count(requests=1)
    sock.sendall(web.respond(request, keep_alive=False))  # (2)
    return False


def receive(sock: socket.socket, received: bytearray) -> web.Request:
    """Read until a head is complete. OSError: the client ends first."""
    while (request := web.parse(received)) is None:
        data = sock.recv(web.RECV_SIZE)
        if not data:
            raise ConnectionError
        received += data
    return request  # (3) received still begins with it


def add_options(parser: web.Parser) -> None:
    """--most: so many responses on one connection."""
    parser.add_argument("--most", type=int, default=10_000)


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
