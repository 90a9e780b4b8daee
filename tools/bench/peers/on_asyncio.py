"""asyncio.Protocol by hand: what the event loop alone costs.

A third word on the command line names another event loop's package.
"""

import asyncio
import importlib
import sys
from typing import cast

from tools.bench.peers.page import BACKLOG, address, response


class Page(asyncio.Protocol):
    """Answers every request with the page."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with nothing received."""
        self.transport = cast(asyncio.Transport, transport)
        self.received = b""

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are complete."""
        *requests, self.received = (self.received + data).split(b"\r\n\r\n")
        for request in requests:
            text, keep = response(request + b"\r\n")
            self.transport.write(text)
            if not keep:
                self.transport.close()


async def main() -> None:
    """Serve until a signal ends the process."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Page, *address(), backlog=BACKLOG)
    await server.serve_forever()


if __name__ == "__main__":
    loops = importlib.import_module([*sys.argv, "asyncio"][3])
    with asyncio.Runner(loop_factory=loops.new_event_loop) as runner:
        runner.run(main())
