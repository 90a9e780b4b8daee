"""Exercise 02.4: what the kernel saw.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import socket
import time
from argparse import Namespace

from web import (
    TICK,
    BadRequest,
    Request,
    announce,
    compute,
    count,
    main,
    parse,
    refuse,
    respond,
    stopping,
)

HEAD_SECONDS = 10.0  # for a client to send its whole head
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
        request = receive(connection)
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


def receive(connection: socket.socket) -> Request | None:
    """Read until a head is complete; None if the client ends first.

    TCP carries a stream of bytes, not messages: one recv may bring half
    a request. So we go on until the parser has seen all of it.
    """
    received = b""
    deadline = time.monotonic() + HEAD_SECONDS
    while (request := parse(received)) is None:
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            data = connection.recv(RECV_SIZE)
        except TimeoutError:
            if received:
                raise BadRequest(408, "too slow") from None
            return None
        if not data:
            return None
        received += data
    return request


def send(connection: socket.socket, answer: bytes) -> None:
    """Send a whole answer; sendall goes on where send came short."""
    connection.settimeout(SEND_SECONDS)
    connection.sendall(answer)
    count(requests=1)


def hang_up(connection: socket.socket) -> None:
    """Read what the client still sends; then talk closes."""
    connection.settimeout(LINGER_SECONDS)
    connection.recv(RECV_SIZE)


def stop_reading() -> None:
    """On a signal: whoever waits for a request sees the end of it."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


if __name__ == "__main__":
    main(serve, wake=stop_reading)
