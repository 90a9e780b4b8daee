"""Exercise 02.3: a client that says nothing.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import select
import socket
import time
from argparse import Namespace

from web import (
    TICK,
    BadRequest,
    Parser,
    Request,
    announce,
    between,
    compute,
    count,
    main,
    parse,
    refuse,
    respond,
    stopping,
)

SEND_SECONDS = 10.0  # for a client to take our answer
LINGER_SECONDS = 1.0  # for a client to close after our answer
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time

connections: set[socket.socket] = set()  # open now: here one or none


def serve(listener: socket.socket, options: Namespace) -> None:
    """Accept one connection after the other until asked to stop."""
    listener.settimeout(TICK)
    announce(listener)
    while not stopping():
        connection = accept(listener)
        if connection is not None:
            talk(connection, options)
    listener.close()


def accept(listener: socket.socket) -> socket.socket | None:
    """The next connection; None if there is none at the moment."""
    try:
        connection, _ = listener.accept()
    except (TimeoutError, ConnectionError):  # nobody came, or has left
        return None
    except OSError:  # out of descriptors: wait until some are free
        time.sleep(TICK)
        return None
    count(connections=1)
    return connection


def talk(connection: socket.socket, options: Namespace) -> None:
    """Serve one connection and close it, whatever its client does."""
    connections.add(connection)
    with connection:
        try:
            answer_request(connection, options)
            hang_up(connection)
        except OSError:  # the client is gone or has stopped reading
            pass
        finally:
            connections.discard(connection)


def answer_request(
    connection: socket.socket, options: Namespace
) -> None:
    """Read one request, do its work, send the answer."""
    try:
        request = receive(connection, options.patience)
    except BadRequest as error:
        send(connection, refuse(error))
        return
    if request is None:
        return
    if request.status == 200:
        if options.delay:
            time.sleep(options.delay)  # blocks: all others wait too
        compute(options.compute)
    send(connection, respond(request, keep_alive=False))


def receive(
    connection: socket.socket, patience: float
) -> Request | None:
    """Read until a head is complete; None if the client ends first.

    patience: seconds that the client has for the whole head.
    """
    received = b""
    deadline = time.monotonic() + patience
    while (request := parse(received)) is None:
        if not arrives(connection, deadline):
            if received:
                raise BadRequest(408, "too slow")
            return None
        data = connection.recv(RECV_SIZE)  # something is there
        if not data:
            return None
        received += data
    return request


def arrives(connection: socket.socket, deadline: float) -> bool:
    """Wait until there is something to receive; False if too late."""
    left = deadline - time.monotonic()
    return left > 0 and bool(select.select([connection], [], [], left)[0])


def send(connection: socket.socket, answer: bytes) -> None:
    """Send a whole answer; sendall goes on where send came short."""
    connection.settimeout(SEND_SECONDS)
    connection.sendall(answer)
    count(requests=1)


def hang_up(connection: socket.socket) -> None:
    """End our side, then read what the client still sends, and close.

    Closing with unread bytes makes the kernel send a reset, which can
    destroy our answer on its way (RFC 9112, section 9.6).
    """
    connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + LINGER_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        if not connection.recv(RECV_SIZE):
            break


def stop_reading() -> None:
    """On a signal: whoever waits for a request sees the end of it."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


def add_options(parser: Parser) -> None:
    """--patience, so that the tests need not wait so long."""
    parser.add_argument(
        "--patience", type=between(0.1, 3600, float), default=10.0,
        help="seconds a client has for its head (%(default)s)",
    )


if __name__ == "__main__":
    main(serve, wake=stop_reading, add_options=add_options)
