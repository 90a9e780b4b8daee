# mypy: disable-error-code="import-not-found"
"""The same asyncio.Protocol on blazio's event loop."""

import blazio

from tools.bench.peers.on_asyncio import serve

if __name__ == "__main__":
    serve(blazio.new_event_loop)
