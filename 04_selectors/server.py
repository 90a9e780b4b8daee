"""Step 04: one thread for many sockets.

Instead of one call that waits for one client, one call waits for all of
them: the selector tells which sockets are *ready*, and only those are
read or written, without ever blocking. What a thread kept on its stack
in step 03, how far a client has come, is now an object.

Run it:     python3 04_selectors/server.py
Try this:   nc 127.0.0.1 8000 (and type nothing), then curl beside it
Goes wrong: a silent client holds up nobody any more, but time.sleep
            still stops the only thread we have: everybody waits for
            each request's work. Step 05 waits for that as well.
"""

from __future__ import annotations

import functools
import math
import os
import re
import resource
import selectors
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


def serve(listener: socket.socket, options: Namespace) -> None:
    """Ask which sockets are ready, go on there, ask again."""
    clients = Clients(listener)
    announce(listener)
    while clients.here or not clients.leaving:
        clients.leaving = stopping()
        ready = clients.selector.select(TICK)
        now = clock()
        for key, _ in ready:
            if key.data is None:
                clients.accept()
            else:
                go_on(key.data, clients, options)
        for client in clients.late(now):
            go_on(client, clients, options)


def go_on(client: Client, clients: Clients, options: Namespace) -> None:
    """Do for this client what can be done without waiting."""
    connection, sock = client.connection, client.sock
    try:
        if connection.next in (READ, DRAIN):
            connection.came(sock.recv(RECV_SIZE))
        if connection.next is WORK:
            if options.delay:
                time.sleep(options.delay)  # blocks: everybody waits
            compute(options.compute)
            connection.worked()
        if connection.next is SEND:
            connection.sent(sock.send(connection.unsent))
            if connection.next is DRAIN:
                sock.shutdown(socket.SHUT_WR)
    except BlockingIOError:  # not ready: the selector will tell
        pass
    except OSError:  # the client is gone
        connection.wait_for(CLOSE)
    if connection.next is CLOSE:
        clients.close(client)
    elif connection.next in (READ, DRAIN):
        clients.watch(client, READABLE)
    else:
        clients.watch(client, WRITABLE)
        if connection.next is WORK:  # pipelined: others have a turn
            connection.wait_for(WORK, SEND_SECONDS)


# === Clients of the loop, the same in steps 04 and 05 ===============

READABLE, WRITABLE = selectors.EVENT_READ, selectors.EVENT_WRITE
NOTHING = 0


class Client:
    """A connection with its socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.connection = Connection()
        self.watched = NOTHING  # events the selector looks out for


class Clients:
    """Everybody who is connected, and what the selector watches."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.here: set[Client] = set()
        self.accepting = False
        self.leaving = False
        self.next_look = 0.0
        self.late(clock())

    def watch(self, client: Client, events: int) -> None:
        """Let the selector look out for these events, or for none."""
        if client.watched == events:
            return
        if not events:
            self.selector.unregister(client.sock)
        elif client.watched:
            self.selector.modify(client.sock, events, client)
        else:
            self.selector.register(client.sock, events, client)
        client.watched = events

    def accept(self) -> None:
        """Empty the accept queue."""
        while True:
            try:
                sock, _ = self.listener.accept()
            except (BlockingIOError, ConnectionError):
                return  # nobody is there, or has left again
            except OSError:  # out of descriptors: late() goes on
                self.pause_accepting()
                return
            sock.setblocking(False)
            client = Client(sock)
            self.here.add(client)
            self.watch(client, READABLE)
            count(connections=1)

    def pause_accepting(self) -> None:
        """Leave new connections in the accept queue for now."""
        if self.accepting:
            self.selector.unregister(self.listener)
            self.accepting = False

    def refuse(self) -> None:
        """Accept who is in the queue already, and refuse all others."""
        if self.accepting:
            self.accept()
        self.pause_accepting()
        self.listener.close()

    def close(self, client: Client) -> None:
        """Forget this client; unregister first, then close."""
        self.watch(client, NOTHING)
        client.sock.close()
        self.here.discard(client)

    def late(self, now: float) -> list[Client]:
        """Twice a second: whose time is up? Do we still accept?

        now is when the selector last looked: whoever was not ready
        then is late; whoever became ready since then is not. That is
        looked at again: what a client sent would be lost with it.
        """
        if now < self.next_look:
            return []
        self.next_look = now + TICK
        if self.leaving:
            self.refuse()
        elif not self.accepting:
            self.selector.register(self.listener, READABLE)
            self.accepting = True
        found = []
        ready = {key.data for key, _ in self.selector.select(0)}
        for client in self.here - ready:
            if self.leaving:
                client.connection.hurry()
            if client.connection.deadline <= now:
                client.connection.late()
                found.append(client)
        return found


