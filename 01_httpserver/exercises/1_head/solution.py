"""Exercise 01.1: answer HEAD.

Run it:     python3 server.py
The task:   task.md
"""

import socket
import time
from argparse import Namespace

import httpd
import web


class Handler(httpd.Handler):
    """Handles one request; http.server makes one for each client."""

    def do_GET(self) -> None:
        """Wait, compute, send the page (HEAD: its head, at once)."""
        if self.command == "GET":
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


def serve(listener: socket.socket, options: Namespace) -> None:
    """Handle one connection after the other until a signal arrives."""
    httpd.serve(listener, options, Handler)


if __name__ == "__main__":
    web.main(serve, wake=httpd.stop_reading)
