"""What stands around the work in exercises 06.6 and 06.7: step 06.

An exercise's own file has a coroutine `work`, which does what a request
asks for. It is called with a `Client`.
"""

import asyncio
import socket
from argparse import Namespace
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import web
from lifecycle import open_now, stop_reading

KEPT = 1 << 16  # bytes


@dataclass
class Client:
    """The client of a request.

    query: what stands behind the ? of the target; writer, reader: to
    speak with it directly; options: of the command line.
    """

    query: str
    reader: StreamReader
    writer: StreamWriter
    options: Namespace
    leaves: bool = False  # has the work said all there is to say?


# Returns what the response's field Result says; "": it has none.
Work = Callable[[Client], Awaitable[str]]


def main(
    work: Work,
    add_options: Callable[[web.Parser], None] = lambda parser: None,
) -> None:
    """Serve until a signal arrives; each request does this work."""

    def serve(listener: socket.socket, options: Namespace) -> None:
        asyncio.run(run(listener, options, work))

    web.main(serve, add_options=add_options)


async def run(
    listener: socket.socket, options: Namespace, work: Work
) -> None:
    """Start a task for each connection until a signal arrives."""
    server = await asyncio.start_server(
        lambda reader, writer: handle_client(
            reader, writer, options, work
        ),
        sock=listener, backlog=web.BACKLOG,
    )  # fmt: skip
    web.announce(listener)
    while not web.shutting_down:
        await asyncio.sleep(web.TICK)
    server.close()
    stop_reading()
    while open_now:
        await asyncio.sleep(web.TICK)


async def handle_client(
    reader: StreamReader, writer: StreamWriter, options: Namespace,
    work: Work,
) -> None:
    """Serve one client. At each await, other tasks run."""
    connection = web.Connection()
    open_now.add(writer.transport)
    web.count(connections=1)
    # The kernel keeps little for a client, so that we see what waits.
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KEPT)
    # Let drain wait until the kernel has taken everything.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        while connection.next is not web.CLOSE:
            if connection.next is web.WORK:
                await asyncio.sleep(options.delay)
                web.compute(options.compute)
                assert connection.request
                target = connection.request.target.decode()
                query = target.partition("?")[2]
                client = Client(query, reader, writer, options)
                result = await work(client)
                if client.leaves:
                    return
                connection.work_done()
                connection.unsent = add_field(connection.unsent, result)
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
        open_now.discard(writer.transport)
        writer.transport.abort()  # close, and drop what is unsent


def add_field(response: bytes, result: str) -> bytes:
    """The response with a field Result in its head, if there is one."""
    head, _, body = response.partition(b"\r\n\r\n")
    field = f"\r\nResult: {result}".encode() if result else b""
    return head + field + b"\r\n\r\n" + body
