"""What goes over the wire: real requests and responses, byte for byte.

Each exchange starts a fresh server, sends its bytes over a socket, and
keeps all that comes back until the server closes. The requests are those
of curl and of ab, and some that no good client sends.
"""

import argparse
from dataclasses import dataclass

from rich.markup import escape

from tools.bench.server import Running, ServerError, start
from tools.bench.session import Session
from tools.bench.table import typed
from tools.common.raw_client import Client, NoResponse
from tools.data import exchange
from tools.data.exchange import Exchange
from tools.servers import by_name

HELP = "requests and responses byte for byte, for the site (5 seconds)"
SECONDS = 10.0  # for the whole response

# The port of our examples; a server does not compare it with its own.
HOST = b"Host: 127.0.0.1:8000\r\n"
CURL = b"HTTP/1.1\r\n" + HOST + b"User-Agent: curl/7.88.1\r\nAccept: */*\r\n"
AB = HOST + b"User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n"


@dataclass(frozen=True)
class Request:
    """What to send to which server.

    half_close: end our side then, because the server would wait for more.
    """

    server: str
    sent: bytes
    half_close: bool = False


REQUESTS = {
    "get": Request("02", b"GET / " + CURL + b"\r\n"),
    "http-server": Request("01", b"GET / " + CURL + b"\r\n"),
    "keep-alive": Request(
        "03",
        b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
        b"GET /missing HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
    ),
    "head": Request("02", b"HEAD / " + CURL + b"\r\n"),
    "not-found": Request("02", b"GET /missing " + CURL + b"\r\n"),
    "not-allowed": Request("02", b"DELETE / " + CURL + b"\r\n"),
    "bad-request": Request("02", b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n"),
    "http10": Request("03", b"GET / HTTP/1.0\r\n" + AB + b"\r\n"),
    "http10-keep-alive": Request(
        "03",
        b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n" + AB + b"\r\n",
        half_close=True,
    ),
}


def run(options: argparse.Namespace) -> int:
    """Capture every exchange, save and print it; 0."""
    session = Session("wire", options)
    made = session.results
    place = exchange.REFERENCE if options.reference else session.folder
    for name, request in REQUESTS.items():
        with start(by_name(request.server), 0.0) as process:
            received = converse(process, request)
        Exchange(
            name, request.server, made.command, made.started, made.commit,
            {"python": made.machine.python}, request.sent, received,
            request.half_close,
        ).save(place)
        session.say(f"\n[bold]{name}[/], server {request.server}")
        for arrow, data in (("->", request.sent), ("<-", received)):
            for line in data.decode(exchange.CODING).splitlines():
                session.say(f"  {arrow} {escape(line)}")
    session.say(f"\nThe exchanges: {typed(place)}")
    return 0


def converse(process: Running, request: Request) -> bytes:
    """All that the server sends until it closes. Raises ServerError."""
    try:
        with Client(process.port, request.sent, timeout=SECONDS) as client:
            if request.half_close:
                client.half_close()
            return client.rest()
    except (OSError, NoResponse) as error:
        raise ServerError(
            f"{request.server} has not answered and closed: {error}"
        ) from error
