"""Exercise 06.7: a broadcast, and one client that does not read.

A queue and a task for each listener: only this task waits for it.
"""

import asyncio
import contextlib
from asyncio import StreamWriter
from collections import deque

import frame
import web

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    b"Connection: close\r\n\r\n"
)


class Listener:
    """One who listens, and what waits for it."""

    def __init__(self, writer: StreamWriter) -> None:
        self.writer = writer
        self.lines: deque[bytes] = deque()
        self.size = 0  # bytes of these lines
        self.more = asyncio.Event()

    def put(self, line: bytes) -> None:
        """This line has to be sent."""
        self.lines.append(line)
        self.size += len(line)
        self.more.set()

    async def send(self) -> None:
        """Send line after line, as fast as this listener reads."""
        with contextlib.suppress(OSError):  # it is gone
            while await self.more.wait():
                while self.lines:
                    self.writer.write(self.lines[0])
                    await self.writer.drain()
                    self.size -= len(self.lines.popleft())
                self.more.clear()


listeners: set[Listener] = set()


async def work(client: frame.Client) -> str:
    """What a request asks for: /?listen, /?say=hello, or the page."""
    asked, _, word = client.query.partition("=")
    if asked == "listen":
        await listen(client)
        client.leaves = True
    if asked == "say":
        say(f"{word}\n".encode(), client.options.behind)
    return ""


async def listen(client: frame.Client) -> None:
    """Until the client leaves, it gets what others say."""
    listener = Listener(client.writer)
    listener.put(HEAD)
    listeners.add(listener)
    sending = asyncio.create_task(listener.send())
    try:
        while await client.reader.read(web.RECV_SIZE):
            pass  # whatever it still has to say
    finally:
        listeners.discard(listener)
        sending.cancel()


def say(line: bytes, behind: int) -> None:
    """Everybody who listens gets this line."""
    for listener in list(listeners):
        if listener.size > behind:
            listeners.discard(listener)
            listener.writer.transport.abort()
        else:
            listener.put(line)


def add_options(parser: web.Parser) -> None:
    """Bytes that may wait in our memory for one listener."""
    size = web.between(1000, 10**9)
    parser.add_argument("--behind", type=size, default=100_000)


if __name__ == "__main__":
    frame.main(work, add_options)
