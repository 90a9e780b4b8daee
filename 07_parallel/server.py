"""Step 07: completions, a worker on every core.

A worker submits operations and collects their completions, instead of
asking which sockets are ready and making the calls itself (a loop like
this is also called a proactor). And there are as many workers as cores,
each with a listening socket of its own: the kernel deals out clients.

Read first   server.py    a worker: what it submits, what it collects
then         workers.py   starts the workers, replaces, stops them
             emulated.py  an engine over a selector: shows the interface
             uring.py     an engine over io_uring: the kernel completes
             prepared.py  one look-up from a request to its response
             files.py     --directory: which file a request means

Run it:      python3 07_parallel/server.py --workers 2
Try this:    ab -n 2000 -c 20 http://127.0.0.1:8000/ with --delay 0
             --compute 100000, then with --workers 1
             --directory site serves files instead of the small page
What breaks: processes share nothing: a counter or a cache for all of
             them needs a database, or threads without a GIL.
"""

from __future__ import annotations

import errno
import math
import socket
import time
from argparse import Namespace

import workers
from client import Client, Engine
from emulated import ACCEPTED, RECEIVED, SENT
from file_client import client_for
from options import add_options, settle
from prepared import AtOnce
from web import (
    CLOSE,
    GRACE_SECONDS,
    LINGER,
    READ,
    SEND,
    TICK,
    WORK,
    announce,
    clock,
    compute,
    count,
    main,
    shutting_down,
    signals_received,
)
from workers import LEAVE, STARTED

