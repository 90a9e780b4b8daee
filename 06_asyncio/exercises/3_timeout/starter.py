"""Exercise 06.3: a timeout with asyncio.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import asyncio
import socket
import time
from argparse import Namespace
from asyncio import StreamReader, StreamWriter
from typing import Any

from web import (
    BACKLOG,
    TICK,
    BadRequest,
    Parser,
    Request,
    announce,
    between,
    compute,
    count,
    main,
    parse,
    refuse,
    respond,
    stopping,
)

SEND_SECONDS = 10.0  # for a client to take our answer
LINGER_SECONDS = 1.0  # for a client to close after our answer
RECV_SIZE = 16 * 1024  # bytes to take from the stream at a time
ACCEPT_BATCH = 100  # connections to accept before others get a turn

# The coroutines that serve a connection each, with what they write to.
connections: dict[asyncio.Task[None], StreamWriter] = {}


def serve(listener: socket.socket, options: Namespace) -> None:
    """Run asyncio's event loop until asked to stop."""
    asyncio.run(accept_all(listener, options))


async def accept_all(
    listener: socket.socket, options: Namespace
) -> None:
    """Start a task for each connection until asked to stop."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(on_trouble)

    def on_connect(reader: StreamReader, writer: StreamWriter) -> None:
        task = loop.create_task(talk(reader, writer, options))
        connections[task] = writer
        task.add_done_callback(connections.pop)
        count(connections=1)

    server = await asyncio.start_server(
        on_connect, sock=listener, limit=RECV_SIZE, backlog=ACCEPT_BATCH
    )
    listener.listen(BACKLOG)  # asyncio has set it to ACCEPT_BATCH
    announce(listener)
    while not stopping():
        await asyncio.sleep(TICK)
    server.close()
    stop_reading()
    if connections:
        await asyncio.wait(connections)


def on_trouble(
    loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Out of descriptors? asyncio itself tries again in a second."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)


async def talk(
    reader: StreamReader, writer: StreamWriter, options: Namespace
) -> None:
    """Serve one connection and close it, whatever its client does."""
    received = bytearray()  # what came and is not answered yet
    patience = options.patience
    # Let drain wait until the kernel has taken everything.
    writer.transport.set_write_buffer_limits(high=0)
    try:
        while await answer_request(
            reader, writer, received, patience, options
        ):
            patience = options.idle
        await hang_up(reader, writer)
    except OSError:  # the client is gone or has stopped reading
        pass
    finally:
        writer.transport.abort()  # close, and forget what is unsent


async def answer_request(
    reader: StreamReader,
    writer: StreamWriter,
    received: bytearray,
    patience: float,
    options: Namespace,
) -> bool:
    """Answer one request. May another one follow?"""
    try:
        request = await receive(reader, received, patience, options)
    except BadRequest as error:
        await send(writer, refuse(error))
        return False
    if request is None:
        return False
    if request.status == 200:
        await asyncio.sleep(options.delay)  # others run meanwhile
        compute(options.compute)  # nobody else runs meanwhile
    keep_alive = request.keep_alive and not stopping()
    await send(writer, respond(request, keep_alive))
    return keep_alive


async def receive(
    reader: StreamReader,
    received: bytearray,
    patience: float,
    options: Namespace,
) -> Request | None:
    """Read until a head is complete; None if the client ends first.

    patience: seconds until it begins, if nothing of it has come yet.
    """
    while (request := parse(received)) is None:
        data = await reader.read(RECV_SIZE)  # for ever, if need be
        if not data:
            return None
        received += data
    del received[: request.size]
    return request


async def send(writer: StreamWriter, answer: bytes) -> None:
    """Send a whole answer; drain waits until the client takes it."""
    writer.write(answer)
    async with asyncio.timeout(SEND_SECONDS):
        await writer.drain()
    count(requests=1)


async def hang_up(reader: StreamReader, writer: StreamWriter) -> None:
    """End our side, then read what the client still sends.

    Closing with unread bytes makes the kernel send a reset, which can
    destroy our answer on its way (RFC 9112, section 9.6).
    """
    writer.write_eof()
    async with asyncio.timeout(LINGER_SECONDS):
        while await reader.read(RECV_SIZE):
            pass


def stop_reading() -> None:
    """When we stop: whoever waits for a request sees the end of it."""
    for writer in connections.values():
        try:
            writer.get_extra_info("socket").shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


def add_options(parser: Parser) -> None:
    """Let the command line say how patient we are."""
    parser.add_argument(
        "--patience", type=between(0.01, 3600, float), default=10.0,
        help="seconds for a client to send its head (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--idle", type=between(0.01, 3600, float), default=5.0,
        help="seconds to begin another request (%(default)s)",
    )  # fmt: skip


if __name__ == "__main__":
    main(serve, add_options=add_options)
