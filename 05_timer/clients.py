"""The clients of a loop, the same in steps 04 and 05."""

from __future__ import annotations

import selectors
import socket

from web import TICK, Connection, clock, count, shutting_down

READABLE, WRITABLE = selectors.EVENT_READ, selectors.EVENT_WRITE
NOTHING = 0


class Client:
    """A connection with its socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.connection = Connection()
        self.watched = NOTHING  # events the selector waits for


class Clients:
    """All open connections, and what the selector watches."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.active: set[Client] = set()
        self.accepting = False
        self.stopped = False  # have we closed the listener?
        self.next_tick = 0.0
        self.accept_more()

    def watch(self, client: Client, events: int) -> None:
        """Let the selector wait for these events, or for none."""
        if client.watched == events:
            return
        if not events:
            self.selector.unregister(client.sock)
        elif client.watched:
            self.selector.modify(client.sock, events, client)
        else:
            self.selector.register(client.sock, events, client)
        client.watched = events

    def accept(self) -> None:
        """Empty the accept queue."""
        while True:
            try:
                sock, _ = self.listener.accept()
            except (BlockingIOError, ConnectionError):
                return  # the queue is empty, or a client gone again
            except OSError:  # out of file descriptors
                self.pause_accepting()  # until the next tick
                return
            sock.setblocking(False)
            client = Client(sock)
            self.active.add(client)
            self.watch(client, READABLE)
            count(connections=1)

    def accept_more(self) -> None:
        """Let the selector wait for new connections, too."""
        if not self.accepting:
            self.selector.register(self.listener, READABLE)
            self.accepting = True

    def pause_accepting(self) -> None:
        """Leave new connections in the accept queue for now."""
        if self.accepting:
            self.selector.unregister(self.listener)
            self.accepting = False

    def stop_listening(self) -> None:
        """Accept the connections already queued, then no more."""
        if self.accepting:
            self.accept()
        self.pause_accepting()
        self.listener.close()
        self.stopped = True
        for client in self.active:
            client.connection.shorten_deadline()

    def close(self, client: Client) -> None:
        """Forget this client; unregister first, then close."""
        self.watch(client, NOTHING)
        client.sock.close()
        self.active.discard(client)

    def is_tick(self) -> bool:
        """Is it half a second since the last time?"""
        now = clock()
        if now < self.next_tick:
            return False
        self.next_tick = now + TICK
        return True

    def keep_house(self) -> None:
        """Accept more, or no more: also once descriptors are free."""
        if not shutting_down:
            self.accept_more()
        elif not self.stopped:
            self.stop_listening()

    def overdue(self) -> list[Client]:
        """The clients whose deadlines have passed.

        Not those that are ready by now: what they sent may have arrived
        while we were busy, and the next turn of the loop handles it.
        """
        now = clock()
        ready = {key.data for key, _ in self.selector.select(0)}
        return [
            client for client in self.active - ready
            if client.connection.deadline <= now
        ]
