"""A worker: the server of step 02, to be run in a process of its own.

`run_worker` serves one client after the other until a signal arrives,
and ends the process. What is below it follows step 02.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import time
import traceback
from argparse import Namespace
from typing import NoReturn

from web import (
    GRACE_SECONDS,
    TICK,
    BadRequest,
    Request,
    compute,
    count,
    error_response,
    parse,
    respond,
    shutting_down,
    signals_received,
    totals,
)

HEAD_SECONDS = 10.0  # for a client to send its whole head
SEND_SECONDS = 10.0  # for a client to take a response
LINGER_SECONDS = 1.0  # for a client to close after the response
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time
STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}
PARENT = os.getpid()  # of the process that imports this: it forks

# How many requests each worker has handled: all of them write into
# this pipe, and the parent reads it.
reading_end, writing_end = os.pipe()
connections: set[socket.socket] = set()  # open now: here one or none
leave_until = math.inf  # on shutdown: the time to end by force

# Python in a new copy of a process forgets which signals arrived so
# far. So we let none arrive while a process is copied: they wait.
os.register_at_fork(
    before=lambda: hold_back(signal.SIG_BLOCK),
    after_in_parent=lambda: hold_back(signal.SIG_UNBLOCK),
    after_in_child=lambda: hold_back(signal.SIG_UNBLOCK),
)


def run_worker(listener: socket.socket, options: Namespace) -> NoReturn:
    """All that a worker does. It ends the process: it never returns."""
    status = 1
    try:
        for number in STOP_SIGNALS:
            signal.signal(number, stop)
        signal.signal(signal.SIGALRM, look_around)
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        serve_clients(listener, options)
        done = f"{totals['requests']} {totals['connections']}\n"
        os.write(writing_end, done.encode())
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def hold_back(how: int) -> None:
    """Let the signals wait that want us to stop; or no longer."""
    signal.pthread_sigmask(how, STOP_SIGNALS)


def stop(number: int, frame: object) -> None:
    """On a signal: finish what is in progress, within seconds."""
    global leave_until
    if not shutting_down:
        signals_received.append(number)
        shutting_down.append(number)
        leave_until = time.monotonic() + GRACE_SECONDS
        stop_reading()


def look_around(number: int, frame: object) -> None:
    """Twice a second: is our parent gone? Does it take too long?"""
    orphaned = PARENT not in (os.getpid(), os.getppid())
    if orphaned or time.monotonic() > leave_until:
        os._exit(1)


def collect_totals() -> None:
    """In the parent: add up what the workers have done."""
    os.set_blocking(reading_end, False)
    try:
        lines = os.read(reading_end, 64 * 1024).splitlines()
    except BlockingIOError:  # none of them has written anything
        return
    for line in lines:
        requests, accepted = line.split()
        count(requests=int(requests), connections=int(accepted))


def serve_clients(listener: socket.socket, options: Namespace) -> None:
    """Accept one connection after the other until a signal arrives."""
    listener.settimeout(TICK)
    while not shutting_down:
        connection = accept(listener)
        if connection is not None:
            handle_client(connection, options)
    listener.close()


def accept(listener: socket.socket) -> socket.socket | None:
    """The next connection; None if there is none at the moment."""
    try:
        connection, _ = listener.accept()
    except (TimeoutError, ConnectionError):  # none, or gone again
        return None
    except OSError:  # out of file descriptors: wait for free ones
        time.sleep(TICK)
        return None
    count(connections=1)
    return connection


def handle_client(
    connection: socket.socket, options: Namespace
) -> None:
    """Serve one connection and close it, whatever its client does."""
    connections.add(connection)
    if shutting_down:  # since the moment it was accepted
        stop_reading()
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
    """Read one request, do its work, send the response."""
    try:
        request = receive(connection)
    except BadRequest as error:
        send(connection, error_response(error))
        return
    if request is None:
        return
    if request.status == 200:
        if options.delay:
            time.sleep(options.delay)  # blocks: but only this process
        compute(options.compute)
    send(connection, respond(request, keep_alive=False))


def receive(connection: socket.socket) -> Request | None:
    """Read until a head is complete; None if the client ends first."""
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


def send(connection: socket.socket, response: bytes) -> None:
    """Send a whole response, however often that takes."""
    connection.settimeout(SEND_SECONDS)
    connection.sendall(response)
    count(requests=1)


def hang_up(connection: socket.socket) -> None:
    """Close our side, then read on for a moment."""
    connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + LINGER_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        if not connection.recv(RECV_SIZE):
            break


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass
