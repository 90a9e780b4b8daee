"""A client that reads and one that sleeps, for exercise 06.7.

    python3 sleeper.py

Says one long line after the other to the server on port 8000, and
waits for the page. Then the line has to reach the client that reads.
"""

import socket
import sys

LINE = 6000  # bytes of a line
LINES = 2000


def ask(query: str) -> socket.socket:
    """A connection that has asked for this."""
    sock = socket.create_connection(("127.0.0.1", 8000), timeout=2)
    sock.sendall(f"GET /?{query} HTTP/1.0\r\n\r\n".encode())
    return sock


def main() -> None:
    """Say lines until one does not come."""
    sleeper, reader = ask("listen"), ask("listen")
    lines = reader.makefile()
    while lines.readline().strip():  # the head
        pass
    for number in range(1, LINES + 1):
        word = f"{number:0{LINE}}"
        try:
            with ask(f"say={word}") as sayer:
                sayer.makefile().read()  # the page, to its end
            if lines.readline().strip() != word:
                sys.exit(f"line {number} did not reach the reader")
        except TimeoutError:
            sys.exit(f"line {number}: nothing came for two seconds")
    sleeper.close()
    print(f"all {LINES} lines reached the reader")


if __name__ == "__main__":
    main()
