"""Exercise 06.2: a call that blocks the loop.

Run it:     python3 server.py
The task:   task.md
"""

import asyncio
import socket
from argparse import Namespace
from asyncio import StreamReader, StreamWriter
from concurrent.futures import ThreadPoolExecutor

import web
from database import query


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run asyncio's event loop until a signal arrives."""
    asyncio.run(run(listener, options))


async def run(listener: socket.socket, options: Namespace) -> None:
    """Start a task for each connection until a signal arrives."""
    options.pool = ThreadPoolExecutor(options.workers)
    await asyncio.start_server(
        lambda reader, writer: handle_client(reader, writer, options),
        sock=listener, backlog=web.BACKLOG,
    )  # fmt: skip
    web.announce(listener)
    while not web.shutting_down:
        await asyncio.sleep(web.TICK)
    web.exit_now(0)  # cuts off all clients: 06.5 is about that


async def handle_client(
    reader: StreamReader, writer: StreamWriter, options: Namespace
) -> None:
    """Serve one client. At each await, other tasks run."""
    connection = web.Connection()
    web.count(connections=1)
    # Let drain wait until the kernel has taken everything.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        while connection.next is not web.CLOSE:
            if connection.next is web.WORK:
                # In a thread of the pool.
                future = options.pool.submit(work, options)
                await asyncio.wrap_future(future)
                connection.work_done()
            elif connection.next is web.SEND:
                writer.write(connection.unsent)
                await writer.drain()
                connection.data_sent(len(connection.unsent))
                if connection.next is web.LINGER:
                    writer.write_eof()
            else:
                data = await reader.read(web.RECV_SIZE)
                connection.data_received(data)
    except OSError:  # the client is gone
        pass
    finally:
        writer.transport.abort()  # close, and drop what is unsent


def work(options: Namespace) -> None:
    """What a page costs: a query, then computing. Blocks."""
    query(options.delay)
    web.compute(options.compute)


def add_options(parser: web.Parser) -> None:
    """Let the command line say how many threads may block."""
    parser.add_argument(
        "--workers", type=web.between(1, 1000), default=10
    )


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
