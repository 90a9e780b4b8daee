"""07: say what is to be done, hear when it is; a process a core.

Left out: requests in pieces, errors, time-outs, lost workers, stopping.
"""

import os
import socket

import emulated
import uring
from emulated import ACCEPTED, RECEIVED, SENT, SLEPT

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"

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
    for kind, connection, result, data, again in engine.wait():
        if kind == ACCEPTED:
            engine.receive(result)  # from the new connection
        elif kind == RECEIVED:
            engine.sleep(connection, 0.1)  # the work: go on meanwhile
        elif kind == SLEPT:
            engine.send(connection, ANSWER)
        elif kind == SENT:
            engine.close(connection)
