"""What every server owes its clients, the same in all seven folders.

Connection    the life of one connection, without its socket
HTTP          bytes in, a request out; a request in, a response out
Command line  options, signals, and the line printed at the end

Exercises use parse, respond, error_response and BadRequest, or a
Connection: see next, received, unsent, deadline, data_received,
work_done, data_sent, time_left, timed_out and wait_for.

The original is in 02_sockets; the other folders hold copies of it, so
that each of them runs on its own.
"""

from __future__ import annotations

import functools
import math
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable
from email.utils import formatdate
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple, NoReturn

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# === Connection =====================================================
# The life of one connection, without its socket: what comes next, until
# when, and what to send. Each step waits in its own way and reports
# what happened: data received, work done, data sent, timed out.
#
# Time has four rules here. A request that has arrived is never timed
# out: before calling timed_out, a step tries to read once more. A head
# has to be complete HEAD_SECONDS after its first byte, even if bytes
# keep arriving; lingering ends LINGER_MOST seconds after the response
# at the latest. A response makes progress only by bytes that are sent.

HEAD_SECONDS = 10.0  # for a client to send its whole head
IDLE_SECONDS = 5.0  # for a client to begin another request
SEND_SECONDS = 10.0  # for a client to take some of a response
LINGER_SECONDS = 1.0  # of silence after the last response
LINGER_MOST = 10.0  # after the last response, silent or not
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time

clock = time.monotonic  # all time comes from here: tests set their own


class Next(Enum):
    """What comes next on a connection."""

    READ = "read"  # receive a request, or the rest of it
    WORK = "work"  # do what the request asks for
    SEND = "send"  # send the response, or the rest of it
    LINGER = "linger"  # our side is closed; wait for the client's
    CLOSE = "close"  # nothing: close the socket


READ, WORK, SEND, LINGER, CLOSE = Next


class Connection:
    """The state of one client, and the deadline for what comes next."""

    def __init__(self, keep: bool = True) -> None:
        self.keep = keep  # may it stay open for another request?
        self.received = b""  # arrived, but not handled yet
        self.ended = False  # has the client closed its side?
        self.request: Request | None = None  # the one in progress
        self.unsent = b""  # what is left of the response
        self.last = False  # does the connection end after it?
        self.linger_until = math.inf
        self.wait_for(READ, HEAD_SECONDS)

    def wait_for(self, what: Next, seconds: float = math.inf) -> None:
        """Enter a state, with a deadline."""
        self.next = what
        self.deadline = clock() + seconds
        if shutting_down:
            self.shorten_deadline()

    def time_left(self) -> float:
        """Seconds until the deadline; 0 if it has passed."""
        return max(self.deadline - clock(), 0)

    def data_received(self, data: bytes) -> None:
        """Take received bytes; b"" means the client closed its side."""
        if not data:
            self.ended = True
        if self.next is READ:
            begins = not self.received
            self.received += data
            self.try_parse(begins)
        elif self.next is not LINGER:  # pipelined: handled later
            self.received += data
        elif self.ended or clock() >= self.linger_until:
            self.wait_for(CLOSE)
        else:  # the deadline moves, but not for ever
            self.wait_for(LINGER, LINGER_SECONDS)
            self.deadline = min(self.deadline, self.linger_until)

    def try_parse(self, begins: bool) -> None:
        """Start on the next request if its head is complete.

        begins: its first bytes are new, so its time starts now.
        """
        try:
            self.request = parse(self.received)
        except BadRequest as error:
            self.send_response(error_response(error), last=True)
            return
        if self.request is None:  # TCP is a stream: the rest may follow
            if self.ended:
                self.wait_for(CLOSE)
            elif begins:
                self.wait_for(READ, HEAD_SECONDS)
            elif clock() >= self.deadline:  # too slow, byte by byte
                self.timed_out()
            return
        self.received = self.received[self.request.size :]
        if self.request.status == 200:
            self.wait_for(WORK)
        else:  # an error takes no work
            self.work_done()

    def work_done(self) -> None:
        """Respond: the work for the request is done."""
        assert self.request
        keep = self.keep and self.request.keep_alive
        keep = keep and not shutting_down
        self.send_response(respond(self.request, keep), last=not keep)

    def send_response(self, response: bytes, last: bool) -> None:
        """Start sending a response."""
        self.unsent, self.last = response, last
        self.wait_for(SEND, SEND_SECONDS)

    def data_sent(self, size: int) -> None:
        """Note that this many bytes of the response were sent."""
        self.unsent = self.unsent[size:]
        if self.unsent:
            self.wait_for(SEND, SEND_SECONDS)
            return
        count(requests=1)
        if self.last:
            # Closing with unread bytes makes the kernel send a reset,
            # which can destroy the response (RFC 9112, section 9.6).
            # So we close our side only, and read on for a moment.
            after = CLOSE if self.ended else LINGER
            self.wait_for(after, LINGER_SECONDS)
            self.linger_until = clock() + LINGER_MOST
        elif self.received or self.ended:  # the next one is here
            self.try_parse(begins=True)
        else:
            self.wait_for(READ, IDLE_SECONDS)

    def shorten_deadline(self) -> None:
        """Shutting down: a request has to arrive soon."""
        if self.next is READ:
            self.deadline = min(self.deadline, clock() + TICK)

    def timed_out(self) -> None:
        """Give up waiting: the deadline has passed."""
        if self.next is READ and self.received:
            error = BadRequest(408, "too slow")
            self.send_response(error_response(error), last=True)
        else:
            self.wait_for(CLOSE)