# === Connection, the same in every step =============================
# The life of one connection, without its socket: what comes next, until
# when, and what to send. Each step waits for that in its own way, and
# says what has happened: bytes came, the work is done, so many bytes
# were taken, time is up.

HEAD_SECONDS = 10.0  # for a client to send its whole head
IDLE_SECONDS = 5.0  # for a client to begin another request
SEND_SECONDS = 10.0  # for a client to take some of our answer
LINGER_SECONDS = 1.0  # for a client to close after our last answer
RECV_SIZE = 16 * 1024  # bytes to ask the kernel for at a time

clock = time.monotonic  # all time comes from here: tests set their own


class Next(Enum):
    """What comes next on a connection."""

    READ = "read"  # the client sends a request, or the rest of it
    WORK = "work"  # we do what the request asks for
    SEND = "send"  # the client takes our answer
    DRAIN = "drain"  # we have ended our side, the client ends its own
    CLOSE = "close"  # nothing: forget this client


READ, WORK, SEND, DRAIN, CLOSE = Next


class Connection:
    """One client: how far it has come, and until when we wait."""

    def __init__(self, keep: bool = True) -> None:
        self.keep = keep  # may it stay open for another request?
        self.received = b""  # what came and is not answered yet
        self.ended = False  # has the client ended its side?
        self.request: Request | None = None  # the one under way
        self.unsent = b""  # what is left of our answer
        self.last = False  # is it the last answer?
        self.wait_for(READ, HEAD_SECONDS)

    def wait_for(self, what: Next, seconds: float = math.inf) -> None:
        """This comes next, and we wait so long for it."""
        self.next = what
        self.deadline = clock() + seconds
        if stopping():
            self.hurry()

    def patience(self) -> float:
        """Seconds that are left. Raises TimeoutError if none is."""
        left = self.deadline - clock()
        if left <= 0:
            raise TimeoutError
        return left

    def came(self, data: bytes) -> None:
        """The client has sent this; nothing: it has ended its side."""
        if not data:
            self.ended = True
        if self.next is READ:
            begins = not self.received
            self.received += data
            self.look(begins)
        elif self.next is not DRAIN:  # it comes before its turn
            self.received += data
        elif self.ended:
            self.wait_for(CLOSE)

    def look(self, begins: bool) -> None:
        """Begin with the next request if all of its head is here.

        begins: its first bytes are new, so its time begins now.
        """
        try:
            self.request = parse(self.received)
        except BadRequest as error:
            self.answer(refuse(error), last=True)
            return
        if self.request is None:  # TCP is a stream: wait for the rest
            if self.ended:
                self.wait_for(CLOSE)
            elif begins:
                self.wait_for(READ, HEAD_SECONDS)
            return
        self.received = self.received[self.request.size :]
        if self.request.status == 200:
            self.wait_for(WORK)
        else:  # an error takes no work
            self.worked()

    def worked(self) -> None:
        """The work for the request is done."""
        assert self.request
        keep = self.keep and self.request.keep_alive and not stopping()
        self.answer(respond(self.request, keep), last=not keep)

    def answer(self, answer: bytes, last: bool) -> None:
        """Begin to send an answer."""
        self.unsent, self.last = answer, last
        self.wait_for(SEND, SEND_SECONDS)

    def sent(self, size: int) -> None:
        """The kernel has taken so many bytes of our answer."""
        self.unsent = self.unsent[size:]
        if self.unsent:
            self.wait_for(SEND, SEND_SECONDS)
            return
        count(requests=1)
        if self.last:
            # Closing with unread bytes makes the kernel send a reset,
            # which can destroy our answer (RFC 9112, section 9.6). So
            # we end our side only, and read on for a moment.
            after = CLOSE if self.ended else DRAIN
            self.wait_for(after, LINGER_SECONDS)
        elif self.received or self.ended:  # the next one is here
            self.look(begins=True)
        else:
            self.wait_for(READ, IDLE_SECONDS)

    def hurry(self) -> None:
        """We have been asked to stop: a request has to come soon."""
        if self.next is READ:
            self.deadline = min(self.deadline, clock() + TICK)

    def late(self) -> None:
        """What comes next has not come in time."""
        if self.next is READ and self.received:
            self.answer(refuse(BadRequest(408, "too slow")), last=True)
        else:
            self.wait_for(CLOSE)


