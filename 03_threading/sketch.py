"""03: one thread per connection.

Left out: requests in pieces, all errors, timeouts, a clean shutdown.
"""

import socket
import threading
import time

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def handle_client(connection):
    with connection:
        connection.recv(4096)  # the request (in one piece, we assume)
        time.sleep(0.1)  # stands in for a database query
        connection.sendall(RESPONSE)


listener = socket.create_server(("127.0.0.1", 8000))
while True:
    connection, address = listener.accept()
    threading.Thread(target=handle_client, args=(connection,)).start()