# === HTTP ============================================================
# Bytes in, bytes out: nothing here waits, reads or writes. The rules
# are those of RFC 9110 (what a request means) and RFC 9112 (how it is
# written down).

MAX_LINE = 8 * 1024  # bytes of the request line; more is a 414
MAX_HEAD = 16 * 1024  # bytes of the whole head; more is a 431
MAX_FIELDS = 100  # header fields; more is a 431
MAX_DIGITS = 18  # of a Content-Length: more may not fit into 64 bits

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Seven servers</title>
</head>
<body>
<h1>It works!</h1>
<p>This page is from a web server you can read from end to end.
How many clients can it serve at once?</p>
</body>
</html>
"""

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # RFC 9110, section 5.6.2
FIELD = TOKEN + rb":[\t -~\x80-\xff]*\r\n"  # RFC 9112, section 5
HEAD = re.compile(
    rb"""
    (?:\r\n)?                              # an empty line is skipped
    (%b) [ ] ([!-~]+) [ ] HTTP/1\.([0-9])  # method, target, version
    \r\n
    ((?: %b ){0,%d})                       # header fields
    \r\n                                   # an empty line ends it
    """
    % (TOKEN, FIELD, MAX_FIELDS),
    re.VERBOSE,
)
REQUEST_LINE = re.compile(TOKEN + rb" [!-~]+ (\S+)\r")
STRAY = re.compile(rb"\0|\r(?!\Z)")  # within a line: NUL, bare CR
KNOWN_FIELD = re.compile(
    rb"^(host|connection|content-length|transfer-encoding):(.*)\r$",
    re.IGNORECASE | re.MULTILINE,
)
# A host, perhaps with a port: an IPv6 address in brackets, or a name.
# (++ and *+ never go back to try less: quick, whatever arrives.)
HOST = re.compile(
    rb"(?:\[([0-9A-Fa-f:.]+)\]"
    rb"|(?:[-.~!$&'()*+,;=\w]++|%[0-9A-Fa-f]{2})*+)(?::[0-9]*)?"
)
# http://host/path or /path, both perhaps with a query: three groups.
TARGET = re.compile(
    rb"(?:([A-Za-z][-+.0-9A-Za-z]*)://([^/?]*)|(?=/))"
    rb"((?:[-.~!$&'()*+,;=:@/\w]++|%[0-9A-Fa-f]{2})*+)"
    rb"(?:\?(?:[-.~!$&'()*+,;=:@/?\w]++|%[0-9A-Fa-f]{2})*+)?"
)
# A transfer coding, perhaps with parameters (RFC 9112, section 7).
CODING = re.compile(TOKEN + rb"(?:[ \t]*;[\t -~]*)?")
METHODS = set(
    b"GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE".split()
)


class BadRequest(Exception):
    """A request that gets an error response, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.to_head = False  # was it a HEAD? Then no body is sent


class Request(NamedTuple):
    """One request, as far as it matters for the response."""

    method: bytes
    target: bytes
    minor: int  # the x of HTTP/1.x
    status: int  # of the response: 200, 404, 405, 501 or 503
    keep_alive: bool  # may more requests follow on this connection?
    closes: bool  # does the client announce that no more follow?
    size: int  # bytes of the head; the next request begins there


