"""Exercise 02.3: a client that says nothing.

Run it:     python3 server.py
The task:   task.md
"""

import select
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
            sock.settimeout(web.LINGER_SECONDS)
            sock.recv(web.RECV_SIZE)  # its end, as a rule: see 02.4
        except OSError:  # the client is gone, or too slow
            pass
        finally:
            open_now.discard(sock)


def answer_request(sock: socket.socket, options: Namespace) -> None:
    """Read one request, do its work, send the response."""
    try:
        request = receive(sock, options.patience)
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


def receive(sock: socket.socket, patience: float) -> web.Request | None:
    """Read until a head is complete; None if the client ends first.

    patience: seconds that the client has for the whole head.
    """
    deadline = time.monotonic() + patience
    received = b""
    while (request := web.parse(received)) is None:
        if not arrives(sock, deadline):
            if received:
                raise web.BadRequest(408, "too slow")
            return None
        data = sock.recv(web.RECV_SIZE)  # something is there
        if not data:
            return None
        received += data
    return request


def arrives(sock: socket.socket, deadline: float) -> bool:
    """Wait until there is something to receive; False if too late."""
    left = deadline - time.monotonic()
    return left > 0 and bool(select.select([sock], [], [], left)[0])


def add_options(parser: web.Parser) -> None:
    """--patience, so that the tests need not wait so long."""
    parser.add_argument(
        "--patience", type=web.between(0.1, 3600, float), default=10.0,
        help="seconds a client has for its head (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    web.main(serve, stop_reading, add_options)
