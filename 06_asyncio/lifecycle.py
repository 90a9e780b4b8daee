"""The frame around asyncio's loop, the same in step 06."""

from __future__ import annotations

import asyncio
import socket
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any

from web import (
    BACKLOG,
    RECV_SIZE,
    TICK,
    Connection,
    announce,
    shutting_down,
)

ACCEPT_BATCH = 100  # connections to accept before others get a turn

# Makes asyncio accept on a listener, and serve each connection.
Start = Callable[[socket.socket, Namespace], Awaitable[asyncio.Server]]

open_now: set[asyncio.BaseTransport] = set()  # the clients' transports


async def run(
    start: Start, listener: socket.socket, options: Namespace
) -> None:
    """Serve until a signal arrives and the last client is gone."""
    asyncio.get_running_loop().set_exception_handler(on_trouble)
    server = await start(listener, options)
    listener.listen(BACKLOG)  # asyncio has set it to ACCEPT_BATCH
    announce(listener)
    while not shutting_down:
        await asyncio.sleep(TICK)
    for _ in range(BACKLOG // ACCEPT_BATCH + 1):
        await asyncio.sleep(0)  # a turn takes a batch of the queue
    server.close()
    await asyncio.sleep(TICK)  # requests may be on their way to us
    stop_reading()
    while open_now:
        await asyncio.sleep(TICK)


def on_trouble(
    loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Out of file descriptors? asyncio tries again in a second.

    The listener may be closed by then: that is the ValueError.
    """
    expected = (OSError, ValueError) if shutting_down else OSError
    if not isinstance(context.get("exception"), expected):
        loop.default_exception_handler(context)


async def receive(
    reader: asyncio.StreamReader, connection: Connection
) -> None:
    """Receive something by the deadline. Raises TimeoutError."""
    try:
        async with asyncio.timeout_at(connection.deadline):
            data = await reader.read(RECV_SIZE)
    except TimeoutError:
        # Did it arrive while the loop was busy? In one turn the loop
        # sees it, and reads it before the next.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        async with asyncio.timeout(0):
            data = await reader.read(RECV_SIZE)
    connection.data_received(data)


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended."""
    for transport in open_now:
        try:
            transport.get_extra_info("socket").shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass
