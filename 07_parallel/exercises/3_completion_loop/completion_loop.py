"""A loop that lives on completions; what follows each is in server.py.

It submits operations to an engine, and collects their completions.
"""

import socket
from argparse import Namespace

import web
from emulated import ACCEPTED, RECEIVED, SENT, Engine

CLOCK = -1  # not a socket: the sleep that wakes us twice a second


class Client:
    """A connection, and what the engine has in flight for it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.connection = web.Connection()
        self.in_flight = 0  # operations that are not complete
        self.receiving = False  # is one of them a receive?


class Loop:
    """All open connections, and the engine."""

    def __init__(
        self, listener: socket.socket, options: Namespace
    ) -> None:
        self.listener = listener
        self.options = options
        self.engine = Engine()
        self.clients: dict[int, Client] = {}
        self.accepting = False
        self.leaving = False

    def run(self) -> None:
        """Serve until a signal arrives and no client is left."""
        self.engine.adopt(self.listener)
        self.keep_house()
        web.announce(self.listener)
        while self.clients or not self.leaving:
            tick = False
            for kind, fd, result, data, more in self.engine.wait():
                if kind == ACCEPTED:
                    self.accepting = more
                    self.accepted(result)
                elif fd == CLOCK:
                    tick = True
                else:
                    self.completed(kind, fd, result, data)
            if tick:  # after everything that has arrived
                self.keep_house()

    def accepted(self, fd: int) -> None:
        """There is a new connection; or there can be none for now."""
        if fd >= 0:
            web.count(connections=1)
            self.clients[fd] = Client(fd)
            self.resume(self.clients[fd])
        elif self.leaving:  # the accept queue is empty
            self.engine.close(self.listener.fileno())

    def completed(
        self, kind: int, fd: int, result: int, data: bytes
    ) -> None:
        """Something is done: tell server.py."""
        client = self.clients[fd]
        client.in_flight -= 1
        if kind == RECEIVED:
            client.receiving = False
        if client.connection.next is web.CLOSE:
            self.close(client)
        elif kind == SENT:
            self.sent(client, result)
        elif kind != RECEIVED:
            self.finish_work(client)
        elif client.connection.next is not web.SEND:
            self.received(client, result, data)  # else: it is too late

    def close(self, client: Client) -> None:
        """Close as soon as nothing is in flight any more."""
        client.connection.wait_for(web.CLOSE)
        if client.in_flight:
            self.engine.cancel(client.fd)
        else:
            self.engine.close(client.fd)
            del self.clients[client.fd]

    def keep_house(self) -> None:
        """Twice a second: has a deadline passed? Do we still accept?"""
        self.engine.sleep(CLOCK, web.TICK)
        if web.shutting_down and not self.leaving:
            self.leaving = True
            if self.accepting:
                self.engine.stop_accepting(self.listener.fileno())
            else:
                self.engine.close(self.listener.fileno())
        elif not self.accepting and not self.leaving:
            self.accepting = True
            self.engine.accept(self.listener.fileno())
        now = web.clock()
        for client in list(self.clients.values()):
            if self.leaving:
                client.connection.shorten_deadline()
            if client.connection.deadline <= now:
                client.connection.timed_out()
                self.resume(client)

    # What server.py adds.

    def received(
        self, client: Client, result: int, data: bytes
    ) -> None:
        """A receive is complete."""
        raise NotImplementedError

    def finish_work(self, client: Client) -> None:
        """The wait for a request's work is over."""
        raise NotImplementedError

    def sent(self, client: Client, result: int) -> None:
        """A send is complete."""
        raise NotImplementedError

    def resume(self, client: Client) -> None:
        """Ask for the next operation."""
        raise NotImplementedError
