"""Exercise 06.7: a broadcast, and one client that does not read.

Run it:     python3 server.py
The task:   task.md
"""

from asyncio import StreamWriter

import frame
import web

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    b"Connection: close\r\n\r\n"
)
listeners: set[StreamWriter] = set()


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
    client.writer.write(HEAD)
    listeners.add(client.writer)
    try:
        while await client.reader.read(web.RECV_SIZE):
            pass  # whatever it still has to say
    finally:
        listeners.discard(client.writer)


def say(line: bytes, behind: int) -> None:
    """Everybody who listens gets this line."""
    for writer in list(listeners):
        # What the kernel does not take now waits in the transport.
        waiting = writer.transport.get_write_buffer_size()
        if waiting > behind:
            listeners.discard(writer)
            writer.transport.abort()  # and forget what waits for it
        else:
            writer.write(line)


def add_options(parser: web.Parser) -> None:
    """Bytes that may wait in our memory for one listener."""
    size = web.between(1000, 10**9)
    parser.add_argument("--behind", type=size, default=100_000)


if __name__ == "__main__":
    frame.main(work, add_options)