def parse(received: bytes | bytearray) -> Request | None:
    """The first request in these bytes; None if it is not complete.

    Raises BadRequest as soon as no further bytes could make it good.
    """
    try:
        return read_request(received)
    except BadRequest as error:
        line = received[:7].removeprefix(b"\r\n")
        error.to_head = line.startswith(b"HEAD ")
        raise


def read_request(received: bytes | bytearray) -> Request | None:
    """Parse a head, field by field; see parse."""
    head = HEAD.match(received, 0, MAX_HEAD)
    if head is None:
        find_fault(received)
        return None
    method, target, minor, fields = head.groups()
    if head.start(4) - head.start(1) > MAX_LINE + len(b"\r\n"):
        raise too_long(method)
    values: dict[bytes, list[bytes]] = {}
    for name, value in KNOWN_FIELD.findall(fields):
        values.setdefault(name.lower(), []).append(value.strip(b" \t"))
    check_host(values.get(b"host", []), needed=minor != b"0")
    keep_alive = minor != b"0"
    if b"connection" in values:
        tokens = b",".join(values[b"connection"]).lower().split(b",")
        wishes = {token.strip(b" \t") for token in tokens}
        keep_alive |= b"keep-alive" in wishes
        keep_alive &= b"close" not in wishes
    if minor == b"0" and b"transfer-encoding" in values:
        raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
    # We read no bodies, so what follows one cannot be understood.
    body = announces_body(values)
    return Request(
        method, target, int(minor), status_of(method, target),
        keep_alive=keep_alive and not body,
        closes=not keep_alive and not body, size=head.end(),
    )  # fmt: skip


def find_fault(received: bytes | bytearray) -> None:
    """Raise BadRequest if this cannot become the head of a request.

    Goes line by line, so that the same bytes get the same response,
    in whatever pieces they arrive.
    """
    text = bytes(received[:MAX_HEAD]).removeprefix(b"\r\n")
    *lines, rest = text.split(b"\n")
    check_request_line(lines[0] if lines else rest, bool(lines))
    for number, line in enumerate([*lines, rest][1:], 1):
        if number > MAX_FIELDS and line not in (b"", b"\r"):
            raise BadRequest(431, "too many header fields")
        complete = number < len(lines)
        good = re.fullmatch(FIELD, line + b"\n")
        if STRAY.search(line) or (complete and not good):
            raise BadRequest(400, "a header field is malformed")
    if len(received) >= MAX_HEAD:
        raise BadRequest(431, "the head is too long")


def check_request_line(line: bytes, complete: bool) -> None:
    """Raise BadRequest for a bad request line (without its LF)."""
    if STRAY.search(line, 0, MAX_LINE):
        raise BadRequest(400, "the request line is malformed")
    if len(line.removesuffix(b"\r")) > MAX_LINE:
        raise too_long(line.partition(b" ")[0])
    if complete:
        match = REQUEST_LINE.fullmatch(line)
        version = match[1] if match else b""
        if re.fullmatch(rb"HTTP/1\.[0-9]", version):
            return
        if re.fullmatch(rb"HTTP/[0-9]\.[0-9]", version):
            raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 here")
        raise BadRequest(400, "the request line is malformed")


def too_long(method: bytes) -> BadRequest:
    """The error for a request line that is too long (RFC 9112, 3)."""
    if len(method) >= MAX_LINE:
        return BadRequest(501, "the method is too long")
    return BadRequest(414, "the request line is too long")


def check_host(hosts: list[bytes], needed: bool) -> None:
    """Raise BadRequest unless there is one Host (RFC 9112, 3.2)."""
    if len(hosts) > 1 or (needed and not hosts):
        raise BadRequest(400, "exactly one Host field is needed")
    if hosts and not is_host(hosts[0]):
        raise BadRequest(400, "the Host field is malformed")


def is_host(text: bytes) -> bool:
    """Is this a host, perhaps with a port? (RFC 3986, section 3.2)"""
    match = HOST.fullmatch(text)
    if match and match[1]:
        try:
            socket.inet_pton(socket.AF_INET6, match[1].decode())
        except OSError:
            return False
    return match is not None


