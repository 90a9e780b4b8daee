"""What http.server leaves to us, but for the responses themselves.

Those are in server.py. The rest is as in 01_httpserver/server.py.
"""

import socket
import sys
import time
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import web

HEAD_SECONDS = 10.0  # for a client to send something
PAGE = web.PAGE.encode()

connections: set[socket.socket] = set()  # open now: one or none


class Handler(BaseHTTPRequestHandler):
    """Knows its client, and counts the responses."""

    options: Namespace
    timeout = HEAD_SECONDS

    def log_request(
        self, code: int | str = "-", size: object = "-"
    ) -> None:
        """Count the responses instead of logging them."""
        self.status = int(code)
        web.count(requests=1)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for each bad request or lost client."""

    def setup(self) -> None:
        """Called first; remember the socket we may wait for."""
        super().setup()
        connections.add(self.connection)
        web.count(connections=1)

    def finish(self) -> None:
        """Called last."""
        connections.discard(self.connection)
        super().finish()


class Server(HTTPServer):
    """http.server's own, on our listening socket."""

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept; out of file descriptors, wait for free ones."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(web.TICK)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def serve(
    listener: socket.socket, options: Namespace, handler: type[Handler]
) -> None:
    """Handle one connection after the other until a signal arrives."""
    handler.options = options
    server = Server(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.timeout = web.TICK
    web.announce(listener)
    while not web.shutting_down:
        server.handle_request()
    server.server_close()


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass
