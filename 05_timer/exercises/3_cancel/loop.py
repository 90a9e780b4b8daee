"""The loop of 05_timer/heap.py, but for its timers: see server.py."""

import functools
import socket
from argparse import Namespace
from collections.abc import Callable

import web
from transfer import transfer


class Loop(web.Clients):
    """Everybody who is connected, and what to do for them."""

    def __init__(
        self, listener: socket.socket, options: Namespace
    ) -> None:
        super().__init__(listener)
        self.options = options
        web.HEAD_SECONDS = options.head
        web.IDLE_SECONDS = options.idle

    def run(self) -> None:
        """Serve until asked to stop and nobody is left."""
        web.announce(self.listener)
        while self.here or not self.leaving:
            self.leaving = web.stopping()
            ready = self.selector.select(self.pause())
            now = web.clock()
            for key, _ in ready:
                if key.data is None:
                    self.accept()
                else:
                    self.go_on(key.data)
            self.run_due(now)
            # Here nobody looks for those who are late: timers do.
            if self.leaving or not self.accepting:
                for client in self.late(now):
                    self.go_on(client)

    def go_on(self, client: web.Client) -> None:
        """Receive or send; a timer tells when the work is done."""
        transfer(client, self)
        if client.connection.next is web.WORK:
            done = functools.partial(self.finish_work, client)
            self.call_later(self.options.delay, done)

    def finish_work(self, client: web.Client) -> None:
        """Answer a request that has waited long enough."""
        web.compute(self.options.compute)
        client.connection.worked()
        self.go_on(client)

    def watch(self, client: web.Client, events: int) -> None:
        """Look out for events, and for the end of our patience."""
        super().watch(client, events)
        self.limit(client)

    # What server.py adds.

    def call_later(
        self, seconds: float, what: Callable[[], None]
    ) -> object:
        """Do something so many seconds from now."""
        raise NotImplementedError

    def run_due(self, now: float) -> None:
        """Do what is due by now."""
        raise NotImplementedError

    def pause(self) -> float:
        """Seconds that the selector may wait before others are due."""
        raise NotImplementedError

    def limit(self, client: web.Client) -> None:
        """There is a new limit for a client, or none."""
        raise NotImplementedError


def add_options(parser: web.Parser) -> None:
    """Two of the limits can be chosen."""
    seconds = web.between(0.1, 3600, float)
    parser.add_argument(
        "--head", type=seconds, default=web.HEAD_SECONDS,
        help="seconds for a whole head (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--idle", type=seconds, default=web.IDLE_SECONDS,
        help="seconds between two requests (%(default)s)",
    )  # fmt: skip
