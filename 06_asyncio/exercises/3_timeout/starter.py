"""Exercise 06.3: a timeout with asyncio.

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
    web.HEAD_SECONDS = options.patience
    web.IDLE_SECONDS = options.idle
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
                writer.write(connection.unsent)
                await writer.drain()
                connection.data_sent(len(connection.unsent))
                if connection.next is web.LINGER:
                    writer.write_eof()
            else:
                await receive(reader, connection)
    except OSError:  # the client is gone
        pass
    finally:
        writer.transport.abort()  # close, and drop what is unsent


async def receive(
    reader: StreamReader, connection: web.Connection
) -> None:
    """Receive something; nothing: the client has closed its side."""
    data = await reader.read(web.RECV_SIZE)  # waits for ever
    connection.data_received(data)


def add_options(parser: web.Parser) -> None:
    """Let the command line say how patient we are."""
    seconds = web.between(0.01, 3600, float)
    parser.add_argument("--patience", type=seconds, default=10.0)
    parser.add_argument("--idle", type=seconds, default=5.0)


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
