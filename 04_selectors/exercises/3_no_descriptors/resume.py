"""What the loop does for a client that is ready: receive, work, send.

It is the part of step 04 that this exercise leaves as it is.
"""

import socket
import time
from argparse import Namespace

import web
from clients import READABLE, WRITABLE, Client, Clients


def resume(
    client: Client, clients: Clients, options: Namespace
) -> None:
    """Do for this client what can be done without waiting."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (web.READ, web.LINGER):
            connection.data_received(sock.recv(web.RECV_SIZE))
        if connection.next is web.WORK:
            time.sleep(options.delay)  # blocks: all clients wait
            web.compute(options.compute)
            connection.work_done()
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
    elif connection.next in (web.READ, web.LINGER):
        clients.watch(client, READABLE)
    else:
        clients.watch(client, WRITABLE)
        if connection.next is web.WORK:  # pipelined: others have a turn
            connection.wait_for(web.WORK, web.SEND_SECONDS)
