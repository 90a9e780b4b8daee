"""07: submit operations, collect completions; one process per core.

Left out: requests in pieces, errors, timeouts, crashes, shutdown.
"""

import os
import socket

import emulated
import uring
from emulated import ACCEPTED, RECEIVED, SENT, SLEPT

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"

for core in range(1, os.cpu_count()):
    if os.fork() == 0:
        break  # the child serves as well, and forks no more
try:
    engine = uring.Engine()
except uring.Unavailable:  # the same completions, from a selector
    engine = emulated.Engine()
listener = socket.create_server(("127.0.0.1", 8000), reuse_port=True)
engine.adopt(listener)
engine.accept(listener.fileno())
while True:
    for kind, fd, result, data, more in engine.wait():
        if kind == ACCEPTED:
            engine.receive(result)  # the new descriptor
        elif kind == RECEIVED:
            engine.sleep(fd, 0.1)  # serves others in the meantime
        elif kind == SLEPT:
            engine.send(fd, RESPONSE)
        elif kind == SENT:
            engine.close(fd)
