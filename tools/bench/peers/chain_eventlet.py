# mypy: disable-error-code="import-not-found,import-untyped"
"""The numbered pages on eventlet: a green thread for each connection."""

import eventlet

from tools.bench.peers.chain_blocking import talk
from tools.bench.peers.number import BACKLOG, address

if __name__ == "__main__":
    listener = eventlet.listen(address(), backlog=BACKLOG)
    while True:
        eventlet.spawn_n(talk, listener.accept()[0])
