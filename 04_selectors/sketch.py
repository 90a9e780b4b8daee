"""04: one thread asks which sockets are ready; the work still blocks.

Left out: requests in pieces, slow readers, errors, timeouts, shutdown.
"""

import selectors
import socket
import time

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def accept(listener):
    connection, address = listener.accept()
    selector.register(connection, selectors.EVENT_READ, handle_client)


def handle_client(connection):
    selector.unregister(connection)
    with connection:
        connection.recv(4096)  # won't block: the selector saw data
        time.sleep(0.1)  # still blocks the whole loop
        connection.sendall(RESPONSE)


selector = selectors.DefaultSelector()
listener = socket.create_server(("127.0.0.1", 8000))
selector.register(listener, selectors.EVENT_READ, accept)
while True:
    for key, events in selector.select():
        key.data(key.fileobj)  # call accept or handle_client
