"""Exercise 05.3: cancel a timer.

Run it:     python3 server.py
The task:   task.md
"""

import functools
import heapq
import itertools
import socket
from argparse import Namespace
from collections.abc import Callable

import web
from clients import Client
from loop import Loop, add_options


class Timers(Loop):
    """The loop's timers: all that has to happen later, in one heap."""

    def __init__(
        self, listener: socket.socket, options: Namespace
    ) -> None:
        super().__init__(listener, options)
        # When, a number that breaks ties, and what to do then.
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.ties = itertools.count()
        # The number of each client's limit: only the last one holds.
        self.numbers: dict[Client, int] = {}

    def call_later(
        self, seconds: float, what: Callable[[], None]
    ) -> None:
        """Do something so many seconds from now."""
        due = web.clock() + seconds
        heapq.heappush(self.timers, (due, next(self.ties), what))

    def run_due(self, now: float) -> None:
        """Do what is due by now."""
        while self.timers and self.timers[0][0] <= now:
            _, _, what = heapq.heappop(self.timers)
            what()

    def timeout(self) -> float:
        """Seconds until the next timer is due, TICK at most."""
        if not self.timers:
            return web.TICK
        return min(max(self.timers[0][0] - web.clock(), 0), web.TICK)

    def limit(self, client: Client) -> None:
        """There is a new limit for this client, or none."""
        self.numbers[client] = number = next(self.ties)
        if client.connection.next is web.CLOSE:
            del self.numbers[client]
        if client.connection.next in (web.WORK, web.CLOSE):
            return
        seconds = client.connection.deadline - web.clock()
        give_up = functools.partial(self.give_up, client, number)
        self.call_later(seconds, give_up)

    def give_up(self, client: Client, number: int) -> None:
        """Give up waiting for a client: it was too slow."""
        if self.numbers.get(client) == number:  # else: it is over
            client.connection.timed_out()
            self.resume(client)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run the event loop until a signal arrives."""
    Timers(listener, options).run()


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
