"""Some clients that begin at the same moment, with one request each.

All of them live in one thread of one process, so that they take little
of the machine from the server; they say when each of their moments was,
in µs of the system's clock, the clock of ``strace -ttt``.

Try it:  python3 -m tools.bench.recording.burst 127.0.0.1 8000 20
"""

import asyncio
import json
import os
import re
import socket
import sys
import time
from dataclasses import astuple, dataclass

SENT = "sent"  # the line that says: all have connected and sent
SECONDS = 30.0  # for all answers
RECV_SIZE = 64 * 1024
REQUEST = "GET / HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n\r\n"
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class BurstError(Exception):
    """A client got no good answer; the text says why."""


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


def burst(host: str, port: int, clients: int) -> list[Moments]:
    """Run the clients; their moments. Raises BurstError.

    Prints SENT when all requests have left.
    """
    return asyncio.run(_all((host, port), clients))


async def _all(address: tuple[str, int], clients: int) -> list[Moments]:
    found = [Moments() for _ in range(clients)]
    lives = [_life(address, moments, found) for moments in found]
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*lives)
    except TimeoutError as error:
        raise BurstError(f"no answer within {SECONDS:g} s") from error
    except OSError as error:
        raise BurstError(os.strerror(error.errno or 0)) from error
    return found


async def _life(
    address: tuple[str, int], moments: Moments, everybody: list[Moments]
) -> None:
    """One client. Raises BurstError."""
    loop = asyncio.get_running_loop()
    received = b""
    with socket.socket() as sock:
        sock.setblocking(False)
        moments.begun = now()
        await loop.sock_connect(sock, address)
        moments.connected = now()
        moments.port = sock.getsockname()[1]
        # Before the call: the server may have it before that returns.
        moments.sent = now()
        await loop.sock_sendall(sock, REQUEST.format(*address).encode())
        if all(each.sent for each in everybody):
            print(SENT, flush=True)
        while data := await loop.sock_recv(sock, RECV_SIZE):
            moments.first_byte = moments.first_byte or now()
            received += data
    moments.done = now()
    head, end, body = received.partition(b"\r\n\r\n")
    if not end or head.split(b" ")[1:2] != [b"200"]:
        said = head[:40].decode("latin-1") or "nothing"
        raise BurstError(f"the answer was {said!r}")
    size = LENGTH.search(head)
    if size and int(size[1]) != len(body):
        raise BurstError(f"{len(body)} bytes came instead of {int(size[1])}")


def read(text: str) -> list[Moments]:
    """What `main` has printed. Raises BurstError if it is not that."""
    last = text.strip().rpartition("\n")[2]
    try:
        return [Moments(*row) for row in json.loads(last)]
    except (ValueError, TypeError) as error:
        raise BurstError(f"the clients said {last[:80]!r}") from error


def main(arguments: list[str]) -> int:
    """Print the moments as JSON, or what went wrong; 1 if it did."""
    host, port, clients = arguments
    try:
        found = burst(host, int(port), int(clients))
    except BurstError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([astuple(moments) for moments in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
