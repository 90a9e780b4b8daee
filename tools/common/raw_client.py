"""A client on a raw socket: it can do what no ordinary client would."""

import contextlib
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Self

HOST = b"Host: test\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
GET_CLOSE = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
LONGEST = 20.0  # seconds to wait for anything, unless told otherwise

# What the clients of the current test sent and received: conftest.py
# empties it before each test and shows it beside a failure.
transcript: list["Client"] = []


class NoResponse(AssertionError):
    """The server closed, or said nothing for too long, or nonsense."""


@dataclass
class Response:
    """One response: its head taken apart, its body, and its bytes."""

    version: str
    status: int
    fields: list[tuple[str, str]]
    body: bytes = b""
    raw: bytes = field(default=b"", repr=False)

    def get(self, name: str) -> str:
        """The value of a field; "" if absent, joined if several."""
        values = [v for n, v in self.fields if n.lower() == name.lower()]
        return ", ".join(values)

    @property
    def closes(self) -> bool:
        """Does it say ``Connection: close``?"""
        words = self.get("Connection").lower().split(",")
        return "close" in [word.strip() for word in words]


STATUS_LINE = re.compile(rb"(HTTP/1\.[01]) ([1-5][0-9][0-9]) [^\r\n]*\r\n")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n]*)\r\n")


def read_head(data: bytes) -> tuple[Response, int] | None:
    """The response's head at the start of data and its size, if complete.

    Raises NoResponse if these bytes cannot be the head of one.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    match = STATUS_LINE.match(data)
    if not match:
        raise NoResponse(f"not an HTTP response: {data[:200]!r}")
    fields = []
    at = match.end()
    while at < end + 2:
        line = FIELD.match(data, at)
        if not line:
            raise NoResponse(f"not a header field: {data[at:end]!r}")
        fields.append((line[1].decode(), line[2].decode("latin-1").strip()))
        at = line.end()
    return Response(match[1].decode(), int(match[2]), fields), end + 4


def read_response(data: bytes, head: bool = False) -> Response | None:
    """The first response in data, if complete; head: it is one to a HEAD."""
    found = read_head(data)
    if found is None:
        return None
    response, size = found
    status = response.status
    if not head and status > 199 and status not in (204, 304):
        length = response.get("Content-Length")
        if not length.isdecimal():
            said = f"its Content-Length is {length!r}" if length else (
                "it has no Content-Length"
            )
            raise NoResponse(f"{said}: {data[:200]!r}")
        start, size = size, size + int(length)
        response.body = data[start:size]
    response.raw = data[:size]
    return response if len(data) >= size else None


def read_responses(data: bytes) -> list[Response]:
    """All responses in data, which must end with the last of them.

    For responses whose requests nobody knows: one without a body, where
    the next follows or nothing does, is taken for the response to a HEAD.
    """
    responses = []
    while data:
        found = read_head(data)
        if found is None:
            raise NoResponse(f"an incomplete head: {data[:200]!r}")
        rest = data[found[1]:]
        bare = not rest or rest.startswith(b"HTTP/1.")
        response = read_response(data, head=bare)
        if response is None:
            raise NoResponse(f"an incomplete body: {data[:600]!r}")
        responses.append(response)
        data = data[len(response.raw):]
    return responses


class Client:
    """One connection to a server on this machine."""

    def __init__(
        self, port: int, data: bytes = b"", *, timeout: float = LONGEST,
        receive_buffer: int | None = None,
    ) -> None:
        self.timeout = timeout
        self.sent = b""
        self.received = b""
        self.taken = 0  # how much of received was handed out as responses
        self.ended = ""  # how the server ended: "" (not yet), end, reset
        self.thread = threading.get_ident()  # whose it is, see beside.py
        self.socket = socket.socket()
        transcript.append(self)
        if receive_buffer is not None:
            self.socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer
            )
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if data:
            self.send(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @staticmethod
    def clock() -> float:
        """The seconds that our limits are measured in."""
        return time.monotonic()

    def send(self, data: bytes) -> None:
        """Send all of data; fails the test if the server hung up."""
        self.sent += data
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise NoResponse("the server does not read") from None
        except OSError as error:
            raise NoResponse(f"the server hung up: {error}") from None

    def send_if_open(self, data: bytes) -> bool:
        """Send data; False if the server hung up."""
        try:
            self.send(data)
        except NoResponse:
            return False
        return True

    def receive(self, timeout: float) -> bool:
        """Receive some bytes; False at the end of the connection."""
        self.socket.settimeout(max(timeout, 0.001))
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            raise NoResponse(f"nothing came in {timeout:.1f} s") from None
        except OSError as error:
            self.ended = f"reset ({error})"
            return False
        finally:
            self.socket.settimeout(self.timeout)
        self.received += data
        if not data:
            self.ended = "end"
        return bool(data)

    def response(
        self, head: bool = False, timeout: float | None = None
    ) -> Response:
        """Wait for the next response; head: to a HEAD, so without a body."""
        timeout = self.timeout if timeout is None else timeout
        deadline = self.clock() + timeout
        while True:
            response = read_response(self.received[self.taken:], head)
            if response is not None:
                self.taken += len(response.raw)
                return response
            left = deadline - self.clock()
            if left <= 0:
                raise NoResponse(f"no complete response in {timeout:.1f} s")
            if not self.receive(left):
                raise NoResponse(f"the response stopped with: {self.ended}")

    def ask(self, data: bytes, head: bool = False) -> Response:
        """Send data, wait for a response."""
        self.send(data)
        return self.response(head)

    def rest(self, timeout: float | None = None) -> bytes:
        """Everything until the server ends its side, orderly."""
        timeout = self.timeout if timeout is None else timeout
        deadline = self.clock() + timeout
        while not self.ended:
            left = deadline - self.clock()
            if left <= 0:
                raise NoResponse(f"still open after {timeout:.1f} s")
            self.receive(left)
        if self.ended != "end":
            raise NoResponse(f"the connection stopped with: {self.ended}")
        data = self.received[self.taken:]
        self.taken = len(self.received)
        return data

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):  # gone already
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close in an orderly way."""
        self.socket.close()

    def reset(self) -> None:
        """Vanish: the server's kernel gets an RST, not a FIN."""
        with contextlib.suppress(OSError):  # gone already
            self.socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self.socket.close()
