"""A loop that lives on completions; what follows each is in server.py.

It asks an engine for operations, and takes what has become of them.
"""

import socket
from argparse import Namespace

import web
from emulated import ACCEPTED, RECEIVED, SENT, Engine

CLOCK = -1  # not a socket: the sleep that lets us look around


class Client:
    """A connection with its descriptor, and what is under way on it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.connection = web.Connection()
        self.under_way = 0  # operations the engine has not completed
        self.receiving = False  # is one of them a receive?


class Loop:
    """Everybody who is connected, and the engine."""

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
        """Serve until asked to stop and nobody is left."""
        self.engine.adopt(self.listener)
        self.look_around()
        web.announce(self.listener)
        while self.clients or not self.leaving:
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
            web.count(connections=1)
            self.clients[fd] = Client(fd)
            self.go_on(self.clients[fd])
        elif self.leaving:  # all who were in the queue are here
            self.engine.close(self.listener.fileno())

    def completed(
        self, kind: int, fd: int, result: int, data: bytes
    ) -> None:
        """Something is done: tell server.py."""
        client = self.clients[fd]
        client.under_way -= 1
        if kind == RECEIVED:
            client.receiving = False
        if client.connection.next is web.CLOSE:
            self.close(client)
        elif kind == SENT:
            self.sent(client, result)
        elif kind != RECEIVED:
            self.worked(client)
        elif client.connection.next is not web.SEND:
            self.received(client, result, data)  # else: it is too late

    def close(self, client: Client) -> None:
        """Close as soon as nothing is under way any more."""
        client.connection.wait_for(web.CLOSE)
        if client.under_way:
            self.engine.cancel(client.fd)
        else:
            self.engine.close(client.fd)
            del self.clients[client.fd]

    def look_around(self) -> None:
        """Twice a second: is anybody too slow? Should we stop?"""
        self.engine.sleep(CLOCK, web.TICK)
        if web.stopping() and not self.leaving:
            self.leaving = True
            if self.accepting:
                self.engine.refuse(self.listener.fileno())
            else:
                self.engine.close(self.listener.fileno())
        elif not self.accepting and not self.leaving:
            self.accepting = True
            self.engine.accept(self.listener.fileno())
        now = web.clock()
        for client in list(self.clients.values()):
            if self.leaving:
                client.connection.hurry()
            if client.connection.deadline <= now:
                client.connection.late()
                self.go_on(client)

    # What server.py adds.

    def received(
        self, client: Client, result: int, data: bytes
    ) -> None:
        """A receive is complete."""
        raise NotImplementedError

    def worked(self, client: Client) -> None:
        """The wait for a request's work is over."""
        raise NotImplementedError

    def sent(self, client: Client, result: int) -> None:
        """A send is complete."""
        raise NotImplementedError

    def go_on(self, client: Client) -> None:
        """Ask for the next operation."""
        raise NotImplementedError
