"""Exercise 02.4: what the kernel saw.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading


def serve(listener: socket.socket, options: Namespace) -> None:
    """Accept one connection after the other until a signal arrives."""
    listener.settimeout(web.TICK)
    web.announce(listener)
    while not web.shutting_down:
        sock = accept(listener)
        if sock is not None:
            handle_client(sock, options)
    listener.close()


def handle_client(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Every wait blocks the whole server."""
    with sock:
        try:
            answer_request(sock, options)
            hang_up(sock, options.linger)
        except OSError:  # the client is gone, or too slow
            pass
        finally:
            open_now.discard(sock)


def answer_request(sock: socket.socket, options: Namespace) -> None:
    """Read one request, do its work, send the response."""
    try:
        request = receive(sock)
    except web.BadRequest as error:
        sock.sendall(web.error_response(error))
        return
    if request is None:
        return
    if request.status == 200:
        time.sleep(options.delay)
        web.compute(options.compute)
    sock.sendall(web.respond(request, keep_alive=False))
    web.count(requests=1)


def receive(sock: socket.socket) -> web.Request | None:
    """Read until a head is complete; None if the client ends first."""
    sock.settimeout(web.HEAD_SECONDS)
    received = b""
    request = None
    while request is None:
        data = sock.recv(web.RECV_SIZE)
        if not data:
            return None
        received += data
        request = web.parse(received)
    return request


def hang_up(sock: socket.socket, linger: float) -> None:
    """Read what the client still sends; then handle_client closes."""
    sock.settimeout(linger)
    sock.recv(web.RECV_SIZE)


def add_options(parser: web.Parser) -> None:
    """--linger, for clients that go on sending."""
    parser.add_argument("--linger", type=float, default=1.0)


if __name__ == "__main__":
    web.main(serve, stop_reading, add_options)
