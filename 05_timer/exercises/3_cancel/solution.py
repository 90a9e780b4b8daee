"""Exercise 05.3: cancel a timer.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import functools
import heapq
import itertools
import selectors
import socket
import time
from argparse import Namespace
from collections import deque
from collections.abc import Callable
from enum import Enum

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


class Timer:
    """Something to do at a time, unless it is cancelled before."""

    def __init__(self, what: Callable[[], None]) -> None:
        self.what = what
        self.cancelled = False


class Connection:
    """One client, and how far it has come."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.state = State.READING
        self.watched = NOTHING  # events the selector looks out for
        self.received = b""  # what came and is not answered yet
        self.unsent = b""  # what is left of our answer
        self.last = False  # is it the last answer?
        self.timer: Timer | None = None  # its limit, if there is one


class Loop:
    """The event loop: wait until sockets are ready, serve those."""

    def __init__(self, listener: socket.socket, options: Namespace):
        self.listener = listener
        self.options = options
        self.selector = selectors.DefaultSelector()
        self.connections: set[Connection] = set()
        # When, a number that breaks ties, and what to do then.
        self.timers: list[tuple[float, int, Timer]] = []
        self.ties = itertools.count()
        # Pipelining: those whose next request has come already.
        self.pipelined: deque[Connection] = deque()
        self.accepting = False
        self.leaving = False
        self.next_look = 0.0

    def run(self) -> None:
        """Serve until asked to stop and nobody is left."""
        self.listener.setblocking(False)
        self.look_around(time.monotonic())
        announce(self.listener)
        while self.connections or not self.leaving:
            self.leaving = stopping()
            ready = self.selector.select(self.pause())
            now = time.monotonic()
            for key, _ in ready:
                if key.data is None:
                    self.accept()
                else:
                    self.go_on(key.data)
            self.run_due(now)
            for _ in range(len(self.pipelined)):
                self.next_request(self.pipelined.popleft())
            if now >= self.next_look:
                self.look_around(now)

    def pause(self) -> float:
        """Seconds that the selector may wait before others are due."""
        if self.pipelined:
            return 0
        if self.timers:
            due = self.timers[0][0]
            return min(max(due - time.monotonic(), 0), TICK)
        return TICK

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
            except OSError:  # out of descriptors: look_around goes on
                self.pause_accepting()
                return
            sock.setblocking(False)
            connection = Connection(sock)
            self.connections.add(connection)
            self.limit(connection, self.options.head)
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
                self.limit(connection, self.options.head)
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
        self.no_limit(connection)
        self.work(connection, request)

    def call_later(
        self, seconds: float, what: Callable[[], None]
    ) -> Timer:
        """Do something so many seconds from now."""
        timer = Timer(what)
        due = time.monotonic() + seconds
        heapq.heappush(self.timers, (due, next(self.ties), timer))
        return timer

    def run_due(self, now: float) -> None:
        """Do what is due by now."""
        while self.timers and self.timers[0][0] <= now:
            _, _, timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                timer.what()

    def limit(self, connection: Connection, seconds: float) -> None:
        """Give the client so long, then give up on it."""
        self.no_limit(connection)
        give_up = functools.partial(self.give_up, connection)
        connection.timer = self.call_later(seconds, give_up)

    def no_limit(self, connection: Connection) -> None:
        """Cancel the limit. It stays in the heap until its time.

        To find and remove it there would be slower than to skip it.
        """
        if connection.timer:
            connection.timer.cancelled = True

    def work(self, connection: Connection, request: Request) -> None:
        """Begin the request's work: the loop does not wait for it."""
        if request.status != 200:
            self.respond(connection, request)
            return
        # Until then we are not interested in what the client sends.
        self.watch(connection, NOTHING)
        done = functools.partial(self.finish, connection, request)
        self.call_later(self.options.delay, done)

    def finish(self, connection: Connection, request: Request) -> None:
        """Answer a request that has waited long enough."""
        compute(self.options.compute)
        self.respond(connection, request)

    def respond(self, connection: Connection, request: Request) -> None:
        """Answer a request whose work is done."""
        connection.last = not request.keep_alive or stopping()
        answer = respond(request, keep_alive=not connection.last)
        self.answer(connection, answer)

    def answer(self, connection: Connection, answer: bytes) -> None:
        """Begin to send; mostly the kernel takes it all at once."""
        connection.state = State.SENDING
        connection.unsent = answer
        try:
            self.send(connection)
        except BlockingIOError:  # its buffer is full
            self.limit(connection, SEND_SECONDS)
            self.watch(connection, WRITE)
        except OSError:  # the client is gone
            self.close(connection)

    def send(self, connection: Connection) -> None:
        """Send what the kernel takes; go on when there is room."""
        sent = connection.sock.send(connection.unsent)
        connection.unsent = connection.unsent[sent:]
        if connection.unsent:
            self.limit(connection, SEND_SECONDS)
            self.watch(connection, WRITE)
            return
        count(requests=1)
        if connection.last:
            self.hang_up(connection)
        elif connection.received:  # the next head has begun
            connection.state = State.WORKING
            self.limit(connection, self.options.head)
            self.watch(connection, NOTHING)
            self.pipelined.append(connection)
        else:
            connection.state = State.READING
            self.limit(connection, self.options.idle)
            self.watch(connection, READ)

    def hang_up(self, connection: Connection) -> None:
        """End our side, and read until the client ends its own.

        Closing with unread bytes makes the kernel send a reset, which
        can destroy our answer on its way (RFC 9112, section 9.6).
        """
        connection.sock.shutdown(socket.SHUT_WR)
        connection.state = State.DRAINING
        self.limit(connection, LINGER_SECONDS)
        self.watch(connection, READ)

    def close(self, connection: Connection) -> None:
        """Forget the connection; unregister first, then close."""
        self.no_limit(connection)
        self.watch(connection, NOTHING)
        connection.sock.close()
        connection.state = State.CLOSED
        self.connections.discard(connection)

    def look_around(self, now: float) -> None:
        """Twice a second: can we accept again? Should we stop?"""
        self.next_look = now + TICK
        if self.leaving:
            self.pause_accepting()
            self.listener.close()
        elif not self.accepting:
            self.selector.register(self.listener, READ)
            self.accepting = True
        for connection in list(self.connections):
            if self.leaving and connection.state is State.READING:
                self.close(connection)

    def give_up(self, connection: Connection) -> None:
        """Part with a client that was too slow."""
        if connection.state is State.READING and connection.received:
            connection.last = True
            self.answer(connection, refuse(BadRequest(408, "too slow")))
        else:
            self.close(connection)

    def pause_accepting(self) -> None:
        """Leave new connections in the accept queue for now."""
        if self.accepting:
            self.selector.unregister(self.listener)
            self.accepting = False


def add_options(parser: Parser) -> None:
    """Two of the limits can be chosen."""
    seconds = between(0.1, 3600, float)
    parser.add_argument(
        "--head", type=seconds, default=HEAD_SECONDS,
        help="seconds for a whole head (%(default)s)",
    )
    parser.add_argument(
        "--idle", type=seconds, default=IDLE_SECONDS,
        help="seconds between two requests (%(default)s)",
    )


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run the event loop until asked to stop."""
    Loop(listener, options).run()


if __name__ == "__main__":
    main(serve, add_options=add_options)