# === HTTP, the same in every step ===================================
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
# (++ and *+ never go back to try less: quick, whatever comes.)
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
    """A request we refuse: with what status, and for what reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.to_head = False  # was it a HEAD? Then no body is sent


class Request(NamedTuple):
    """One request, as far as it matters for the answer."""

    method: bytes
    target: bytes
    minor: int  # the x of HTTP/1.x
    status: int  # of the answer: 200, 404, 405, 501 or 503
    keep_alive: bool  # may more requests follow on this connection?
    closes: bool  # has the client said that nothing follows this one?
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
    """What parse says, field by field."""
    head = HEAD.match(received, 0, MAX_HEAD)
    if head is None:
        find_fault(received)
        return None
    if head.start(4) - head.start(1) > MAX_LINE + len(b"\r\n"):
        raise BadRequest(414, "the request line is too long")
    method, target, minor, fields = head.groups()
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

    Goes line by line, so that the same bytes get the same answer, in
    whatever pieces they come.
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
        raise BadRequest(414, "the request line is too long")
    if complete:
        match = REQUEST_LINE.fullmatch(line)
        version = match[1] if match else b""
        if re.fullmatch(rb"HTTP/1\.[0-9]", version):
            return
        if re.fullmatch(rb"HTTP/[0-9]+(\.[0-9]+)?", version):
            raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 here")
        raise BadRequest(400, "the request line is malformed")


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

    Whoever stands between the client and us must find the same end of
    it as we do: what can be read in two ways is refused.
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
    """Raise BadRequest unless it says chunked (RFC 9112, 6.1, 6.3)."""
    codings = [part.strip(b" \t") for part in text.split(b",")]
    codings = [coding for coding in codings if coding]
    if codings.count(b"chunked") != 1 or codings[-1] != b"chunked":
        raise BadRequest(400, "chunked must come once, and last")
    if not all(map(CODING.fullmatch, codings)):
        raise BadRequest(400, "Transfer-Encoding is malformed")
    if len(codings) > 1:
        raise BadRequest(501, "only chunked is understood here")


def status_of(method: bytes, target: bytes) -> int:
    """Which answer a well-formed request gets (RFC 9110, 15)."""
    path = target if target == b"/" else path_of(method, target)
    if method not in (b"GET", b"HEAD"):
        return 405 if method in METHODS else 501
    if path == b"/healthz":  # may a balancer send us more clients?
        return 503 if asked else 200
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
    """The answer to a request: head and, but for HEAD, body."""
    return write_answer(
        request.status, "", connection_field(request, keep_alive),
        request.method == b"HEAD", int(time.time()),
    )  # fmt: skip


def connection_field(request: Request, keep_alive: bool) -> str:
    """What the answer says of the connection; "": it says nothing."""
    if not keep_alive:
        return "close"
    return "" if request.minor else "keep-alive"  # 1.0 has to be told


def refuse(error: BadRequest) -> bytes:
    """The answer to a request that is not one."""
    now = int(time.time())
    return write_answer(
        error.status, error.reason, "close", error.to_head, now
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def write_answer(
    status: int,
    reason: str,
    connection: str,
    without_body: bool,
    now: int,
) -> bytes:
    """One answer as bytes, the same for all requests of one second."""
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


# === Command line, the same in every step ===========================

TICK = 0.5  # seconds until a wait ends to look whether we should stop
GRACE_SECONDS = 5  # for requests under way when we are asked to stop
BACKLOG = 4096  # connections the kernel may hold for accept

asked: list[int] = []  # signals so far; then health checks fail
signals: list[int] = []  # those that made us begin to stop
totals = {"requests": 0, "connections": 0}
totals_lock = threading.Lock()  # for the steps that have threads


def stopping() -> bool:
    """Have we begun to stop?"""
    return bool(signals)


def count(requests: int = 0, connections: int = 0) -> None:
    """Add to the totals of the closing line."""
    with totals_lock:
        totals["requests"] += requests
        totals["connections"] += connections


def compute(steps: int) -> None:
    """Keep the processor busy, as a template would."""
    for _ in range(steps):
        pass


def announce(listener: socket.socket) -> None:
    """Say that from now on clients are welcome."""
    host, port = listener.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    url = f"http://{host}:{port}/"
    print(f"Serving on {url} (Ctrl-C to stop)", flush=True)


def closing_line() -> str:
    """What was done, and what it cost this process and its children."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = own.ru_utime + children.ru_utime
    system = own.ru_stime + children.ru_stime
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = max(own_peak() or own.ru_maxrss, children.ru_maxrss) / unit
    return (
        f"Answered {totals['requests']} requests on "
        f"{totals['connections']} connections; CPU {user:.2f} s user, "
        f"{system:.2f} s system; peak memory {peak:.1f} MiB\n"
    )


