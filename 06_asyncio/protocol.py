"""Step 06, protocol: asyncio without coroutines.

Below asyncio's streams is a layer of callbacks: the loop calls a method
of our protocol when something has happened to its connection. It is
step 05 again, with a loop that many libraries share. There are no tasks
to switch, so it costs less.

Run it:      python3 06_asyncio/protocol.py
Try this:    ab -k -n 10000 -c 100 http://127.0.0.1:8000/ and compare
             with server.py, both with --delay 0
What breaks: as server.py: one thread, one core. Step 07 uses them all.
"""

from __future__ import annotations

import asyncio
import socket
from argparse import Namespace
from collections.abc import Callable

from lifecycle import ACCEPT_BATCH, open_now, run
from web import (
    CLOSE,
    LINGER,
    MAX_HEAD,
    READ,
    SEND,
    WORK,
    Connection,
    compute,
    count,
    main,
)


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run asyncio's event loop until a signal arrives."""
    asyncio.run(run(start, listener, options))


async def start(
    listener: socket.socket, options: Namespace
) -> asyncio.Server:
    """Let asyncio accept, and make a Client for each connection."""
    return await asyncio.get_running_loop().create_server(
        lambda: Client(options), sock=listener, backlog=ACCEPT_BATCH
    )


class Client(asyncio.Protocol):
    """One client: asyncio calls us when something has happened."""

    transport: asyncio.Transport
    timer: asyncio.TimerHandle

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.loop = asyncio.get_running_loop()
        self.connection = Connection()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called first, when the connection has been accepted."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # Call resume_writing when the kernel has taken everything.
        transport.set_write_buffer_limits(high=0)
        left = self.connection.time_left()
        self.timer = self.loop.call_later(left, self.on_deadline)
        open_now.add(transport)
        count(connections=1)

    def connection_lost(self, error: Exception | None) -> None:
        """Called last, whichever side closed it and why."""
        self.timer.cancel()
        open_now.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        """Called with what arrived; it may be half a request."""
        before = self.connection.next
        self.connection.data_received(data)
        if self.connection.next is not before:
            self.resume()
        elif before is not LINGER and (
            len(self.connection.received) > MAX_HEAD
        ):
            self.transport.pause_reading()  # enough for now

    def eof_received(self) -> bool:
        """Called when the client closes its side. Do we stay open?"""
        self.data_received(b"")
        return True  # until we have responded

    def resume_writing(self) -> None:
        """Called when it did not at once, and has now."""
        self.all_sent()

    def resume(self) -> None:
        """Do what comes next, or wait for it."""
        connection = self.connection
        if connection.next is CLOSE:
            self.transport.abort()
        elif connection.next is WORK:
            self.set_timer(self.options.delay, self.finish_work)
        else:
            self.set_timer(connection.time_left(), self.on_deadline)
        if connection.next in (READ, LINGER):
            self.transport.resume_reading()
        elif connection.next is SEND:
            self.transport.write(connection.unsent)
            if not self.transport.get_write_buffer_size():
                self.all_sent()

    def set_timer(
        self, seconds: float, what: Callable[[], None]
    ) -> None:
        """Call `what` after `seconds`; there is one timer at a time."""
        self.timer.cancel()
        self.timer = self.loop.call_later(seconds, what)

    def finish_work(self) -> None:
        """Called when the wait is over."""
        compute(self.options.compute)
        self.connection.work_done()
        self.resume()

    def all_sent(self) -> None:
        """The kernel has all of the response: what is next?"""
        self.connection.data_sent(len(self.connection.unsent))
        if self.connection.next is LINGER:
            self.transport.write_eof()
        if self.connection.next in (WORK, SEND):  # a long pipeline
            self.set_timer(0, self.resume)  # avoids a deep recursion
        else:
            self.resume()

    def on_deadline(self) -> None:
        """Called at a deadline, which may have moved since."""
        # Zero seconds is a turn of the loop: it was busy, perhaps, and
        # receives first what has arrived meanwhile.
        left = self.connection.time_left()
        self.set_timer(left, self.on_deadline if left else self.give_up)

    def give_up(self) -> None:
        """Called a turn later, unless something arrived."""
        self.connection.timed_out()
        self.resume()


if __name__ == "__main__":
    main(serve)
