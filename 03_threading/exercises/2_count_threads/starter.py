"""Exercise 03.2: count the threads and bound them.

Run it:     python3 server.py --workers 3
The task:   task.md
"""

from __future__ import annotations

import socket
import threading
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

HEAD_SECONDS = 10.0  # for a client to send its whole head
IDLE_SECONDS = 5.0  # for a client to begin another request
SEND_SECONDS = 10.0  # for a client to take our answer
LINGER_SECONDS = 1.0  # for a client to close after our answer
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time

connections: set[socket.socket] = set()  # open now


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start a thread for each connection until asked to stop."""
    listener.settimeout(TICK)
    announce(listener)
    while not stopping():
        connection = accept(listener)
        if connection is not None:
            # A thread for each, however many come.
            start_thread(connection, options)
    listener.close()
    stop_reading()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


def start_thread(connection: socket.socket, options: Namespace) -> None:
    """Serve this connection in a thread of its own."""
    connections.add(connection)
    try:
        threading.Thread(
            target=talk, args=(connection, options)
        ).start()
    except RuntimeError:  # the system gives us no more threads
        connections.discard(connection)
        connection.close()


def add_options(parser: Parser) -> None:
    """Let the command line choose the size of the pool."""
    parser.add_argument(
        "--workers",
        type=between(1, 10_000),
        default=10,
        help="threads (%(default)s)",
    )


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
    received = bytearray()  # what came and is not answered yet
    patience = HEAD_SECONDS
    with connection:
        try:
            while answer_request(
                connection, received, patience, options
            ):
                patience = IDLE_SECONDS
            hang_up(connection)
        except OSError:  # the client is gone or has stopped reading
            pass
        finally:
            connections.discard(connection)


def answer_request(
    connection: socket.socket,
    received: bytearray,
    patience: float,
    options: Namespace,
) -> bool:
    """Answer one request. May another one follow?"""
    try:
        request = receive(connection, received, patience)
    except BadRequest as error:
        send(connection, refuse(error))
        return False
    if request is None:
        return False
    if request.status == 200:
        if options.delay:
            time.sleep(options.delay)  # blocks: but only this thread
        compute(options.compute)
    keep_alive = request.keep_alive and not stopping()
    send(connection, respond(request, keep_alive))
    return keep_alive


def receive(
    connection: socket.socket, received: bytearray, patience: float
) -> Request | None:
    """Read until a head is complete; None if the client ends first.

    TCP carries a stream of bytes, not messages: one recv may bring half
    a request. So we go on until the parser has seen all of it. It may
    also bring more than one: the rest stays in received.
    """
    if received:  # the head has begun with the request before it
        patience = HEAD_SECONDS
    deadline = time.monotonic() + patience
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
        if not received:  # the head begins
            deadline = time.monotonic() + HEAD_SECONDS
        received += data
    del received[: request.size]
    return request


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
    """When we stop: whoever waits for a request sees the end of it."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


if __name__ == "__main__":
    main(serve, add_options=add_options)
