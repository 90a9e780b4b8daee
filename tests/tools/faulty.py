"""Server 03 with a fault, which the bench or the soak has to notice."""

import contextlib
import importlib
import itertools
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

from tools.servers import ROOT, Server, by_name

# What becomes of a response.
CHANGED = {
    "busy": (b"200 OK", b"503 Busy"),
    "another page": (b"works!", b"burns!"),
    "another type": (b"; charset=utf-8", b""),
}
# Faults that clients find, so it stops as it should.
STOPS = ("good", "mixes up", "hangs up", "leaks")
WARM = 50  # connections that are good, for a test's warm-up


def faulty(folder: Path, fault: str) -> Server:
    """A server with this fault, whose file is made in the folder."""
    file = folder / f"{fault.replace(' ', '_')}.py"
    file.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"from tests.tools.faulty import main\nmain({fault!r})\n"
    )
    lessons = by_name("03").lessons
    return Server(file.stem, 3, str(file), "a fake", "a thread", lessons)


def main(fault: str) -> None:
    """Be that server, and never wait before a response."""
    sys.path.insert(0, str(ROOT / "03_threading"))
    sys.argv += ["--delay", "0"]
    step: Any = importlib.import_module("server")
    web: Any = importlib.import_module("web")
    served, talked, respond = step.serve, step.handle_client, web.respond
    clients, requests = itertools.count(1), itertools.count(1)

    def handle_client(sock: socket.socket, options: object) -> None:
        came = b""
        with contextlib.suppress(ConnectionError):  # the client has gone
            came = sock.recv(1, socket.MSG_PEEK)
        number = next(clients) if came else 0
        if fault == "dies" and number == 11:
            os.write(2, b"no more today\n")
            os._exit(3)
        if fault == "falls silent" and number > 10:
            time.sleep(600)
        if fault == "leaks":
            os.dup(2)
        hangs_up = fault == "hangs up" and number > WARM
        if not number or number % 5 or not (hangs_up or fault == "resets"):
            talked(sock, options)
            return
        if fault == "resets":
            linger = struct.pack("ii", 1, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        with contextlib.suppress(ConnectionError):
            sock.recv(65536)
        sock.close()

    def response(request: Any, keep_alive: bool) -> bytes:
        if fault == "mixes up" and next(requests) % 20 == 0:
            status = 404 if request.status != 404 else 200
            request = request._replace(status=status)
        text: bytes = respond(request, keep_alive)
        return text.replace(*CHANGED.get(fault, (b"", b"")))

    def serve(listener: socket.socket, options: object) -> None:
        if fault not in STOPS:
            ignored = fault == "ignores SIGTERM"
            how = signal.SIG_IGN if ignored else signal.SIG_DFL
            signal.signal(signal.SIGTERM, how)
        if fault == "leaves a worker" and os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        served(listener, options)

    if fault == "crashes":
        raise SystemExit("no such colour")
    if fault == "never ready":
        time.sleep(600)
    step.handle_client, web.respond = handle_client, response
    step.main(serve)
