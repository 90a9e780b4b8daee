"""Exercise 07.3: a loop that lives on completions.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import socket
import time
from argparse import Namespace
from enum import Enum

from emulated import ACCEPTED, RECEIVED, SENT, Engine
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
IDLE_SECONDS = 5.0  # for a client to begin another request
SEND_SECONDS = 10.0  # for a client to take some of our answer
LINGER_SECONDS = 1.0  # for a client to close after our answer
CLOCK = -1  # not a socket: the sleep that lets us look around


class State(Enum):
    """What a connection is doing."""

    READING = "reading"  # waits for the rest of a request
    WORKING = "working"  # has a request that is not answered yet
    SENDING = "sending"  # the client has not taken all of our answer
    DRAINING = "draining"  # our side is ended, the client's not yet
    CLOSING = "closing"  # waits for what is under way to end


class Connection:
    """One client: how far it has come, and what is under way."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.state = State.READING
        self.under_way = 0  # operations the engine has not completed
        self.receiving = False  # is one of them a receive?
        self.received = b""  # what came and is not answered yet
        self.request: Request | None = None  # being worked on
        self.unsent = b""  # what is left of our answer
        self.last = False  # is it the last answer?
        self.deadline = time.monotonic() + HEAD_SECONDS


class Loop:
    """Ask the engine for operations, and take what has become of them."""

    def __init__(self, listener: socket.socket, options: Namespace):
        self.listener = listener
        self.options = options
        self.engine = Engine()
        self.connections: dict[int, Connection] = {}
        self.accepting = False
        self.leaving = False

    def run(self) -> None:
        """Serve until asked to stop and nobody is left."""
        self.engine.adopt(self.listener)
        self.look_around()
        announce(self.listener)
        while self.connections or not self.leaving:
            tick = False
            for kind, fd, result, data, again in self.engine.wait():
                if kind == ACCEPTED:
                    self.accepting = again
                    self.accepted(result)
                elif fd == CLOCK:
                    tick = True
                else:
                    self.completed(kind, fd, result, data)
            if tick:  # not before all that has come is looked at
                self.look_around()

    def accepted(self, fd: int) -> None:
        """There is a new connection; or there can be none for now."""
        if fd >= 0:
            count(connections=1)
            self.connections[fd] = Connection(fd)
            self.receive(self.connections[fd])

    def completed(
        self, kind: int, fd: int, result: int, data: bytes
    ) -> None:
        """Something is done: go on with what comes next."""
        connection = self.connections[fd]
        connection.under_way -= 1
        if kind == RECEIVED:
            connection.receiving = False
        if connection.state is State.CLOSING:
            self.close(connection)
        elif kind == RECEIVED:
            self.received(connection, result, data)
        elif kind == SENT:
            self.sent(connection, result)
        else:
            self.worked(connection)

    def receive(self, connection: Connection) -> None:
        """Ask for what the client sends next."""
        if not connection.receiving:
            connection.receiving = True
            connection.under_way += 1
            self.engine.receive(connection.fd)

    def received(
        self, connection: Connection, result: int, data: bytes
    ) -> None:
        """The client has sent something, has ended or is gone."""
        if connection.state is State.SENDING:  # too late: it is refused
            return
        if result <= 0:
            self.close(connection)
        elif connection.state is State.DRAINING:
            self.receive(connection)
        else:
            if not connection.received:  # the head begins
                connection.deadline = time.monotonic() + HEAD_SECONDS
            connection.received += data
            self.next_request(connection)

    def next_request(self, connection: Connection) -> None:
        """Begin to answer the next request if all of it is here."""
        try:
            request = parse(connection.received)
        except BadRequest as error:
            self.answer(connection, refuse(error), last=True)
            return
        if request is None:
            connection.state = State.READING
            self.receive(connection)
            return
        connection.received = connection.received[request.size :]
        connection.request = request
        connection.state = State.WORKING
        wait = self.options.delay if request.status == 200 else 0
        connection.under_way += 1
        self.engine.sleep(connection.fd, wait)

    def worked(self, connection: Connection) -> None:
        """The wait is over: compute, and answer."""
        request = connection.request
        assert request
        if request.status == 200:
            compute(self.options.compute)
        keep_alive = request.keep_alive and not stopping()
        answer = respond(request, keep_alive)
        self.answer(connection, answer, last=not keep_alive)

    def answer(
        self, connection: Connection, answer: bytes, last: bool
    ) -> None:
        """Begin to send an answer."""
        connection.state = State.SENDING
        connection.unsent = answer
        connection.last = last
        self.send(connection)

    def send(self, connection: Connection) -> None:
        """Ask the engine to send what is left; perhaps not all goes."""
        connection.deadline = time.monotonic() + SEND_SECONDS
        connection.under_way += 1
        self.engine.send(connection.fd, connection.unsent)

    def sent(self, connection: Connection, result: int) -> None:
        """The kernel has so many bytes of our answer: what is next?"""
        if result < 0:  # the client is gone
            self.close(connection)
            return
        # Here: is all of it sent? Was it the last answer, or does the
        # client stay? Now we ask for nothing more, and only close.
        count(requests=1)
        self.close(connection)

    def hang_up(self, connection: Connection) -> None:
        """End our side, and read until the client ends its own."""
        connection.state = State.DRAINING
        connection.deadline = time.monotonic() + LINGER_SECONDS
        self.engine.shutdown(connection.fd)
        self.receive(connection)

    def close(self, connection: Connection) -> None:
        """Close as soon as nothing is under way any more."""
        if not connection.under_way:
            self.engine.close(connection.fd)
            del self.connections[connection.fd]
        elif connection.state is not State.CLOSING:
            connection.state = State.CLOSING
            self.engine.cancel(connection.fd)

    def look_around(self) -> None:
        """Twice a second: is anybody too slow? Should we stop?"""
        self.engine.sleep(CLOCK, TICK)
        if stopping() and not self.leaving:
            self.leaving = True
            self.engine.cancel(self.listener.fileno())
        elif not self.accepting and not self.leaving:
            self.accepting = True
            self.engine.accept(self.listener.fileno())
        now = time.monotonic()
        for connection in list(self.connections.values()):
            reading = connection.state is State.READING
            if reading and self.leaving:
                self.close(connection)
            elif connection.deadline <= now:
                self.give_up(connection)

    def give_up(self, connection: Connection) -> None:
        """Part with a client that was too slow."""
        if connection.state is State.READING and connection.received:
            error = BadRequest(408, "too slow")
            self.answer(connection, refuse(error), last=True)
        elif connection.state is not State.WORKING:
            self.close(connection)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run the loop until asked to stop."""
    Loop(listener, options).run()


if __name__ == "__main__":
    main(serve)
