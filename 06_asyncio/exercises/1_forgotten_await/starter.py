"""Exercise 06.1: forgotten awaits.

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
        while connection.next not in (web.LINGER, web.CLOSE):
            if connection.next is web.WORK:
                work(options)
                connection.work_done()
            elif connection.next is web.SEND:
                writer.write(connection.unsent)
                await writer.drain()
                connection.data_sent(len(connection.unsent))
            else:
                data = await reader.read(web.RECV_SIZE)
                connection.data_received(data)
        hang_up(reader, writer)
    except OSError:  # the client is gone, or too slow
        pass
    finally:
        writer.transport.abort()  # close, and drop what is unsent


async def work(options: Namespace) -> None:
    """What a page costs: the database, twice, then computing."""
    await asyncio.sleep(options.delay)  # who is it?
    await asyncio.sleep(options.delay)  # what may they see?
    web.compute(options.compute)


async def hang_up(reader: StreamReader, writer: StreamWriter) -> None:
    """End our side, then wait until the client has ended its own."""
    writer.write_eof()
    async with asyncio.timeout(web.LINGER_SECONDS):
        while await reader.read(web.RECV_SIZE):
            pass


if __name__ == "__main__":
    web.main(serve)
