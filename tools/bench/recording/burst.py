"""Some clients that begin at the same moment, with one request each.

All of them live in one thread of one process, so that they take little
of the machine from the server; they say when each of their moments was,
in µs of the system's clock, the clock of ``strace -ttt``.

Try it:  python3 -m tools.bench.recording.burst 127.0.0.1 8000 20
"""

import json
import os
import re
import selectors
import socket
import sys
import time
from collections.abc import Generator
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
    found = [Moments() for _ in range(clients)]
    sockets = [socket.socket() for _ in found]
    lives = [
        _life(sock, (host, port), moments)
        for sock, moments in zip(sockets, found, strict=True)
    ]
    deadline = time.monotonic() + SECONDS
    sending = clients
    try:
        with selectors.DefaultSelector() as selector:
            # Nothing else between the first to connect and the last.
            begun = [next(life) for life in lives]
            for sock, event, life in zip(sockets, begun, lives, strict=True):
                selector.register(sock, event, life)
            while selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise BurstError(f"no answer within {SECONDS:g} s")
                for key, events in selector.select(left):
                    wanted = next(key.data, 0)
                    if not wanted:
                        selector.unregister(key.fileobj)
                        continue
                    selector.modify(key.fileobj, wanted, key.data)
                    if events == selectors.EVENT_WRITE:
                        sending -= 1
                        if not sending:
                            print(SENT, flush=True)
    except OSError as error:
        raise BurstError(os.strerror(error.errno or 0)) from error
    finally:
        for sock in sockets:
            sock.close()
    return found


def _life(
    sock: socket.socket, address: tuple[str, int], moments: Moments
) -> Generator[int, None, None]:
    """One client; yields the event it waits for. Raises BurstError."""
    sock.setblocking(False)
    moments.begun = now()
    sock.connect_ex(address)
    yield selectors.EVENT_WRITE
    moments.connected = now()
    failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise BurstError(os.strerror(failed))
    moments.port = sock.getsockname()[1]
    # Before the call: the server may have it before that returns.
    moments.sent = now()
    sock.send(REQUEST.format(*address).encode("ascii"))
    yield selectors.EVENT_READ
    received = b""
    while data := sock.recv(RECV_SIZE):
        moments.first_byte = moments.first_byte or now()
        received += data
        yield selectors.EVENT_READ
    sock.close()
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
