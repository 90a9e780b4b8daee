"""Exercise 04.3: no descriptor is left.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import selectors
import socket
import time
from argparse import Namespace
from collections import deque
from enum import Enum

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
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
NOTHING = 0  # not watched by the selector


class State(Enum):
    """What a connection is doing; see Loop for who changes it."""

    READING = "reading"  # waits for the rest of a request
    WORKING = "working"  # has a request that is not answered yet
    SENDING = "sending"  # the client has not taken all of our answer
    DRAINING = "draining"  # our side is ended, the client's not yet
    CLOSED = "closed"


class Connection:
    """One client: how far it has come, and until when we wait."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.state = State.READING
        self.watched = NOTHING  # events the selector looks out for
        self.received = b""  # what came and is not answered yet
        self.unsent = b""  # what is left of our answer
        self.last = False  # is it the last answer?
        self.deadline = time.monotonic() + HEAD_SECONDS


class Loop:
    """The event loop: wait until sockets are ready, serve those."""

    def __init__(self, listener: socket.socket, options: Namespace):
        self.listener = listener
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.connections: set[Connection] = set()
        # Pipelining: those whose next request has come already.
        self.pipelined: deque[Connection] = deque()
        self.leaving = False
        self.next_look = 0.0

    def run(self) -> None:
        """Serve until asked to stop and nobody is left."""
        self.listener.setblocking(False)
        self.selector.register(self.listener, READ)
        announce(self.listener)
        while self.connections or not self.leaving:
            self.leaving = stopping()
            ready = self.selector.select(0 if self.pipelined else TICK)
            now = time.monotonic()
            for key, _ in ready:
                if key.data is None:
                    self.accept()
                else:
                    self.go_on(key.data)
            for _ in range(len(self.pipelined)):
                self.next_request(self.pipelined.popleft())
            if now >= self.next_look:
                self.look_around(now)

    def watch(self, connection: Connection, events: int) -> None:
        """Let the selector look out for these events, or for none."""
        if connection.watched == events:
            return
        if not events:
            self.selector.unregister(connection.sock)
        elif connection.watched:
            self.selector.modify(connection.sock, events, connection)
        else:
            self.selector.register(connection.sock, events, connection)
        connection.watched = events

    def accept(self) -> None:
        """Empty the accept queue."""
        while True:
            try:
                sock, _ = self.listener.accept()
            except (BlockingIOError, ConnectionError):
                return  # nobody is there, or has left again
            except OSError:  # out of descriptors
                # The client stays in the accept queue, and the
                # listener stays ready: the selector returns at
                # once, again and again. Let us hear no more of the
                # listener, until there may be a descriptor again.
                return
            sock.setblocking(False)
            connection = Connection(sock)
            self.connections.add(connection)
            self.watch(connection, READ)
            count(connections=1)

    def go_on(self, connection: Connection) -> None:
        """The socket is ready for what the connection is doing."""
        try:
            if connection.state is State.SENDING:
                self.send(connection)
            else:
                self.receive(connection)
        except BlockingIOError:  # not ready after all: wait again
            pass
        except OSError:  # the client is gone
            self.close(connection)

    def receive(self, connection: Connection) -> None:
        """Take what has come; a request may come in pieces."""
        data = connection.sock.recv(RECV_SIZE)
        if not data:
            self.close(connection)
        elif connection.state is State.READING:
            if not connection.received:  # the head begins
                connection.deadline = time.monotonic() + HEAD_SECONDS
            connection.received += data
            self.next_request(connection)

    def next_request(self, connection: Connection) -> None:
        """Begin to answer the next request if all of it is here."""
        try:
            request = parse(connection.received)
        except BadRequest as error:
            connection.last = True
            self.answer(connection, refuse(error))
            return
        if request is None:
            connection.state = State.READING
            self.watch(connection, READ)
            return
        connection.received = connection.received[request.size :]
        connection.state = State.WORKING
        self.work(connection, request)

    def work(self, connection: Connection, request: Request) -> None:
        """Do the request's work, then answer it."""
        if request.status == 200:
            if self.options.delay:
                time.sleep(self.options.delay)  # blocks: all wait
            compute(self.options.compute)
        connection.last = not request.keep_alive or stopping()
        answer = respond(request, keep_alive=not connection.last)
        self.answer(connection, answer)

    def answer(self, connection: Connection, answer: bytes) -> None:
        """Begin to send; mostly the kernel takes it all at once."""
        connection.state = State.SENDING
        connection.unsent = answer
        connection.deadline = time.monotonic() + SEND_SECONDS
        try:
            self.send(connection)
        except BlockingIOError:  # its buffer is full
            self.watch(connection, WRITE)
        except OSError:  # the client is gone
            self.close(connection)

    def send(self, connection: Connection) -> None:
        """Send what the kernel takes; go on when there is room."""
        sent = connection.sock.send(connection.unsent)
        connection.unsent = connection.unsent[sent:]
        connection.deadline = time.monotonic() + SEND_SECONDS
        if connection.unsent:
            self.watch(connection, WRITE)
            return
        count(requests=1)
        if connection.last:
            self.hang_up(connection)
        elif connection.received:  # the next head has begun
            connection.state = State.WORKING
            connection.deadline = time.monotonic() + HEAD_SECONDS
            self.watch(connection, NOTHING)
            self.pipelined.append(connection)
        else:
            connection.state = State.READING
            connection.deadline = time.monotonic() + IDLE_SECONDS
            self.watch(connection, READ)

    def hang_up(self, connection: Connection) -> None:
        """End our side, and read until the client ends its own.

        Closing with unread bytes makes the kernel send a reset, which
        can destroy our answer on its way (RFC 9112, section 9.6).
        """
        connection.sock.shutdown(socket.SHUT_WR)
        connection.state = State.DRAINING
        connection.deadline = time.monotonic() + LINGER_SECONDS
        self.watch(connection, READ)

    def close(self, connection: Connection) -> None:
        """Forget the connection; unregister first, then close."""
        self.watch(connection, NOTHING)
        connection.sock.close()
        connection.state = State.CLOSED
        self.connections.discard(connection)

    def look_around(self, now: float) -> None:
        """Twice a second: is anybody too slow? Should we stop?

        now is when the selector last looked: whoever was not ready
        then is late; whoever became ready since then is not.
        """
        self.next_look = now + TICK
        if self.leaving and self.listener.fileno() != -1:
            self.selector.unregister(self.listener)
            self.listener.close()
        for connection in list(self.connections):
            reading = connection.state is State.READING
            if reading and self.leaving:
                self.close(connection)
            elif connection.deadline <= now:
                self.give_up(connection)

    def give_up(self, connection: Connection) -> None:
        """Part with a client that was too slow."""
        if connection.state is State.READING and connection.received:
            connection.last = True
            self.answer(connection, refuse(BadRequest(408, "too slow")))
        elif connection.state is not State.WORKING:
            self.close(connection)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run the event loop until asked to stop."""
    Loop(listener, options).run()


if __name__ == "__main__":
    main(serve)
