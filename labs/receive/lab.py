"""A blocking receiver, to try sizes for recv.

    python3 labs/receive/lab.py --size 64
    python3 labs/receive/lab.py --size 65536 --body 1000000

A second process sends requests over one connection, the next when the last
has been answered. What the receiver needs for a request is counted: its
calls of recv, and its CPU time. It prints them as JSON.
"""

import argparse
import json
import os
import re
import resource
import socket
import sys
import time
from functools import partial

HEAD = (
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: lab\r\n"
    b"Accept: */*\r\nContent-Length: %d\r\n\r\n"
)
END = b"\r\n\r\n"
LENGTH = re.compile(rb"Content-Length: (\d+)")
RESPONSE = b"HTTP/1.1 204 No Content\r\n\r\n"
WARM_UP = 10  # requests before the count begins


def receive(sock: socket.socket, size: int) -> int:
    """Receive one request; how many calls of recv that took.

    Raises EOFError if the sender has gone.
    """
    received, whole, calls = bytearray(), 0, 0
    while not whole or len(received) < whole:
        data = sock.recv(size)
        if not data:
            raise EOFError
        calls += 1
        received += data
        if not whole and (end := received.find(END)) >= 0:
            length = LENGTH.search(received)
            whole = end + len(END) + int(length[1] if length else 0)
    return calls


def send(address: tuple[str, int], body: int, requests: int) -> None:
    """Send so many requests with a body of so many bytes."""
    request = HEAD % body + bytes(body)
    with socket.create_connection(address) as sock:
        for _ in range(requests):
            sock.sendall(request)
            missing = len(RESPONSE)
            while missing and (data := sock.recv(missing)):
                missing -= len(data)


def serve(sock: socket.socket, size: int, requests: int) -> int:
    """Answer so many requests; how many calls of recv that took."""
    calls = 0
    for _ in range(requests):
        calls += receive(sock, size)
        sock.sendall(RESPONSE)
    return calls


def measure(size: int, body: int, requests: int) -> dict[str, float]:
    """Receive so many requests, recv(size) at a time; what that took."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            try:
                send(listener.getsockname(), body, WARM_UP + requests)
            finally:
                os._exit(0)
        try:
            sock, _ = listener.accept()
            with sock:
                serve(sock, size, WARM_UP)
                begun, before = time.perf_counter(), cpu()
                calls = serve(sock, size, requests)
                after, took = cpu(), time.perf_counter() - begun
        finally:
            os.waitpid(child, 0)
    every, user, system = (a - b for a, b in zip(after, before, strict=True))
    user = every * user / (user + system) if user + system else every
    return {
        "requests": requests, "seconds": took, "recv_calls": calls,
        "cpu_user": user, "cpu_system": every - user,
    }


def cpu() -> tuple[float, float, float]:
    """Seconds of CPU time so far: all, in the program, in the kernel.

    All is that of the process's clock. The system counts the other two in
    steps, so only their shares count.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.process_time(), used.ru_utime, used.ru_stime


def main() -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="lab.py", description=__doc__)
    add = partial(parser.add_argument, type=int, metavar="N")
    add("--size", default=4096, help="bytes that recv may return at most")
    add("--body", default=0, help="bytes of a request's body")
    add("--requests", default=1000, help="how many requests")
    options = parser.parse_args()
    if options.body < 0 or min(options.size, options.requests) < 1:
        parser.error("--size and --requests are at least 1, --body 0")
    found = measure(options.size, options.body, options.requests)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
