"""Step 06, coroutines: asyncio in miniature, from nothing but yield.

A generator can pause: yield hands the thread back to its caller.
Here that is a loop of our own, in about a hundred lines. It remembers
what each coroutine waits for, a socket or a moment, and resumes it when
that wait is over. What asyncio writes as await is yield from here.

Run it:      python3 06_asyncio/coroutines.py
Try this:    read Task.step, then Loop.run; then
             ab -n 10000 -c 1000 http://127.0.0.1:8000/
What breaks: it knows sockets and time and nothing else, and a forgotten
             yield from gives no warning. asyncio has both.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import traceback
from argparse import Namespace
from collections import deque
from collections.abc import Generator

from web import (
    CLOSE,
    LINGER,
    RECV_SIZE,
    SEND,
    TICK,
    WORK,
    Connection,
    announce,
    clock,
    compute,
    count,
    main,
    shutting_down,
)

READABLE, WRITABLE = selectors.EVENT_READ, selectors.EVENT_WRITE
FEW_TIMERS = 1000  # not worth looking for those that are over

# --- asyncio in miniature -------------------------------------------

# A coroutine yields what it waits for.
Coroutine = Generator["Future", None, None]


class Future:
    """Something to wait for: it is not over yet, or it is."""

    def __init__(self) -> None:
        self.over = False
        self.error: Exception | None = None
        self.waiting: list[Task] = []  # resumed when it is over

    def finish(self, error: Exception | None = None) -> None:
        """It is over, in good order or with an error."""
        if not self.over:
            self.over, self.error = True, error
            loop.runnable.extend(self.waiting)

    def __iter__(self) -> Coroutine:
        """Pause until it is over: what yield from runs."""
        if not self.over:
            yield self  # to Task.step, through every yield from
        if self.error:
            raise self.error


class Task(Future):
    """A running coroutine. It is over when the coroutine returns."""

    def __init__(self, coroutine: Coroutine) -> None:
        super().__init__()
        self.coroutine = coroutine

    def step(self) -> None:
        """Let the coroutine run until it has to wait again."""
        try:
            future = next(self.coroutine)
        except StopIteration:
            self.finish()
        except Exception as error:
            if not self.waiting:  # it would go unnoticed
                traceback.print_exc()
            self.finish(error)
        else:
            future.waiting.append(self)


class Loop:
    """The event loop: wait for all that coroutines wait for."""

    def __init__(self) -> None:
        self.runnable: deque[Task] = deque()  # can resume at once
        self.selector = selectors.DefaultSelector()
        # When, a number that breaks ties, what is over then, and how.
        self.timers: list[
            tuple[float, int, Future, Exception | None]
        ] = []
        self.ties = itertools.count()
        self.most_timers = FEW_TIMERS

    def run(self, main: Coroutine) -> None:
        """Run a coroutine to its end, and meanwhile all it starts."""
        task = self.start(main)
        while not task.over:
            for key, _ in self.selector.select(self.pause()):
                key.data.finish()
            now = clock()
            while self.timers and self.timers[0][0] <= now:
                _, _, future, error = heapq.heappop(self.timers)
                future.finish(error)
            for _ in range(len(self.runnable)):  # new ones wait
                self.runnable.popleft().step()

    def start(self, coroutine: Coroutine) -> Task:
        """Let a coroutine run beside the others, from now on."""
        task = Task(coroutine)
        self.runnable.append(task)
        return task

    def pause(self) -> float | None:
        """Seconds the selector may wait before a timer is due."""
        if self.runnable:
            return 0
        if not self.timers:
            return None
        return max(self.timers[0][0] - clock(), 0)

    def set_timer(
        self, when: float, future: Future,
        error: Exception | None = None,
    ) -> None:
        """Let a future be over at a moment, if it is not before."""
        if len(self.timers) > self.most_timers:
            # Most of them have become pointless: a time-out is set
            # for each wait, and hardly ever happens.
            self.timers = [t for t in self.timers if not t[2].over]
            heapq.heapify(self.timers)
            self.most_timers = 2 * len(self.timers) + FEW_TIMERS
        timer = (when, next(self.ties), future, error)
        heapq.heappush(self.timers, timer)


loop = Loop()


def sleep(seconds: float) -> Future:
    """What is over after so many seconds: yield from sleep(1)."""
    future = Future()
    loop.set_timer(clock() + seconds, future)
    return future


def ready(
    sock: socket.socket, events: int, deadline: float
) -> Coroutine:
    """Wait until a socket is ready; TimeoutError at the deadline."""
    future = Future()
    loop.set_timer(deadline, future, TimeoutError())
    loop.selector.register(sock, events, future)
    try:
        yield from future
    finally:
        loop.selector.unregister(sock)


# --- The server: step 06's code again, with yield from --------------

# The socket of each client, and the task that serves it.
open_now: dict[socket.socket, Task] = {}


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run our own event loop until a signal arrives."""
    loop.run(accept_all(listener, options))


def accept_all(
    listener: socket.socket, options: Namespace
) -> Coroutine:
    """Start a task for each client until a signal arrives."""
    listener.setblocking(False)
    announce(listener)
    stopping = False
    while not stopping:
        stopping = bool(shutting_down)  # then empty the queue once more
        try:
            if not stopping:
                yield from ready(listener, READABLE, clock() + TICK)
            while True:  # empty the accept queue
                sock, _ = listener.accept()
                sock.setblocking(False)
                task = loop.start(handle_client(sock, options))
                open_now[sock] = task
                count(connections=1)
        except (TimeoutError, BlockingIOError, ConnectionError):
            pass  # the queue is empty, or a client is gone again
        except OSError:  # out of file descriptors: wait for free ones
            yield from sleep(TICK)
    listener.close()
    yield from sleep(TICK)  # requests may be on their way to us
    stop_reading()
    for task in list(open_now.values()):
        yield from task


def handle_client(sock: socket.socket, options: Namespace) -> Coroutine:
    """Serve one client. At each yield from, other tasks run."""
    connection = Connection()
    try:
        while connection.next is not CLOSE:
            if connection.next is WORK:
                yield from sleep(options.delay)
                compute(options.compute)  # no other task runs
                connection.work_done()
            else:
                yield from wait(sock, connection)
    except OSError:  # the client is gone
        pass
    finally:
        del open_now[sock]
        sock.close()


def wait(sock: socket.socket, connection: Connection) -> Coroutine:
    """Receive or send something before the deadline."""
    try:
        if connection.next is SEND:
            yield from send(sock, connection)
        else:  # it may be half a request
            try:
                yield from ready(sock, READABLE, connection.deadline)
            finally:  # too late only if nothing has arrived
                connection.data_received(sock.recv(RECV_SIZE))
    except (TimeoutError, BlockingIOError):
        if not connection.time_left():
            connection.timed_out()


def send(sock: socket.socket, connection: Connection) -> Coroutine:
    """Send what the kernel takes; wait if there is no room."""
    try:
        connection.data_sent(sock.send(connection.unsent))
    except BlockingIOError:
        yield from ready(sock, WRITABLE, connection.deadline)
    if connection.next is LINGER:
        sock.shutdown(socket.SHUT_WR)


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended."""
    for sock in open_now:
        try:
            sock.shutdown(socket.SHUT_RD)
        except OSError:  # the client is gone already
            pass


if __name__ == "__main__":
    main(serve)
