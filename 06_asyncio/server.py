"""Step 06: coroutines on asyncio streams.

A coroutine is a function that can pause: at each await it hands the
thread back to the event loop, which resumes another one whose wait is
over. So we write the plain code of step 03 again, line after line, and
get the single thread of step 05.

Run it:      python3 06_asyncio/server.py
Try this:    ab -n 10000 -c 1000 http://127.0.0.1:8000/
What breaks: --compute 1000000 has no await in it, so it stops all the
             others; and it is one thread, so one core. Step 07 uses
             every core.
"""

from __future__ import annotations

import asyncio
import socket
from argparse import Namespace
from asyncio import StreamReader, StreamWriter

from lifecycle import ACCEPT_BATCH, open_now, receive, run
from web import (
    CLOSE,
    LINGER,
    RECV_SIZE,
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
    """Let asyncio accept, and start a task for each connection."""
    return await asyncio.start_server(
        lambda reader, writer: handle_client(reader, writer, options),
        sock=listener, limit=RECV_SIZE, backlog=ACCEPT_BATCH,
    )  # fmt: skip


async def handle_client(
    reader: StreamReader, writer: StreamWriter, options: Namespace
) -> None:
    """Serve one client. At each await, other tasks run."""
    connection = Connection()
    open_now.add(writer.transport)
    count(connections=1)
    # Let drain wait until the kernel has taken everything.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        while connection.next is not CLOSE:
            if connection.next is WORK:
                await asyncio.sleep(options.delay)
                compute(options.compute)  # no other task runs
                connection.work_done()
            else:
                await wait(reader, writer, connection)
    except OSError:  # the client is gone
        pass
    finally:
        open_now.discard(writer.transport)
        writer.transport.abort()  # close, and drop what is unsent


async def wait(
    reader: StreamReader, writer: StreamWriter, connection: Connection
) -> None:
    """Receive or send something before the deadline."""
    try:
        if connection.next is SEND:
            async with asyncio.timeout_at(connection.deadline):
                writer.write(connection.unsent)
                await writer.drain()
            connection.data_sent(len(connection.unsent))
            if connection.next is LINGER:
                writer.write_eof()
        else:  # it may be half a request
            await receive(reader, connection)
    except TimeoutError:
        connection.timed_out()


if __name__ == "__main__":
    main(serve)
