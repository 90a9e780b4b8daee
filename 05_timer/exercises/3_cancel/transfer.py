"""What the loop does for a client that is ready: receive, or send.

It is the part of step 04 that step 05 leaves as it is.
"""

import socket

import web
from clients import NOTHING, READABLE, WRITABLE, Client, Clients


def transfer(client: Client, clients: Clients) -> None:
    """Receive or send what can be, then watch for what comes next."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (web.READ, web.WORK, web.LINGER):
            data = sock.recv(web.RECV_SIZE)  # after a reset: OSError
            connection.data_received(data)
        if connection.next is web.SEND:
            connection.data_sent(sock.send(connection.unsent))
            if connection.next is web.LINGER:
                sock.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # not ready: wait for the selector
        pass
    except OSError:  # the client is gone
        connection.wait_for(web.CLOSE)
    if connection.next is web.CLOSE:
        clients.close(client)
    elif connection.next is web.WORK:  # what else it sends can wait
        clients.watch(client, NOTHING)
    elif connection.next is web.SEND:
        clients.watch(client, WRITABLE)
    else:
        clients.watch(client, READABLE)
