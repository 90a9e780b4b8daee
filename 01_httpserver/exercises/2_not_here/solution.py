"""Exercise 01.2: what is not here, and what is not allowed.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import time
from argparse import Namespace
from urllib.parse import urlsplit

import httpd
import web


class Handler(httpd.Handler):
    """Handles one request; http.server makes one for each client."""

    def do_GET(self) -> None:
        """Wait, compute, send the page (HEAD: all but the page)."""
        if urlsplit(self.path).path not in ("/", ""):
            self.send_error(404)
            return
        time.sleep(self.options.delay)  # blocks the whole server
        web.compute(self.options.compute)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(httpd.PAGE)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(httpd.PAGE)

    do_HEAD = do_GET

    def refuse_method(self) -> None:
        """Answer a method that is known, but not allowed here."""
        text = "<!doctype html>\n"
        text += f"<p>405: {self.command} is not allowed.\n"
        body = text.encode()
        self.send_response(405)
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_PATCH = do_DELETE = refuse_method
    do_OPTIONS = do_TRACE = do_CONNECT = refuse_method


def serve(listener: socket.socket, options: Namespace) -> None:
    """Handle one connection after the other until a signal arrives."""
    httpd.serve(listener, options, Handler)


if __name__ == "__main__":
    web.main(serve, wake=httpd.stop_reading)