def own_peak() -> int:
    """Peak memory of this process in KiB; 0 where there is no /proc.

    Linux's ru_maxrss is no less than that of whoever started us.
    """
    try:
        with open("/proc/self/status") as status:
            return int(status.read().partition("VmHWM:")[2].split()[0])
    except (OSError, IndexError):
        return 0


def stop_now(status: int) -> NoReturn:
    """Say goodbye and end, whatever is still under way."""
    try:
        os.write(1, closing_line().encode())
    except OSError:  # nobody reads our output any more
        pass
    os._exit(status)


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
        """End with status 2, for wrong usage."""
        self.exit(2, f"{self.prog}: {message} (--help explains)\n")


def main(
    serve: Callable[[socket.socket, Namespace], None],
    wake: Callable[[], None] = lambda: None,
    add_options: Callable[[Parser], None] = lambda parser: None,
) -> None:
    """Read the command line, listen, serve until a signal comes.

    wake is called when we begin to stop, to end long waits;
    add_options may add to the command line.
    """
    parser = Parser(
        description=__doc__,
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
        if asked:  # again
            stop_now(128 + number)
        asked.append(number)
        if options.lame_duck:
            # A balancer sends us clients until a check tells it.
            signal.setitimer(signal.ITIMER_REAL, options.lame_duck)
        else:
            on_alarm(number, frame)

    def on_alarm(number: int, frame: object) -> None:
        if signals:  # too late
            stop_now(0)
        signals.append(number)
        signal.alarm(GRACE_SECONDS)
        wake()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    signal.signal(signal.SIGALRM, on_alarm)
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
    stop_now(0)


if __name__ == "__main__":
    main(serve)
