"""Runs a server where the system lacks what Windows lacks.

    python tests/lacking.py python 04_selectors/server.py --port 0

What asyncio needs on this system, it has imported before.
"""

import asyncio  # noqa: F401
import builtins
import os
import runpy
import signal
import socket
import sys
from typing import Any

LACKING = (
    (os, ("fork", "register_at_fork", "sched_getaffinity")),
    (signal, ("SIGALRM", "alarm", "setitimer", "ITIMER_REAL")),
    (socket, ("SO_REUSEPORT", "AF_UNIX")),
)
opened = builtins.open


def open_but_proc(file: Any, *arguments: Any, **named: Any) -> Any:
    """Open a file, if it is not in /proc."""
    if str(file).startswith("/proc"):
        raise FileNotFoundError(file)
    return opened(file, *arguments, **named)


def main() -> None:
    """Take it away, and be the server."""
    pair = socket.socketpair()  # of AF_UNIX here, of AF_INET elsewhere
    socket.socketpair = lambda *_: pair
    for module, names in LACKING:
        for name in names:
            vars(module).pop(name, None)
    for name in ("resource", "fcntl", "termios"):
        sys.modules[name] = None  # type: ignore[assignment]
    builtins.open = open_but_proc
    del sys.argv[:2]  # this file, and the Python that runs the server
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
