"""Exercise 06.5: stop without cutting clients off.

Run it:     python3 server.py
The task:   task.md
"""

import asyncio
import socket
from argparse import Namespace
from asyncio import StreamReader, StreamWriter

import web

# Those that serve a connection each, with what they write to.
connections: dict[asyncio.Task[None], StreamWriter] = {}


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run asyncio's event loop until a signal arrives."""
    asyncio.run(run(listener, options))


async def run(listener: socket.socket, options: Namespace) -> None:
    """Start a task for each connection until a signal arrives."""

    def on_connect(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(
            handle_client(reader, writer, options)
        )
        connections[task] = writer
        task.add_done_callback(connections.pop)

    server = await asyncio.start_server(
        on_connect, sock=listener, backlog=web.BACKLOG
    )
    web.announce(listener)
    while not web.shutting_down:
        await asyncio.sleep(web.TICK)
    server.close()
    stop_reading()
    if connections:
        await asyncio.wait(connections, timeout=options.grace)


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
                async with asyncio.timeout_at(connection.deadline):
                    data = await reader.read(web.RECV_SIZE)
                    connection.data_received(data)
    except OSError:  # the client is gone, or too slow
        pass
    finally:
        writer.transport.abort()  # close, and drop what is unsent


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended."""
    for writer in connections.values():
        try:
            writer.get_extra_info("socket").shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


def add_options(parser: web.Parser) -> None:
    """Let the command line say how long requests may take."""
    seconds = web.between(0, 60, float)
    parser.add_argument("--grace", type=seconds, default=10.0)


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
