# mypy: disable-error-code="import-not-found,import-untyped"
"""The numbered pages on other people's WSGI servers: ``on HOST PORT NAME``."""

import logging
import socket
import sys

from labs.chain.number import BACKLOG, address
from labs.wsgi.page import application


def on_gevent() -> None:
    """pywsgi: a greenlet for each connection."""
    from gevent.pywsgi import WSGIServer

    listener = WSGIServer.get_listener(address(), BACKLOG, socket.AF_INET)
    # It sends head and page in two pieces: without this the second waits
    # until the client has acknowledged the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    WSGIServer(listener, application, log=None).serve_forever()


def on_eventlet() -> None:
    """A green thread for each connection."""
    import eventlet.wsgi

    listener = eventlet.listen(address(), backlog=BACKLOG)
    eventlet.wsgi.server(listener, application, log_output=False)


def on_waitress() -> None:
    """One thread for the sockets, four for the application."""
    import waitress

    # It warns of each request that waits for one of the four.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    host, port = address()
    waitress.serve(
        application, host=host, port=port, backlog=BACKLOG, threads=4
    )


if __name__ == "__main__":
    globals()[f"on_{sys.argv[3]}"]()
