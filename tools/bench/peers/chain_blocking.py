"""The numbered pages for libraries that make blocking code switch.

What is written here waits in recv; gevent and eventlet each bring a
socket that switches to another greenlet meanwhile.
"""

from typing import Any

from tools.bench.peers.number import END, MOST, response


def talk(sock: Any) -> None:
    """Answer the request of one connection."""
    received = b""
    try:
        while END not in received and len(received) < MOST:
            data = sock.recv(MOST)
            if not data:
                return
            received += data
        sock.sendall(response(received))
    except OSError:
        pass  # the client is gone
    finally:
        sock.close()
