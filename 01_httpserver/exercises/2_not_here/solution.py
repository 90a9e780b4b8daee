"""Exercise 01.2: what is not here, and what is not allowed.

Run it:     python3 server.py
The task:   task.md
"""

from __future__ import annotations

import socket
import sys
import time
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import urlsplit

from web import PAGE, TICK, announce, compute, count, main, stopping

HEAD_SECONDS = 10.0  # for a client to send something
BODY = PAGE.encode()


class Handler(BaseHTTPRequestHandler):
    """Answers one request; http.server makes one for each client."""

    options: Namespace
    timeout = HEAD_SECONDS

    def do_GET(self) -> None:
        """Wait, compute, send the page (HEAD: all but the page)."""
        if urlsplit(self.path).path not in ("/", ""):
            self.send_error(404)
            return
        if self.options.delay:
            time.sleep(self.options.delay)  # blocks: all wait
        compute(self.options.compute)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(BODY)

    do_HEAD = do_GET

    def refuse_method(self) -> None:
        """Answer a method that is known, but not allowed here."""
        body = b"<!doctype html>\n<title>405</title>\n"
        self.send_response(405)
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = refuse_method
    do_OPTIONS = do_TRACE = do_CONNECT = refuse_method

    def log_request(
        self, code: int | str = "-", size: object = "-"
    ) -> None:
        """Count the answers instead of logging them."""
        count(requests=1)

    def log_message(self, format: str, *args: object) -> None:
        """Do not write about each refused request or lost client."""

    def setup(self) -> None:
        """Called first; remember whom we may be waiting for."""
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
        """Accept; when out of descriptors, wait until some are free."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(TICK)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


connections: set[socket.socket] = set()  # open now: one or none


def serve(listener: socket.socket, options: Namespace) -> None:
    """Handle one connection after the other until asked to stop."""
    Handler.options = options
    server = Server(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.timeout = TICK
    announce(listener)
    while not stopping():
        server.handle_request()
    server.server_close()


def stop_reading() -> None:
    """On a signal: whoever waits for a request sees the end of it."""
    for connection in list(connections):
        try:
            connection.shutdown(socket.SHUT_RD)
        except OSError:  # it is closed already
            pass


if __name__ == "__main__":
    main(serve, wake=stop_reading)
