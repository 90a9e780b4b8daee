"""A WSGI server on the loop of 06_asyncio/coroutines.py.

WSGI (PEP 3333) is a function call: the application gets what was asked for
as a dict, says status and fields by a second call, and returns the body in
pieces. It cannot yield to our loop, so it must not wait; others are served
between its pieces.
"""

import io
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any
from urllib.parse import unquote

from labs.chain.number import END, address
from labs.chain.on_coroutines import main, mini, receive, send
from labs.wsgi.page import application

Application = Callable[..., Any]


def environment(request: bytes) -> dict[str, Any]:
    """What the application is told. Raises ValueError if it is no HTTP."""
    head, _, body = request.partition(END)
    line, *fields = head.decode("latin-1").split("\r\n")
    method, target, version = line.split(" ")
    path, _, query = target.partition("?")
    host, port = address()
    told = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "",
        "PATH_INFO": unquote(path, "latin-1"), "QUERY_STRING": query,
        "SERVER_NAME": host, "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": version,
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr,
        "wsgi.multithread": False, "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }  # fmt: skip
    for field in fields:
        name, _, value = field.partition(":")
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        told[key] = value.strip()
    return told


def answer(run: Application, environ: dict[str, Any]) -> Iterator[bytes]:
    """What to send: the head together with the first piece of the body."""
    waiting: list[bytes] = []  # the head, and what was given to write

    def start_response(
        status: str, fields: list[tuple[str, str]], error: Any = None
    ) -> Callable[[bytes], object]:
        lines = [f"HTTP/1.0 {status}", *(f"{n}: {v}" for n, v in fields)]
        waiting[:] = ["\r\n".join(lines).encode("latin-1") + END]
        return waiting.append

    body = run(environ, start_response)
    try:
        for piece in body:
            if piece:
                yield b"".join([*waiting, piece])
                waiting.clear()
        if waiting:  # there was no body
            yield b"".join(waiting)
    finally:
        if hasattr(body, "close"):
            body.close()


def talk(sock: socket.socket) -> Generator[Any, None, None]:
    """Answer the request of one connection."""
    try:
        if request := (yield from receive(sock)):
            for piece in answer(application, environment(request)):
                yield from send(sock, piece)
    except (OSError, ValueError):  # the client is gone, or speaks no HTTP
        pass
    finally:
        sock.close()


if __name__ == "__main__":
    mini.loop.run(main(talk))
