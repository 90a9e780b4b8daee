"""05: the loop waits for the work as well: a heap knows what is due.

Left out: requests in pieces, slow readers, errors, time-outs, stopping.
"""

import heapq
import selectors
import socket
import time

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def accept(listener):
    connection, address = listener.accept()
    selector.register(connection, selectors.EVENT_READ, talk)


def talk(connection):
    selector.unregister(connection)
    connection.recv(4096)  # the request: it is here already
    due = time.monotonic() + 0.1  # the work: nobody waits here
    heapq.heappush(timers, (due, connection.fileno(), connection))


timers = []
selector = selectors.DefaultSelector()
listener = socket.create_server(("127.0.0.1", 8000))
selector.register(listener, selectors.EVENT_READ, accept)
while True:
    left = timers[0][0] - time.monotonic() if timers else None
    for key, events in selector.select(left):
        key.data(key.fileobj)  # call accept or talk
    while timers and timers[0][0] <= time.monotonic():
        with heapq.heappop(timers)[2] as connection:
            connection.sendall(ANSWER)
