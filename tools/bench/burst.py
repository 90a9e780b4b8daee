"""Some clients that begin at the same moment, with one request each.

All of them live in one thread of one process, so that they take little
of the machine from the server; they say when each of their moments was,
in µs of the system's clock, the clock of ``strace -ttt``.

Try it:  python3 -m tools.bench.burst 127.0.0.1 8000 20
"""

import json
import os
import selectors
import socket
import sys
import time
from dataclasses import astuple, dataclass, field

SENT = "sent"  # the line that says: all have connected and sent
SECONDS = 30.0  # for all answers
RECV_SIZE = 64 * 1024
REQUEST = (
    "GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
)


class BurstError(Exception):
    """A client got no good answer; the text says why."""


@dataclass
class Moments:
    """What one client saw. Times in µs since the epoch; 0: not yet."""

    port: int  # its own
    begun: int
    connected: int = 0
    sent: int = 0
    first_byte: int = 0
    done: int = 0


@dataclass
class Caller:
    """One client: its socket, what it has received, its moments."""

    sock: socket.socket
    moments: Moments
    received: bytearray = field(default_factory=bytearray)


def now() -> int:
    """The time in µs since the epoch."""
    return time.time_ns() // 1000


def burst(host: str, port: int, clients: int) -> list[Moments]:
    """Run the clients; their moments. Raises BurstError.

    Prints SENT when all requests have left.
    """
    request = REQUEST.format(host=host, port=port).encode("ascii")
    selector = selectors.DefaultSelector()
    callers: list[Caller] = []
    sending = clients
    deadline = time.monotonic() + SECONDS
    sockets = [_socket(host, port) for _ in range(clients)]
    try:
        for sock in sockets:  # nothing else between the first and the last
            began = now()
            sock.connect_ex((host, port))
            callers.append(Caller(sock, Moments(0, began)))
        for caller in callers:
            selector.register(caller.sock, selectors.EVENT_WRITE, caller)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise BurstError(f"no answer within {SECONDS:g} s")
            for key, events in selector.select(left):
                caller = key.data
                if not events & selectors.EVENT_WRITE:
                    _receive(caller, selector)
                    continue
                _send(caller, request)
                selector.modify(caller.sock, selectors.EVENT_READ, caller)
                sending -= 1
                if not sending:
                    print(SENT, flush=True)
    except OSError as error:
        raise BurstError(os.strerror(error.errno or 0)) from error
    finally:
        selector.close()
        for sock in sockets:
            sock.close()
    for caller in callers:
        _check(bytes(caller.received))
    return [caller.moments for caller in callers]


def _socket(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    return sock


def _send(caller: Caller, request: bytes) -> None:
    """The connection is there, or failed: send the request."""
    caller.moments.connected = now()
    failed = caller.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if failed:
        raise BurstError(os.strerror(failed))
    caller.moments.port = caller.sock.getsockname()[1]
    # Before the call: the server may have it before that returns.
    caller.moments.sent = now()
    caller.sock.send(request)


def _receive(caller: Caller, selector: selectors.BaseSelector) -> None:
    """Take what came; at the end of it, close."""
    data = caller.sock.recv(RECV_SIZE)
    moments = caller.moments
    if data:
        moments.first_byte = moments.first_byte or now()
        caller.received += data
        return
    selector.unregister(caller.sock)
    caller.sock.close()
    moments.done = now()


def _check(answer: bytes) -> None:
    """See that an answer is a whole page. Raises BurstError."""
    head, end, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    if not end or status.split(" ")[1:2] != ["200"]:
        raise BurstError(f"the answer was {status[:40] or 'nothing'!r}")
    for line in lines:
        name, _, value = line.partition(":")
        size = value.strip()
        if name.lower() == "content-length" and size != str(len(body)):
            raise BurstError(f"{len(body)} bytes came instead of {size}")


def read(text: str) -> list[Moments]:
    """What `main` has printed. Raises BurstError if it is not that."""
    lines = [line for line in text.splitlines() if line != SENT]
    try:
        return [Moments(*row) for row in json.loads(lines[-1])]
    except (IndexError, ValueError, TypeError) as error:
        said = lines[-1] if lines else "nothing"
        raise BurstError(f"the clients said {said[:80]!r}") from error


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
