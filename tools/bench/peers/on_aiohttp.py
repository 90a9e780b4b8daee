# mypy: disable-error-code="import-not-found"
"""aiohttp: its web server on asyncio's loop."""

from typing import Any

from aiohttp import web

from tools.bench.peers.page import BACKLOG, FIELDS, PAGE, address


async def page(request: Any) -> Any:
    """Answer GET / with the page."""
    return web.Response(body=PAGE, headers=dict(FIELDS))


if __name__ == "__main__":
    host, port = address()
    app = web.Application()
    app.router.add_get("/", page)
    web.run_app(
        app, host=host, port=port, access_log=None, print=None,
        backlog=BACKLOG,
    )
