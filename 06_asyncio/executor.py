"""Step 06, executor: blocking work beside the event loop.

Not everything can be awaited: a library that blocks would stop the
loop. So the loop hands such work to an executor, a pool of threads, and
awaits its result. Many clients can be connected again; the requests in
progress are at most as many as the pool has threads.

Run it:      python3 06_asyncio/executor.py --workers 6
Try this:    ab -n 1000 -c 100 http://127.0.0.1:8000/
What breaks: asyncio's own executor has min(32, cores + 4) threads. With
             2 cores that is 6: at 0.1 s of work each, never more than
             60 requests a second, however many clients connect.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from argparse import Namespace
from asyncio import StreamReader, StreamWriter
from concurrent.futures import ThreadPoolExecutor

from lifecycle import ACCEPT_BATCH, open_now, receive, run
from web import (
    CLOSE,
    LINGER,
    RECV_SIZE,
    SEND,
    WORK,
    Connection,
    Parser,
    between,
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
    executor = ThreadPoolExecutor(options.workers)
    asyncio.get_running_loop().set_default_executor(executor)
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
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, work, options)
                connection.work_done()
            else:
                await wait(reader, writer, connection)
    except OSError:  # the client is gone
        pass
    finally:
        open_now.discard(writer.transport)
        writer.transport.abort()  # close, and drop what is unsent


def work(options: Namespace) -> None:
    """Runs in a thread of the executor: this would block the loop."""
    if options.delay:
        time.sleep(options.delay)
    compute(options.compute)


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


def add_options(parser: Parser) -> None:
    """Let the command line choose the size of the executor."""
    parser.add_argument(
        "--workers", type=between(1, 10_000),
        default=min(32, (os.cpu_count() or 1) + 4),  # asyncio's own
        help="threads of the executor (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    main(serve, add_options=add_options)
