"""Some clients that begin at the same moment, with one request each.

All of them live in one thread, so that they take little
of the machine from the server; they note when each of their moments was,
in µs of the system's clock, the clock of ``strace -ttt``.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from tools.common.raw_client import NoResponse, read_response

HOST = "127.0.0.1"
SECONDS = 30.0  # for all responses
LOOK_SECONDS = 0.01  # between two calls of `look`
RECV_SIZE = 64 * 1024
REQUEST = "GET / HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n\r\n"


class BurstError(Exception):
    """A client got no good response; the text says why."""


@dataclass
class Moments:
    """What one client saw. Times in µs since the epoch; 0: not yet."""

    port: int = 0  # its own
    begun: int = 0
    connected: int = 0
    sent: int = 0
    first_byte: int = 0
    done: int = 0


def now() -> int:
    """The time in µs since the epoch."""
    return time.time_ns() // 1000


def burst(
    port: int, clients: int, look: Callable[[], None] = lambda: None
) -> list[Moments]:
    """Run the clients against a server of this machine; their moments.

    look: called again and again from when all requests have left until
    all responses are there. Raises BurstError.
    """
    try:
        return asyncio.run(_all(port, clients, look))
    except TimeoutError as error:
        raise BurstError(f"no response within {SECONDS:g} s") from error
    except OSError as error:
        raise BurstError(os.strerror(error.errno or 0)) from error
    except NoResponse as error:
        raise BurstError(str(error)) from error


async def _all(
    port: int, clients: int, look: Callable[[], None]
) -> list[Moments]:
    found = [Moments() for _ in range(clients)]
    async with asyncio.timeout(SECONDS):
        lives = asyncio.gather(*(_life(port, each) for each in found))
        while not lives.done():
            await asyncio.wait([lives], timeout=LOOK_SECONDS)
            if all(each.sent for each in found):
                look()
        await lives
    return found


async def _life(port: int, moments: Moments) -> None:
    """One client. Raises BurstError or NoResponse."""
    loop = asyncio.get_running_loop()
    received = b""
    with socket.socket() as sock:
        sock.setblocking(False)
        moments.begun = now()
        await loop.sock_connect(sock, (HOST, port))
        moments.connected = now()
        moments.port = sock.getsockname()[1]
        # Before the call: the server may have it before that returns.
        moments.sent = now()
        await loop.sock_sendall(sock, REQUEST.format(HOST, port).encode())
        while data := await loop.sock_recv(sock, RECV_SIZE):
            moments.first_byte = moments.first_byte or now()
            received += data
    moments.done = now()
    response = read_response(received)
    if response is None or response.status != 200:
        raise BurstError(f"the response was {received[:40]!r}")