def announces_body(values: dict[bytes, list[bytes]]) -> bool:
    """Does a body follow the head? (RFC 9112, section 6.3)

    A proxy between the client and us must find the same end of it as
    we do: anything that can be read in two ways is an error.
    """
    lengths = set(values.get(b"content-length", []))
    if len(lengths) > 1 or not all(map(bytes.isdigit, lengths)):
        raise BadRequest(400, "Content-Length must be one number")
    sizes = [length.lstrip(b"0") for length in lengths]
    if any(len(size) > MAX_DIGITS for size in sizes):
        raise BadRequest(400, "Content-Length is too large")
    if b"transfer-encoding" not in values:
        return any(sizes)
    if lengths:
        raise BadRequest(400, "Content-Length beside Transfer-Encoding")
    check_codings(b",".join(values[b"transfer-encoding"]).lower())
    return True


def check_codings(text: bytes) -> None:
    """Raise BadRequest unless it is chunked (RFC 9112, 6.1, 6.3)."""
    codings = [part.strip(b" \t") for part in text.split(b",")]
    codings = [coding for coding in codings if coding]
    if codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
        raise BadRequest(400, "chunked must come once, and last")
    if not all(map(CODING.fullmatch, codings)):
        raise BadRequest(400, "Transfer-Encoding is malformed")
    if len(codings) > 1:
        raise BadRequest(501, "only chunked is understood here")


def status_of(method: bytes, target: bytes) -> int:
    """The status for a well-formed request (RFC 9110, 15)."""
    path = target if target == b"/" else path_of(method, target)
    if method not in (b"GET", b"HEAD"):
        return 405 if method in METHODS else 501
    if path == b"/healthz":  # may a load balancer send more clients?
        return 503 if signals_received else 200
    return 200 if path == b"/" else 404


def path_of(method: bytes, target: bytes) -> bytes:
    """The path that a request asks for (RFC 9112, section 3.2)."""
    if (method, target) == (b"OPTIONS", b"*"):
        return target
    if method == b"CONNECT" and is_host(target):
        return target
    match = TARGET.fullmatch(target)
    if not match:
        raise BadRequest(400, "the request target is malformed")
    scheme, host, path = match.groups()
    if scheme and scheme.lower() != b"http":  # RFC 9110, section 7.4
        raise BadRequest(421, "only http:// is served here")
    if scheme and (host[:1] in (b"", b":") or not is_host(host)):
        raise BadRequest(400, "the host of the target is malformed")
    return path or b"/"


def respond(request: Request, keep_alive: bool) -> bytes:
    """The response to a request: head and, except for HEAD, body."""
    return build_response(
        request.status, "", connection_field(request, keep_alive),
        request.method == b"HEAD", int(time.time()),
    )  # fmt: skip


def connection_field(request: Request, keep_alive: bool) -> str:
    """The Connection field of the response; "" for no field."""
    if not keep_alive:
        return "close"
    return "" if request.minor else "keep-alive"  # 1.0 needs it


