# mypy: disable-error-code="import-not-found,misc"
"""The numbered pages on Tornado's IOStream, below its HTTP server."""

import asyncio
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.tcpserver import TCPServer

from tools.bench.peers.number import BACKLOG, END, address, response


class Pages(TCPServer):
    """Answers the request of each connection."""

    async def handle_stream(self, stream: Any, address: Any) -> None:
        """Read a head, answer it, close."""
        try:
            await stream.write(response(await stream.read_until(END)))
        except StreamClosedError:
            pass  # the client is gone
        finally:
            stream.close()


async def main() -> None:
    """Serve until a signal ends the process."""
    host, port = address()
    Pages().listen(port, host, backlog=BACKLOG)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
