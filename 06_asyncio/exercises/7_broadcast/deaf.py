"""One who reads and one who is deaf, for exercise 06.7.

    python3 deaf.py

Says one long line after the other to the server on port 8000. Each
has to reach the one who reads within two seconds.
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
    deaf, good = ask("listen"), ask("listen")
    lines = good.makefile()
    while lines.readline().strip():  # the head
        pass
    for number in range(1, LINES + 1):
        word = f"{number:0{LINE}}"
        ask(f"say={word}").close()
        try:
            if lines.readline().strip() != word:
                sys.exit(f"line {number} is not the next one")
        except TimeoutError:
            sys.exit(f"line {number} did not come to the one who reads")
    deaf.close()
    print(f"all {LINES} lines came to the one who reads")


if __name__ == "__main__":
    main()