def error_response(error: BadRequest) -> bytes:
    """The response to a request that is malformed or too slow."""
    now = int(time.time())
    return build_response(
        error.status, error.reason, "close", error.to_head, now
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def build_response(
    status: int,
    reason: str,
    connection: str,
    without_body: bool,
    now: int,
) -> bytes:
    """One response as bytes, the same for a whole second."""
    phrase = HTTPStatus(status).phrase
    title = f"{status} {phrase}"
    body = PAGE
    if status != 200:
        body = f"<!doctype html>\n<title>{title}</title>\n<p>{title}"
        body += f": {reason}\n" if reason else "\n"
        helps = "may" if status in (408, 503) else "will not"
        body += f"<p>Trying again {helps} help.\n"
    head = [
        f"HTTP/1.1 {title}",
        f"Date: {formatdate(now, usegmt=True)}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
    ]
    if status == 405:
        head.append("Allow: GET, HEAD")
    if connection:
        head.append(f"Connection: {connection}")
    text = "\r\n".join(head) + "\r\n\r\n"
    return (text if without_body else text + body).encode()


# === Command line ===================================================

TICK = 0.5  # seconds between two looks at whether to shut down
GRACE_SECONDS = 5  # for requests in progress at the shutdown
BACKLOG = 4096  # connections the kernel may hold for accept

# A signal makes health checks fail, and after --lame-duck seconds the
# server begins to shut down. Lists, since both are seen by all threads.
signals_received: list[int] = []
shutting_down: list[int] = []
totals = {"requests": 0, "connections": 0}
totals_lock = threading.Lock()  # for the steps that have threads


def count(requests: int = 0, connections: int = 0) -> None:
    """Add to the totals of the closing line."""
    with totals_lock:
        totals["requests"] += requests
        totals["connections"] += connections


def compute(steps: int) -> None:
    """Keep the processor busy, as rendering a template would."""
    for _ in range(steps):
        pass


def announce(listener: socket.socket) -> None:
    """Print that from now on clients can connect."""
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    print_line(f"Serving on http://{host}:{port}/ (Ctrl-C to stop)")


def print_line(line: str) -> None:
    """Print a line, unless that is impossible or would block."""
    try:
        # A full pipe would block us in write.
        if os.name == "nt" or select.select([], [1], [], 0)[1]:
            os.write(1, f"{line}\n".encode())
    except (OSError, ValueError):  # closed, or its disk is full
        pass


def closing_line() -> str:
    """What was done, and what it cost this process and its children."""
    spent = os.times()
    user = spent.user + spent.children_user
    system = spent.system + spent.children_system
    return (
        f"Answered {totals['requests']} requests on "
        f"{totals['connections']} connections; CPU {user:.2f} s user, "
        f"{system:.2f} s system; {peak_memory()}"
    )


def peak_memory() -> str:
    """The most memory that this process or a child has used."""
    if resource is None:  # Windows
        return "peak memory unknown"
    unit = 2**20 if sys.platform == "darwin" else 2**10
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    peak = max(own_peak() or own, children) / unit
    return f"peak memory {peak:.1f} MiB"


def own_peak() -> int:
    """Peak memory of this process in KiB; 0 where there is no /proc.

    On Linux, ru_maxrss is at least that of the process it came from.
    """
    try:
        with open("/proc/self/status") as status:
            return int(status.read().partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 0


def exit_now(status: int) -> NoReturn:
    """Print the closing line and exit, whatever is in progress."""
    print_line(closing_line())
    os._exit(status)


def call_later(seconds: float, function: Callable[[], None]) -> None:
    """Call a function in the main thread, or in a timer's thread."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda number, frame: function())
        signal.setitimer(signal.ITIMER_REAL, seconds)
    else:  # Windows
        timer = threading.Timer(seconds, function)
        timer.daemon = True
        timer.start()


def between(
    low: float, high: float, kind: Callable[[str], float] = int
) -> Callable[[str], float]:
    """A check for argparse: a number from low to high."""

    def check(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise ArgumentTypeError(
                f"{text!r} is not a number from {low} to {high}"
            )
        return value

    return check


class Parser(ArgumentParser):
    """An argument parser that complains in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2, for wrong usage."""
        self.exit(2, f"{self.prog}: {message} (--help explains)\n")


def main(
    serve: Callable[[socket.socket, Namespace], None],
    wake: Callable[[], None] = lambda: None,
    add_options: Callable[[Parser], None] = lambda parser: None,
) -> None:
    """Read the command line, listen, serve until a signal arrives.

    wake is called when the shutdown begins, to end long waits;
    add_options may add to the command line.
    """
    parser = Parser(
        description=sys.modules["__main__"].__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address (%(default)s)"
    )
    parser.add_argument(
        "--port", type=between(0, 65535), default=8000,
        help="port; 0 takes a free one (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--delay", type=between(0, 3600, float), default=0.1,
        help="seconds each request waits (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--compute", type=between(0, 10**9), default=0,
        help="loop steps each request computes (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--lame-duck", type=between(0, 60, float), default=0,
        help="seconds /healthz fails before it stops (%(default)s)",
    )  # fmt: skip
    add_options(parser)
    options = parser.parse_args()

    def on_signal(number: int, frame: object) -> None:
        if signals_received:  # the second one stops at once
            exit_now(128 + number)
        signals_received.append(number)
        if options.lame_duck:
            # A load balancer sends clients until a check has failed.
            call_later(options.lame_duck, shut_down)
        else:
            shut_down()

    def shut_down() -> None:
        shutting_down.extend(signals_received)
        call_later(GRACE_SECONDS, lambda: exit_now(0))
        wake()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    address = (options.host, options.port)
    try:
        # Sets SO_REUSEADDR: we can start again on this port at once.
        listener = socket.create_server(
            address, family=family, backlog=BACKLOG
        )
    except (OSError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error)
        why = why.partition(" (")[0]
        sys.exit(f"cannot listen on {address[0]}:{address[1]}: {why}")
    serve(listener, options)
    exit_now(0)
