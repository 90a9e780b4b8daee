# mypy: disable-error-code="import-not-found,import-untyped"
"""The numbered pages on gevent: a greenlet for each connection."""

import socket

from gevent.server import StreamServer

from tools.bench.peers.chain_blocking import talk
from tools.bench.peers.number import BACKLOG, address

if __name__ == "__main__":
    listener = StreamServer.get_listener(address(), BACKLOG, socket.AF_INET)
    StreamServer(listener, lambda sock, _: talk(sock)).serve_forever()
