"""Exercise 06.4: a client that never reads.

Run it:     python3 server.py
The task:   task.md
"""

import asyncio
import socket
from argparse import Namespace
from asyncio import StreamReader, StreamWriter

import web


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run asyncio's event loop until a signal arrives."""
    asyncio.run(run(listener, options))


async def run(listener: socket.socket, options: Namespace) -> None:
    """Start a task for each connection until a signal arrives."""
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
                await asyncio.sleep(options.delay)
                web.compute(options.compute)
                connection.work_done()
            elif connection.next is web.SEND:
                await send(writer, connection, options)
            else:
                async with asyncio.timeout_at(connection.deadline):
                    data = await reader.read(web.RECV_SIZE)
                    connection.data_received(data)
    except OSError:  # the client is gone, or too slow
        pass
    finally:
        writer.transport.abort()  # close, and drop what is unsent


async def send(
    writer: StreamWriter, connection: web.Connection, options: Namespace
) -> None:
    """Send a whole response; drain waits until the client takes it."""
    writer.write(connection.unsent)
    async with asyncio.timeout(options.patience):
        await writer.drain()
    connection.data_sent(len(connection.unsent))
    if connection.next is web.LINGER:
        writer.write_eof()


def add_options(parser: web.Parser) -> None:
    """Seconds for a client to take a response."""
    seconds = web.between(0.01, 3600, float)
    parser.add_argument("--patience", type=seconds, default=10.0)


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
