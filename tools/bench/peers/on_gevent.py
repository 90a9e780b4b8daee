# mypy: disable-error-code="import-not-found,import-untyped"
"""gevent: its WSGI server, a greenlet for each connection."""

import socket

from gevent.pywsgi import WSGIServer

from tools.bench.peers.app import wsgi
from tools.bench.peers.page import BACKLOG, address

if __name__ == "__main__":
    listener = WSGIServer.get_listener(address(), BACKLOG, socket.AF_INET)
    # It sends head and page in two pieces: without this the second waits
    # until the client has acknowledged the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    WSGIServer(listener, wsgi, log=None).serve_forever()
