"""Holds many connections open at once, a request under way in each.

The client of ``./bench.sh hold``, which starts several: each holds no
more connections than a process may have open files. It says what it has
done in a line of JSON (a `Tally`) when all connections are open, and in
another when all answers are there.

Every connection has a port of its own on our side. One address has some
28,000 of them, but all of 127.0.0.0/8 is this machine on Linux.
"""

import ipaddress
import json
import math
import re
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass, field

from tools.bench.machine import ROOM, raise_open_files

PER_ADDRESS = 4096  # connections from one address: ports are found quickly
BODY_BYTES = 249  # of the page that every server sends
CONNECT_SECONDS = 30.0  # for one connection
QUEUE = 1024  # connections that may wait for accept: a quarter of it
LOOK_EVERY = 64  # connections between two looks at the queue
PAUSE_SECONDS = 0.002  # for the server to accept some
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
GOOD = re.compile(rb"HTTP/1\.[01] 200 ")
LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)


@dataclass
class Tally:
    """What became of the connections. Moments: time.monotonic().

    opened: with the request sent; answered: completely, and right;
    wrong: completely, but not what it should be; failed: without a
    complete answer; unanswered: those of them that were still open when
    our time was over; in_time: opening ended in the time it had; error:
    why, of one of those.
    """

    opened: int = 0
    answered: int = 0
    wrong: int = 0
    failed: int = 0
    unanswered: int = 0
    in_time: bool = True
    first_open: float = 0.0
    last_open: float = 0.0
    first_response: float = 0.0
    last_response: float = 0.0
    error: str = ""


@dataclass
class Holder:
    """Opens connections, then reads their answers."""

    port: int
    connections: int
    address: str = "127.0.0.1"  # the first of ours
    tally: Tally = field(default_factory=Tally)
    body: bytes = b""  # the first that came; all others must equal it
    selector: selectors.BaseSelector = field(
        default_factory=selectors.DefaultSelector
    )

    def open(self, seconds: float = math.inf) -> None:
        """Open all, a request on each, within so many seconds.

        Stops at the first that fails.
        """
        tally = self.tally
        tally.first_open = time.monotonic()
        deadline = tally.first_open + seconds
        first = ipaddress.ip_address(self.address)
        for number in range(self.connections):
            if number % LOOK_EVERY == 0 and not self._room(deadline):
                tally.in_time = False
                tally.error = (
                    f"a connection failed: {tally.opened:,} were opened in "
                    f"{seconds:.0f} s, no more"
                )
                break
            ours = first + number // PER_ADDRESS
            try:
                new = connect(self.port, str(ours))
            except OSError as error:
                tally.error = f"a connection failed: {error}"
                break
            self.selector.register(new, selectors.EVENT_READ, bytearray())
            tally.opened += 1
        tally.last_open = time.monotonic()

    def _room(self, deadline: float) -> bool:
        """Wait for room in the queue for accept; False: it is too late."""
        while time.monotonic() < deadline:
            if waiting(self.port) <= QUEUE:
                return True
            time.sleep(PAUSE_SECONDS)
        return False

    def read(self, seconds: float) -> None:
        """Read the answers for so long at most."""
        tally = self.tally
        left = tally.opened
        deadline = time.monotonic() + seconds
        while left and (remaining := deadline - time.monotonic()) > 0:
            for key, _ in self.selector.select(remaining):
                assert isinstance(key.fileobj, socket.socket)
                left -= self._receive(key.fileobj, key.data)
        tally.unanswered = left
        tally.failed += left + self.connections - tally.opened
        if left:
            tally.error = f"{left} had no answer after {seconds:.0f} s"

    def _receive(self, held: socket.socket, received: bytearray) -> bool:
        """Receive once; True if this connection is done."""
        tally, why = self.tally, "the server closed it"
        try:
            data = held.recv(4096)
        except OSError as error:
            data, why = b"", str(error)
        received += data
        verdict = judge(bytes(received))
        if data and verdict is None:
            return False
        if verdict is None:
            tally.failed += 1
            tally.error = f"a connection ended without its answer: {why}"
        else:
            self.body = self.body or verdict
            tally.last_response = time.monotonic()
            tally.first_response = tally.first_response or tally.last_response
            if verdict == self.body and len(verdict) == BODY_BYTES:
                tally.answered += 1
            else:
                tally.wrong += 1
                tally.error = f"a wrong answer: {bytes(received[:200])!r}"
        self.selector.unregister(held)
        held.close()
        return True


def connect(port: int, ours: str) -> socket.socket:
    """A connection from our address with a request sent on it."""
    new = socket.create_connection(
        ("127.0.0.1", port), CONNECT_SECONDS, (ours, 0)
    )
    new.sendall(REQUEST)
    new.setblocking(False)
    return new


def judge(received: bytes) -> bytes | None:
    """The body of a complete answer, None if it is not complete yet.

    It is empty for an answer that is not 200, or has no length.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    length = LENGTH.search(received, 0, end + 2)
    if length is None or not GOOD.match(received):
        return b""
    body = received[end + 4 :]
    return body if len(body) >= int(length[1]) else None


def waiting(port: int) -> int:
    """Connections that wait for accept in the fullest queue of a port.

    When a queue is full, Linux lets clients wait for seconds. The first
    lines of /proc/net/tcp are the listening sockets. 0: not known.
    """
    try:
        with open("/proc/net/tcp", "rb", buffering=0) as table:
            lines = table.read(4096).decode("ascii").splitlines()
    except OSError:
        return 0
    longest = 0
    for line in lines[1:-1]:  # the last may be cut
        words = line.split()
        if words[3] != "0A":  # not listening
            break
        if int(words[1].rpartition(":")[2], 16) == port:
            longest = max(longest, int(words[4].rpartition(":")[2], 16))
    return longest


def main(arguments: list[str]) -> None:
    """Hold connections: port, how many, our first address, seconds.

    The first seconds are for opening all of them, the others for answers.
    """
    port, connections, address, to_open, to_wait = arguments
    holder = Holder(int(port), int(connections), address)
    raise_open_files(holder.connections + ROOM)
    for step, seconds in ((holder.open, to_open), (holder.read, to_wait)):
        step(float(seconds))
        print(json.dumps(asdict(holder.tally)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
