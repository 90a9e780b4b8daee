"""Step 01: the standard library's http.server, one request at a time.

Python brings a web server along. We write the response to GET; the
library listens, accepts, reads, parses and closes for us, one
connection after the other. Step 02 does the same by hand, to see how.

Run it:      python3 01_httpserver/server.py
Try this:    curl http://127.0.0.1:8000/ in two terminals at once
What breaks: the second curl waits for the first: two clients, twice the
             time. And what happens in between is hidden from us.
"""

from __future__ import annotations

import socket
import sys
import time
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

from web import (
    TICK,
    announce,
    compute,
    count,
    main,
    shutting_down,
    signals_received,
)

HEAD_SECONDS = 10.0  # for a client to send something

PAGE = b"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Seven servers</title>
</head>
<body>
<h1>It works!</h1>
<p>This page is from a web server you can read from end to end.
How many clients can it serve at once?</p>
</body>
</html>
"""


class Handler(BaseHTTPRequestHandler):
    """Handles one request; http.server makes one for each client."""

    options: Namespace
    timeout = HEAD_SECONDS

    def do_GET(self) -> None:
        """Wait, compute, send the page (HEAD: all but the page)."""
        path = urlsplit(self.path).path
        if path not in ("/", "", "/healthz"):
            self.send_error(404)
            return
        if path == "/healthz" and signals_received:  # we stop soon
            self.send_error(503)
            return
        if self.options.delay:
            time.sleep(self.options.delay)  # blocks the whole server
        compute(self.options.compute)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(PAGE)

    do_HEAD = do_GET

    def refuse_method(self) -> None:
        """Respond to a method that is known, but not allowed here."""
        self.send_error(405)

    do_POST = do_PUT = do_PATCH = do_DELETE = refuse_method
    do_OPTIONS = do_TRACE = do_CONNECT = refuse_method

    def end_headers(self) -> None:
        """Every 405 must list what is allowed (RFC 9110, 15.5.6)."""
        if self.status == 405:
            self.send_header("Allow", "GET, HEAD")
        super().end_headers()

    def log_request(
        self, code: int | str = "-", size: object = "-"
    ) -> None:
        """Count the responses instead of logging them."""
        self.status = int(code)
        count(requests=1)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing for each bad request or lost client."""

    def setup(self) -> None:
        """Called first; remember the socket we may wait for."""
        super().setup()
        connections.add(self.connection)
        count(connections=1)

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
            time.sleep(TICK)
            raise

    def serve_rest(self) -> None:
        """Serve the connections already queued, then stop listening."""
        self.socket.setblocking(False)
        rest = []
        try:
            while True:
                rest.append(self.socket.accept())
        except OSError:  # the queue is empty
            self.server_close()
        Handler.timeout = TICK
        for client, address in rest:
            client.setblocking(True)
            try:
                self.process_request(client, address)
            except OSError:
                self.shutdown_request(client)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


connections: set[socket.socket] = set()  # open now: one or none


def serve(listener: socket.socket, options: Namespace) -> None:
    """Handle one connection after the other until a signal."""
    Handler.options = options
    server = Server(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.timeout = TICK
    announce(listener)
    while not shutting_down:
        server.handle_request()
    server.serve_rest()


def stop_reading() -> None:
    """On shutdown: clients we wait for appear to have ended."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


if __name__ == "__main__":
    main(serve, wake=stop_reading)