MANY_PIECES = 8  # received before their turn: then receive no more
CLOCK = -1  # not a socket: the sleep that wakes a worker twice a second


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start the workers, replace those that die, stop them all."""
    settle(options)
    crew = workers.Workers(listener, options, Worker)
    announce(crew.listeners[0])
    while not shutting_down:
        crew.replace_dead()
        if signals_received:
            crew.send(LEAVE)
        time.sleep(TICK)
    for requests, connections in crew.stop():
        count(requests, connections)


class Worker:
    """Serves its share of the clients: one thread, one engine."""

    def __init__(
        self, listener: socket.socket, parent: socket.socket,
        options: Namespace,
    ) -> None:  # fmt: skip
        self.delay, self.compute = options.delay, options.compute
        self.new_client = client_for(options.directory)
        self.engine: Engine = options.engine()
        self.parent, self.listener = parent, listener.fileno()
        self.engine.adopt(parent)
        self.engine.adopt(listener)
        self.clients: dict[int, Client] = {}
        works = options.directory or self.delay or self.compute
        self.at_once = AtOnce(self.engine, self.clients, not works)
        self.overdue: set[int] = set()  # at the last tick
        self.connections = 0  # so far
        self.accepting, self.listening = False, True
        self.leave_until = math.inf
        self.block = True  # shall the engine wait for completions?
        self.now = clock()  # when the last ones were collected

    def run(self) -> None:
        """Serve until the parent stops us and no client is left."""
        engine, clients = self.engine, self.clients
        self.accept_more()
        engine.receive(self.parent.fileno())
        engine.sleep(CLOCK, TICK)
        self.parent.send(STARTED)
        while clients or self.listening:
            batch = engine.wait(self.block)
            self.now, self.block, tick = clock(), True, False
            for each in self.at_once.begin_batch(self.now):
                self.resume(each)
            for operation, fd, result, data, more in batch:
                client = clients.get(fd)
                if client is None:
                    if operation == ACCEPTED:
                        self.accepted(result, more)
                    elif fd == CLOCK:
                        tick = True
                    else:
                        self.parent_sent(result, data)
                    continue
                if not more:
                    client.in_flight -= 1
                if operation == RECEIVED:
                    client.receiving = more
                    self.received(client, result, data)
                elif operation == SENT:
                    self.sent(client, result)
                else:  # its wait is over
                    self.finish_work(client)
            if tick:  # after everything that has arrived
                engine.sleep(CLOCK, TICK)
                self.keep_house()
            if self.now > self.leave_until:
                break
        count(self.at_once.requests, self.connections)

    def accept_more(self) -> None:
        """Begin to accept, or begin again."""
        self.engine.accept(self.listener)
        self.accepting = True

    def accepted(self, fd: int, more: bool) -> None:
        """There is a new connection; or there can be none for now."""
        self.accepting = more
        if fd >= 0:
            self.connections += 1
            client = self.clients[fd] = self.new_client(fd)
            self.receive_more(client)
        elif not self.listening:  # the accept queue is empty
            self.engine.close(self.listener)

    def stop_listening(self) -> None:
        """Accept the connections already queued, then no more."""
        self.listening = False
        if self.accepting:
            self.engine.stop_accepting(self.listener)
        else:
            self.engine.close(self.listener)

    def parent_sent(self, result: int, data: bytes) -> None:
        """Message from the parent: shut down?"""
        workers.obey(result, data)
        if shutting_down:
            self.leave_until = self.now + GRACE_SECONDS - TICK
        self.engine.receive(self.parent.fileno())

    def receive_more(self, client: Client) -> None:
        """Submit a receive, unless one is in flight.

        Most clients send one request, and one operation for that is
        cheaper. From the second on, one receives all that arrives.
        """
        if client.next in (READ, LINGER) and not client.receiving:
            client.receiving = True
            client.in_flight += 1
            self.engine.receive(client.fd, client.request is not None)

    def received(
        self, client: Client, result: int, data: bytes
    ) -> None:
        """The client sent something, ended its side, or is gone."""
        if self.at_once.send_prepared(client, data):
            self.receive_more(client)
            return
        if result != -errno.ECANCELED:
            client.waiting += (data,)  # empty: its side has ended
            if len(client.waiting) == MANY_PIECES:
                self.engine.pause(client.fd)
        if client.at_once:  # one response a batch
            self.block = False
        elif client.next not in (WORK, SEND):
            self.resume(client)

    def resume(self, client: Client) -> None:
        """Submit what comes next for this client."""
        client.handle_waiting()
        if client.next in (READ, LINGER):
            self.receive_more(client)
        elif client.next is WORK and self.delay:
            client.in_flight += 1
            self.engine.sleep(client.fd, self.delay)
        elif client.next is WORK:
            self.finish_work(client)
        elif client.next is SEND:
            self.send(client)
        else:
            self.close(client)

    def finish_work(self, client: Client) -> None:
        """Compute, which does hold up this worker, and respond."""
        compute(self.compute)
        client.work_done()
        self.send(client)

    def send(self, client: Client) -> None:
        """Submit the response: the whole, or a part and then more."""
        if self.at_once.send(client):
            self.receive_more(client)
        else:
            client.send_part(self.engine)

    def sent(self, client: Client, result: int) -> None:
        """The kernel has taken the response, or a part of it."""
        if result < 0:
            client.wait_for(CLOSE)
        elif client.next is SEND:
            client.data_sent(result)
            if client.next is LINGER:
                self.engine.shutdown(client.fd)
        if client.next is SEND:  # not all of it, or the next response
            client.send_part(self.engine)
        else:
            self.resume(client)

    def close(self, client: Client) -> None:
        """Close as soon as nothing is in flight any more.

        Before that the descriptor must not be free for a new client:
        it would get the completions meant for the old one.
        """
        if not client.in_flight:
            self.engine.close(client.fd)
            del self.clients[client.fd]
        elif not client.cancelled:
            client.cancelled = True
            self.engine.cancel(client.fd)

    def keep_house(self) -> None:
        """Twice a second: accept again? Who has timed out?"""
        if shutting_down:
            if self.listening:  # connections made before the signal
                self.stop_listening()  # have had a moment to arrive
        elif not self.accepting:
            self.accept_more()
        before, self.overdue = self.overdue, set()
        for client in list(self.clients.values()):
            if client.at_once:  # just responded
                continue
            if client.next is CLOSE:  # once more, to be sure
                self.engine.cancel(client.fd)
            elif shutting_down:
                client.shorten_deadline()
            client.check_progress()
            if client.deadline <= self.now:
                self.overdue.add(client.fd)
            if client.fd in before & self.overdue:
                # What it sent before the deadline would be here by now.
                client.timed_out()
                self.resume(client)


if __name__ == "__main__":
    main(serve, add_options=add_options)
