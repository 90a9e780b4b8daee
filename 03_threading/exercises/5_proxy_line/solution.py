"""Exercise 03.5: who is asking? The PROXY line.

Run it:     python3 server.py --proxy 127.0.0.1
The task:   task.md
"""

import ipaddress
import socket
import threading
import time
from argparse import Namespace

import web
from accepting import accept, open_now, stop_reading

LONGEST = 107  # bytes of a PROXY line, its end included


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start a thread for each connection until a signal arrives."""
    listener.settimeout(web.TICK)
    web.announce(listener)
    while not web.shutting_down:
        sock = accept(listener)
        if sock is not None:
            threading.Thread(
                target=handle_client, args=(sock, options)
            ).start()
    listener.close()
    stop_reading()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


def handle_client(sock: socket.socket, options: Namespace) -> None:
    """Serve one client. Every wait blocks, but only this thread."""
    connection = web.Connection()
    with sock:
        try:
            who = caller(sock, connection, options.proxy)
            print(f"Hello {who}", flush=True)
            while connection.next is not web.CLOSE:
                if connection.next is web.WORK:
                    time.sleep(options.delay)
                    connection.work_done()
                else:
                    wait(sock, connection)
        except OSError:  # the client is gone, or none of ours
            pass
        finally:
            open_now.discard(sock)


def caller(
    sock: socket.socket, connection: web.Connection, proxy: str
) -> str:
    """The client's address. Raises ConnectionError.

    proxy: who says it in a first line, "" if nobody does.
    """
    address = str(sock.getpeername()[0])
    if not proxy:
        return address
    if address != proxy:  # anybody could say anything
        raise ConnectionError
    received = b""
    while (end := received.find(b"\r\n", 0, LONGEST)) < 0:
        sock.settimeout(connection.time_left())
        data = sock.recv(web.RECV_SIZE)
        if not data or len(received) >= LONGEST:
            raise ConnectionError
        received += data
    try:
        named = parse_line(received[:end].decode("ascii"))
    except ValueError:
        raise ConnectionError from None
    if rest := received[end + 2 :]:
        connection.data_received(rest)
    return named or address


def parse_line(line: str) -> str:
    """The client's address in a PROXY line without its end.

    "" if the line does not say it. Raises ValueError.
    Source: The PROXY protocol, section 2.1.
    """
    if f"{line} ".startswith("PROXY UNKNOWN "):
        return ""
    proxy, family, source, target, *ports = line.split(" ")
    addresses = {
        "TCP4": ipaddress.IPv4Address, "TCP6": ipaddress.IPv6Address
    }
    if proxy != "PROXY" or family not in addresses or len(ports) != 2:
        raise ValueError
    for address in (source, target):
        addresses[family](address)
    if not all(p.isdigit() and int(p) <= 65535 for p in ports):
        raise ValueError
    return source


def wait(sock: socket.socket, connection: web.Connection) -> None:
    """Receive or send something before the deadline."""
    try:
        sock.settimeout(connection.time_left())
        if connection.next is web.SEND:
            connection.data_sent(sock.send(connection.unsent))
            if connection.next is web.LINGER:
                sock.shutdown(socket.SHUT_WR)
        else:  # it may be half a request
            connection.data_received(sock.recv(web.RECV_SIZE))
    except (TimeoutError, BlockingIOError):
        connection.timed_out()


def add_options(parser: web.Parser) -> None:
    """--proxy: the only address whose PROXY lines we believe."""
    parser.add_argument("--proxy", default="", metavar="ADDRESS")


if __name__ == "__main__":
    web.main(serve, add_options=add_options)
