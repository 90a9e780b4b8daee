# mypy: disable-error-code="import-not-found,import-untyped"
"""The numbered pages on eventlet: a green thread for each connection."""

import eventlet

from labs.chain.number import BACKLOG, address
from labs.chain.on_blocking import talk

if __name__ == "__main__":
    listener = eventlet.listen(address(), backlog=BACKLOG)
    while True:
        eventlet.spawn_n(talk, listener.accept()[0])
