"""asyncio.Protocol by hand: what the event loop alone costs."""

import asyncio
from collections.abc import Callable
from typing import cast

from tools.bench.peers.page import BACKLOG, address, answer


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
            text, keep = answer(request + b"\r\n")
            self.transport.write(text)
            if not keep:
                self.transport.close()


def serve(
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Serve the page on an event loop of this kind."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Page, *address(), backlog=BACKLOG)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


if __name__ == "__main__":
    serve()
