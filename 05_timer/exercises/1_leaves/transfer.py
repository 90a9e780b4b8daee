"""What the loop does for a client that is ready: receive, or send.

It is the part of step 04 that step 05 leaves as it is.
"""

import socket

import web


def transfer(client: web.Client, clients: web.Clients) -> None:
    """Receive or send what can be, then watch for what comes next."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (web.READ, web.WORK, web.DRAIN):
            connection.came(sock.recv(web.RECV_SIZE))  # reset: OSError
        if connection.next is web.SEND:
            connection.sent(sock.send(connection.unsent))
            if connection.next is web.DRAIN:
                sock.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # not ready: the selector will tell
        pass
    except OSError:  # the client is gone
        connection.wait_for(web.CLOSE)
    if connection.next is web.CLOSE:
        clients.close(client)
    elif connection.next is web.WORK:  # what else it sends has time
        clients.watch(client, web.NOTHING)
    elif connection.next is web.SEND:
        clients.watch(client, web.WRITABLE)
    else:
        clients.watch(client, web.READABLE)
