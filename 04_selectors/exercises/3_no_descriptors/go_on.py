"""What the loop does for a client that is ready: receive, work, send.

It is the part of step 04 that this exercise leaves as it is.
"""

import socket
import time
from argparse import Namespace

import web


def go_on(
    client: web.Client, clients: web.Clients, options: Namespace
) -> None:
    """Do for this client what can be done without waiting."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (web.READ, web.DRAIN):
            connection.came(sock.recv(web.RECV_SIZE))
        if connection.next is web.WORK:
            time.sleep(options.delay)  # blocks: everybody waits
            web.compute(options.compute)
            connection.worked()
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
    elif connection.next in (web.READ, web.DRAIN):
        clients.watch(client, web.READABLE)
    else:
        clients.watch(client, web.WRITABLE)
        if connection.next is web.WORK:  # pipelined: others have a turn
            connection.wait_for(web.WORK, web.SEND_SECONDS)
