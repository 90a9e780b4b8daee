"""A client that asks and asks, and never reads an answer.

Run it:     python3 greedy.py [PORT]
"""

import socket
import sys

OFFER = 20_000_000  # bytes of requests it would like to send
SECONDS = 3  # without a byte taken, and it gives up
REQUESTS = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 1000


def main() -> None:
    """Send until all is sent, or the server takes no more."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    sent = 0
    try:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(SECONDS)
            while sent < OFFER:
                client.sendall(REQUESTS)
                sent += len(REQUESTS)
    except OSError as error:
        print(error)
    print(f"{sent:,} bytes of requests were taken")


if __name__ == "__main__":
    main()
