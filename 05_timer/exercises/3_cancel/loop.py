"""The loop of 05_timer/server.py, but for its timers: see server.py."""

import functools
import socket
from argparse import Namespace
from collections.abc import Callable

import web
from clients import Client, Clients
from transfer import transfer


class Loop(Clients):
    """All open connections, and what to do for them."""

    def __init__(
        self, listener: socket.socket, options: Namespace
    ) -> None:
        super().__init__(listener)
        self.options = options
        web.HEAD_SECONDS = options.head
        web.IDLE_SECONDS = options.idle

    def run(self) -> None:
        """Serve until a signal arrives and no client is left."""
        web.announce(self.listener)
        while self.active or not self.stopped:
            ready = self.selector.select(self.timeout())
            now = web.clock()
            for key, _ in ready:
                if key.data is None:
                    self.accept()
                else:
                    self.resume(key.data)
            self.run_due(now)
            if self.is_tick():
                self.keep_house()
                if self.stopped:  # before that, timers find them
                    for client in self.overdue():
                        client.connection.timed_out()
                        self.resume(client)

    def resume(self, client: Client) -> None:
        """Receive or send; a timer is due when the work is done."""
        transfer(client, self)
        if client.connection.next is web.WORK:
            done = functools.partial(self.finish_work, client)
            self.call_later(self.options.delay, done)

    def finish_work(self, client: Client) -> None:
        """The timer is due: respond."""
        web.compute(self.options.compute)
        client.connection.work_done()
        self.resume(client)

    def watch(self, client: Client, events: int) -> None:
        """Let the selector wait for these events, with a limit."""
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

    def timeout(self) -> float:
        """Seconds until the next timer is due, TICK at most."""
        raise NotImplementedError

    def limit(self, client: Client) -> None:
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
