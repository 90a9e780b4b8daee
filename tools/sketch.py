"""Runs a sketch as the tests and the bench start a server.

    python tools/sketch.py 02_sockets/sketch.py --port 0 --delay 0.02

A sketch has no options and says nothing when it is ready. Its text stays
as it is, but for two numbers: the port and the delay. The ready line comes
when it calls ``listen``. Nothing else runs beside it.
"""

import argparse
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PORT = re.compile(r"\b8000\b")
DELAY = re.compile(r"(?<![\w.])0\.1\b")  # not the end of 127.0.0.1
listen = socket.socket.listen


def changed(text: str, port: int, delay: float) -> str:
    """A sketch's text with another port and delay, each there once."""
    for number, value in ((PORT, f"{port}"), (DELAY, f"{delay:g}")):
        text, found = number.subn(value, text)
        if found != 1:
            raise ValueError(f"{number.pattern} is there {found} times")
    return text


def run(path: Path, port: int, delay: float) -> None:
    """Run the sketch in this process, as if it had been started alone."""
    if not port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    code = compile(changed(path.read_text("utf-8"), port, delay), path, "exec")
    first = os.getpid()

    def telling(self: socket.socket, *backlog: Any) -> None:
        listen(self, *backlog)
        if os.getpid() == first:  # 07 has more, which need not tell
            url = f"http://127.0.0.1:{port}/"
            print(f"Serving on {url} (Ctrl-C to stop)", flush=True)

    socket.socket.listen = telling  # type: ignore[assignment, method-assign]
    sys.path[0] = str(path.parent)  # 07 has an engine there
    exec(code, {"__name__": "__main__"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Runs a sketch.")
    parser.add_argument("path", type=lambda name: ROOT / name)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--delay", type=float, default=0.1, help="seconds")
    options = parser.parse_args()
    run(options.path, options.port, options.delay)
