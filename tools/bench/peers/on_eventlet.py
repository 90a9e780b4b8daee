# mypy: disable-error-code="import-not-found"
"""eventlet: its WSGI server, a green thread for each connection."""

import eventlet
import eventlet.wsgi

from tools.bench.peers.app import wsgi
from tools.bench.peers.page import BACKLOG, address

if __name__ == "__main__":
    listener = eventlet.listen(address(), backlog=BACKLOG)
    eventlet.wsgi.server(listener, wsgi, log_output=False)
