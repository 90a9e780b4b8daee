"""One who listens and one who does not read, for exercise 06.7.

    python3 deaf.py

Says a long line after the other to the server on port 8000. Each has to
reach the one who reads within two seconds.
"""

import socket

LINE = 6000  # bytes of a line
LINES = 5000


def ask(query: str) -> socket.socket:
    """A connection that has asked for this."""
    sock = socket.create_connection(("127.0.0.1", 8000), timeout=2)
    request = f"GET /?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    sock.sendall(request.encode())
    return sock


def main() -> None:
    """Say lines until one does not come."""
    deaf, good = ask("listen"), ask("listen")
    lines = good.makefile("rb")
    while lines.readline().strip():  # the head
        pass
    try:
        for number in range(1, LINES + 1):
            ask(f"say={number:0{LINE}}").close()
            if int(lines.readline()) != number:
                raise SystemExit(f"line {number} came in another order")
    except TimeoutError:
        raise SystemExit(
            f"line {number} did not come to the one who reads"
        ) from None
    deaf.close()
    print(f"{LINES} lines came; now look at the server's peak memory")


if __name__ == "__main__":
    main()
