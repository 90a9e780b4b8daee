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


class Timer:
    """Something to do at a time, unless it is cancelled before."""

    def __init__(self, what: Callable[[], None]) -> None:
        self.what = what
        self.cancelled = False


class Timers(Loop):
    """The loop's timers: all that has to happen later, in one heap."""

    def __init__(
        self, listener: socket.socket, options: Namespace
    ) -> None:
        super().__init__(listener, options)
        # When, a number that breaks ties, and what to do then.
        self.timers: list[tuple[float, int, Timer]] = []
        self.ties = itertools.count()
        self.limits: dict[Client, Timer] = {}  # those that hold

    def call_later(
        self, seconds: float, what: Callable[[], None]
    ) -> Timer:
        """Do something so many seconds from now."""
        due = web.clock() + seconds
        timer = Timer(what)
        heapq.heappush(self.timers, (due, next(self.ties), timer))
        return timer

    def run_due(self, now: float) -> None:
        """Do what is due by now."""
        while self.timers and self.timers[0][0] <= now:
            _, _, timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                timer.what()

    def timeout(self) -> float:
        """Seconds until the next timer is due, TICK at most."""
        if not self.timers:
            return web.TICK
        return min(max(self.timers[0][0] - web.clock(), 0), web.TICK)

    def limit(self, client: Client) -> None:
        """There is a new limit for this client, or none."""
        if client in self.limits:
            # It stays in the heap until its time: to find and remove
            # it there would be slower than to skip it.
            self.limits.pop(client).cancelled = True
        if client.connection.next in (web.WORK, web.CLOSE):
            return
        seconds = client.connection.deadline - web.clock()
        give_up = functools.partial(self.give_up, client)
        self.limits[client] = self.call_later(seconds, give_up)

    def give_up(self, client: Client) -> None:
        """Give up waiting for a client: it was too slow."""
        client.connection.timed_out()
        self.resume(client)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run the event loop until a signal arrives."""
    Timers(listener, options).run()


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
