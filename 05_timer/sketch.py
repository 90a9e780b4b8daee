"""05: the loop waits for the work, too; a heap holds the timers.

Left out: requests in pieces, slow readers, errors, timeouts, shutdown.
"""

import heapq
import selectors
import socket
import time

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def accept(listener):
    connection, address = listener.accept()
    selector.register(connection, selectors.EVENT_READ, handle_client)


def handle_client(connection):
    selector.unregister(connection)
    connection.recv(4096)  # won't block: the selector saw data
    due = time.monotonic() + 0.1  # schedule the response
    heapq.heappush(timers, (due, connection.fileno(), connection))


timers = []
selector = selectors.DefaultSelector()
listener = socket.create_server(("127.0.0.1", 8000))
selector.register(listener, selectors.EVENT_READ, accept)
while True:
    timeout = timers[0][0] - time.monotonic() if timers else None
    for key, events in selector.select(timeout):
        key.data(key.fileobj)  # call accept or handle_client
    while timers and timers[0][0] <= time.monotonic():
        with heapq.heappop(timers)[2] as connection:
            connection.sendall(RESPONSE)
