"""02: the same by hand, on one blocking socket.

Left out: requests in pieces, all errors, time-outs, a way to stop.
"""

import socket
import time

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"


def talk(connection):
    with connection:
        connection.recv(4096)  # the request
        time.sleep(0.1)  # the work: wait for a database
        connection.sendall(ANSWER)


listener = socket.create_server(("127.0.0.1", 8000))
while True:
    connection, address = listener.accept()
    talk(connection)
