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
    """Run asyncio's event loop until asked to stop."""
    web.HEAD_SECONDS, web.IDLE_SECONDS = options.patience, options.idle
    asyncio.run(run(listener, options))


async def run(listener: socket.socket, options: Namespace) -> None:
    """Start a task for each connection until asked to stop."""
    await asyncio.start_server(
        lambda reader, writer: talk(reader, writer, options),
        sock=listener, backlog=web.BACKLOG,
    )  # fmt: skip
    web.announce(listener)
    while not web.stopping():
        await asyncio.sleep(web.TICK)
    web.stop_now(0)  # cuts off who is served: 06.5 is about that


async def talk(
    reader: StreamReader, writer: StreamWriter, options: Namespace
) -> None:
    """Serve one client. At each await, others go on."""
    connection = web.Connection()
    web.count(connections=1)
    # Let drain wait until the kernel has taken everything.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        while connection.next is not web.CLOSE:
            if connection.next is web.WORK:
                await asyncio.sleep(options.delay)
                web.compute(options.compute)
                connection.worked()
            elif connection.next is web.SEND:
                writer.write(connection.unsent)
                await writer.drain()
                connection.sent(len(connection.unsent))
                if connection.next is web.DRAIN:
                    writer.write_eof()
            else:
                await receive(reader, connection)
    except OSError:  # the client is gone
        pass
    finally:
        writer.transport.abort()  # close, and forget what is unsent


async def receive(reader: StreamReader, connection: web.Connection) -> None:
    """Take what comes; nothing: the client has ended its side."""
    connection.came(await reader.read(web.RECV_SIZE))  # waits for ever


def add_options(parser: web.Parser) -> None:
    """Let the command line say how patient we are."""
    seconds = web.between(0.01, 3600, float)
    parser.add_argument("--patience", type=seconds, default=10.0)
    parser.add_argument("--idle", type=seconds, default=5.0)


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
