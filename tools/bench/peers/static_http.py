"""http.server as a static file server that keeps connections open.

    python3 static_http.py PORT DIR [--no-delay]

The class and the handler are those of ``python3 -m http.server``; only
the protocol version differs, which makes it HTTP/1.1 with keep-alive.
It sends head and body in two pieces, and with keep-alive the second
waits until the client has acknowledged the first (Nagle's algorithm
against delayed acknowledgements); --no-delay turns that waiting off.
"""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    """The same handler for HTTP/1.1: connections stay open."""

    protocol_version = "HTTP/1.1"


def main(arguments: list[str]) -> None:
    """Serve until a signal ends it. Raises SystemExit on nonsense."""
    words = [word for word in arguments if word != "--no-delay"]
    if len(words) != 2 or not words[0].isdecimal():
        sys.exit("usage: static_http.py PORT DIR [--no-delay]")
    Handler.disable_nagle_algorithm = len(words) < len(arguments)
    handler = partial(Handler, directory=words[1])
    address = ("127.0.0.1", int(words[0]))
    with ThreadingHTTPServer(address, handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
