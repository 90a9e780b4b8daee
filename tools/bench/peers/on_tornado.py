# mypy: disable-error-code="import-not-found,misc"
"""Tornado: its web framework on its HTTP server."""

import asyncio

from tornado.web import Application, RequestHandler

from tools.bench.peers.page import BACKLOG, FIELDS, PAGE, address


class Page(RequestHandler):
    """Answers GET with the page."""

    def get(self) -> None:
        """Send the head and the page."""
        for name, value in FIELDS:
            self.set_header(name, value)
        self.write(PAGE)

    def compute_etag(self) -> None:
        """None: the other peers send no ETag."""


async def main() -> None:
    """Serve until a signal ends the process."""
    host, port = address()
    app = Application([("/", Page)], log_function=lambda handler: None)
    app.listen(port, host, backlog=BACKLOG)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
