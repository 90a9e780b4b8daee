# mypy: disable-error-code="import-not-found"
"""The same asyncio.Protocol on uvloop's event loop."""

import uvloop

from tools.bench.peers.on_asyncio import serve

if __name__ == "__main__":
    serve(uvloop.new_event_loop)
