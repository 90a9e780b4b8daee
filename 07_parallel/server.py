"""Step 07: completions, a process on every core.

Two new ideas. A worker no longer asks who is ready and then makes the
call; it says what it wants done, goes on, and is told what has become
of it: that is a completion, and the engine (emulated.py) makes them.
And there are as many workers as there are cores, each a process with a
listening socket of its own: the kernel deals out the clients.

Run it:     python3 07_parallel/server.py --workers 2
Try this:   ab -n 2000 -c 20 http://127.0.0.1:8000/ with --delay 0
            --compute 100000, then with --workers 1
Goes wrong: processes share nothing: a counter or a cache for all of
            them needs a database, or threads without a GIL.
"""

from __future__ import annotations

import functools
import math
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections import defaultdict
from collections.abc import Callable
from email.utils import formatdate
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple, NoReturn

from emulated import RECEIVED, SENT, Completion, Engine

HEAD_SECONDS = 10.0  # for a client to send its whole head
IDLE_SECONDS = 5.0  # for a client to begin another request
SEND_SECONDS = 10.0  # for a client to take our answer
LINGER_SECONDS = 1.0  # for a client to close after our answer
CLOCK = -1  # not a socket: the sleep that lets a worker look around
STARTED, STOP = b"started", b"stop"  # said between worker and parent


class State(Enum):
    """What a connection is doing."""

    READING = "reading"  # waits for the rest of a request
    WORKING = "working"  # has a request that is not answered yet
    SENDING = "sending"  # the client has not taken all of our answer
    DRAINING = "draining"  # our side is ended, the client's not yet
    CLOSING = "closing"  # waits for what is under way to end


class Connection:
    """One client: how far it has come, and what is under way."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.state = State.READING
        self.under_way = 0  # operations the engine has not completed
        self.receiving = False  # is one of them a receive?
        self.received = b""  # what came and is not answered yet
        self.ended = False  # has the client ended its side?
        self.request: Request | None = None  # being worked on
        self.last = False  # is the answer under way the last one?
        self.deadline = time.monotonic() + HEAD_SECONDS


class Worker:
    """Serves its share of the clients: one process, one engine."""

    def __init__(
        self,
        listener: socket.socket,
        parent: socket.socket,
        options: Namespace,
    ) -> None:
        self.options = options
        self.parent = parent
        self.engine = Engine()
        self.listener = listener.fileno()
        self.engine.adopt(listener)
        self.engine.adopt(parent)
        self.connections: dict[int, Connection] = {}
        self.accepting = False
        self.leaving = False
        self.leave_until = math.inf

    def run(self) -> None:
        """Serve until the parent says stop and nobody is left."""
        engine = self.engine
        self.accept_more()
        engine.receive(self.parent.fileno())
        engine.sleep(CLOCK, TICK)
        self.parent.send(STARTED)
        while self.connections or not self.leaving:
            batch = engine.wait()
            now = time.monotonic()
            tick = False
            for completion in batch:
                if completion.fd == CLOCK:
                    tick = True
                elif completion.fd == self.listener:
                    self.accepted(completion)
                elif completion.fd == self.parent.fileno():
                    self.told(completion.data)
                else:
                    self.go_on(completion)
            if tick:
                engine.sleep(CLOCK, TICK)
                self.look_around(now)
            if now > self.leave_until:
                break

    def accept_more(self) -> None:
        """Begin to accept, or begin again."""
        self.engine.accept(self.listener)
        self.accepting = True

    def accepted(self, completion: Completion) -> None:
        """There is a new connection, or accepting has failed."""
        self.accepting = completion.again
        if completion.result >= 0:
            connection = Connection(completion.result)
            self.connections[connection.fd] = connection
            self.receive(connection)
            count(connections=1)

    def told(self, data: bytes) -> None:
        """The parent says stop; without a word it has died."""
        if data != STOP:
            os._exit(1)
        self.leaving = True
        self.leave_until = time.monotonic() + GRACE_SECONDS - TICK
        self.engine.cancel(self.listener)
        self.engine.receive(self.parent.fileno())

    def go_on(self, completion: Completion) -> None:
        """Something that was under way for a connection has ended."""
        connection = self.connections[completion.fd]
        if not completion.again:
            connection.under_way -= 1
        if connection.state is State.CLOSING:
            self.close(connection)
        elif completion.kind == RECEIVED:
            self.received(connection, completion)
        elif completion.kind == SENT:
            self.sent(connection, completion.result)
        else:
            self.worked(connection)

    def receive(self, connection: Connection) -> None:
        """Ask for what the client sends next."""
        if not connection.receiving:
            connection.receiving = True
            connection.under_way += 1
            self.engine.receive(connection.fd)

    def received(
        self, connection: Connection, completion: Completion
    ) -> None:
        """The client has sent something, has ended or is gone."""
        connection.receiving = completion.again
        if completion.result <= 0:
            connection.ended = True
        if connection.state is State.READING:
            if completion.data and not connection.received:
                # The head begins.
                connection.deadline = time.monotonic() + HEAD_SECONDS
            connection.received += completion.data
            self.next_request(connection)
        elif connection.state is State.DRAINING:
            if connection.ended:
                self.close(connection)
            else:
                self.receive(connection)

    def next_request(self, connection: Connection) -> None:
        """Begin to answer the next request if all of it is here."""
        try:
            request = parse(connection.received)
        except BadRequest as error:
            self.answer(connection, refuse(error), last=True)
            return
        if request is not None:
            connection.received = connection.received[request.size :]
            self.work(connection, request)
        elif connection.ended:
            self.close(connection)
        else:
            connection.state = State.READING
            self.receive(connection)

    def work(self, connection: Connection, request: Request) -> None:
        """Begin the request's work: the worker does not wait."""
        connection.state = State.WORKING
        connection.request = request
        if request.status != 200:
            self.respond(connection, request)
        elif not self.options.delay:
            self.finish_work(connection, request)
        else:
            connection.under_way += 1
            self.engine.sleep(connection.fd, self.options.delay)

    def worked(self, connection: Connection) -> None:
        """The wait is over."""
        assert connection.request is not None
        self.finish_work(connection, connection.request)

    def finish_work(
        self, connection: Connection, request: Request
    ) -> None:
        """Compute, which does hold up this worker, and answer."""
        compute(self.options.compute)
        self.respond(connection, request)

    def respond(self, connection: Connection, request: Request) -> None:
        """Answer a request whose work is done."""
        keep_alive = request.keep_alive and not self.leaving
        answer = respond(request, keep_alive)
        self.answer(connection, answer, last=not keep_alive)

    def answer(
        self, connection: Connection, answer: bytes, last: bool
    ) -> None:
        """Ask the engine to send all of it."""
        connection.state = State.SENDING
        connection.last = last
        connection.deadline = time.monotonic() + SEND_SECONDS
        connection.under_way += 1
        self.engine.send(connection.fd, answer)

    def sent(self, connection: Connection, result: int) -> None:
        """The kernel has all of the answer: what is next?"""
        if result < 0:
            self.close(connection)
            return
        count(requests=1)
        if connection.last:
            self.hang_up(connection)
            return
        patience = HEAD_SECONDS if connection.received else IDLE_SECONDS
        connection.deadline = time.monotonic() + patience
        self.next_request(connection)

    def hang_up(self, connection: Connection) -> None:
        """End our side, and read until the client ends its own.

        Closing with unread bytes makes the kernel send a reset, which
        can destroy our answer on its way (RFC 9112, section 9.6).
        """
        if connection.ended:
            self.close(connection)
            return
        connection.state = State.DRAINING
        connection.deadline = time.monotonic() + LINGER_SECONDS
        self.engine.shutdown(connection.fd)
        self.receive(connection)

    def close(self, connection: Connection) -> None:
        """Close as soon as nothing is under way any more.

        Before that the descriptor must not be free for a new client:
        it would get the completions meant for the old one.
        """
        if connection.under_way:
            if connection.state is not State.CLOSING:
                connection.state = State.CLOSING
                self.engine.cancel(connection.fd)
            return
        self.engine.close(connection.fd)
        del self.connections[connection.fd]

    def look_around(self, now: float) -> None:
        """Twice a second: is anybody too slow? Accept again?"""
        if not self.accepting and not self.leaving:
            self.accept_more()
        for connection in list(self.connections.values()):
            if connection.state in (State.WORKING, State.CLOSING):
                continue
            reading = connection.state is State.READING
            if reading and self.leaving:
                self.close(connection)
            elif connection.deadline <= now:
                if reading and connection.received:
                    error = BadRequest(408, "too slow")
                    self.answer(connection, refuse(error), last=True)
                else:
                    self.close(connection)


class Process(NamedTuple):
    """A worker as its parent sees it."""

    pid: int
    line: socket.socket  # to talk to it; ends when one of us dies
    listener: socket.socket


listeners: list[socket.socket] = []
processes: list[Process] = []


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start the workers, replace those that die, stop them all."""
    listeners.extend(open_listeners(listener, options.workers))
    for each in listeners:
        processes.append(start_worker(each, options))
    announce(listeners[0])
    while not stopping():
        replace_dead(options)
        time.sleep(TICK)
    for each in listeners:
        each.close()
    for process in processes:
        say_stop(process)
    for process in processes:
        collect(process)


def open_listeners(
    listener: socket.socket, number: int
) -> list[socket.socket]:
    """As many listening sockets on one port as there are workers.

    With SO_REUSEPORT each has its own accept queue and Linux spreads
    the connections over them. Elsewhere the workers share one queue.
    They belong to the parent: while a dead worker is replaced, its
    clients wait in the queue and are not lost.
    """
    if sys.platform != "linux" or number == 1:
        return [listener] * number
    address, family = listener.getsockname(), listener.family
    listener.close()
    return [
        socket.create_server(
            address, family=family, backlog=BACKLOG, reuse_port=True
        )
        for _ in range(number)
    ]


def start_worker(
    listener: socket.socket, options: Namespace
) -> Process:
    """Fork: the child serves, the parent returns when it is ready."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        run_worker(listener, theirs, options)
    theirs.close()
    if ours.recv(len(STARTED)) != STARTED:
        os.write(2, b"a worker could not start\n")
        os._exit(1)
    return Process(pid, ours, listener)


def run_worker(
    listener: socket.socket, parent: socket.socket, options: Namespace
) -> NoReturn:
    """In the child: serve, then tell the parent how much was done."""
    status = 1
    try:
        # Ctrl-C goes to all of us, but it is the parent who says stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # The fork has copied what belongs to the others.
        for process in processes:
            process.line.close()
        for each in listeners:
            if each is not listener:
                each.close()
        totals.update(requests=0, connections=0)
        Worker(listener, parent, options).run()
        parent.setblocking(True)
        parent.send(
            "{requests} {connections}".format(**totals).encode()
        )
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def replace_dead(options: Namespace) -> None:
    """Start a new worker for each that has died."""
    for index, process in enumerate(processes):
        pid, _ = os.waitpid(process.pid, os.WNOHANG)
        if pid:
            process.line.close()
            processes[index] = start_worker(process.listener, options)


def say_stop(process: Process) -> None:
    """Ask a worker to finish what is under way."""
    try:
        process.line.send(STOP)
    except OSError:  # it has died: nothing to stop
        pass


def collect(process: Process) -> None:
    """Wait for the end of a worker and add up what it has done."""
    done = process.line.recv(100).split()
    if len(done) == 2:
        count(requests=int(done[0]), connections=int(done[1]))
    os.waitpid(process.pid, 0)


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def add_options(parser: Parser) -> None:
    """Let the command line choose the number of workers."""
    parser.add_argument(
        "--workers",
        type=between(1, 512),
        default=usable_cores(),
        help="processes; by default one for each core (%(default)s)",
    )


# === HTTP, the same in every step ===================================
# Bytes in, bytes out: nothing here waits, reads or writes. The rules
# are those of RFC 9110 (what a request means) and RFC 9112 (how it is
# written down).

MAX_LINE = 8 * 1024  # bytes of the request line; more is a 414
MAX_HEAD = 16 * 1024  # bytes of the whole head; more is a 431
MAX_FIELDS = 100  # header fields; more is a 431

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
HOST = re.compile(rb"[-.:~%!$&'()*+,;=\[\]\w]*", re.ASCII)
ROOT = re.compile(rb"(?:/|(?i:https?)://[^/?#]+/?)(?:\?[^#]*)?")
METHODS = set(
    b"GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE".split()
)


class BadRequest(Exception):
    """A request we refuse: with what status, and for what reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


class Request(NamedTuple):
    """One request, as far as it matters for the answer."""

    method: bytes
    target: bytes
    minor: int  # the x of HTTP/1.x
    status: int  # of the answer: 200, 404, 405 or 501
    keep_alive: bool  # may more requests follow on this connection?
    size: int  # bytes of the head; the next request begins there


def parse(received: bytes | bytearray) -> Request | None:
    """The first request in these bytes; None if it is not complete.

    Raises BadRequest as soon as no further bytes could make it good.
    """
    head = HEAD.match(received, 0, MAX_HEAD)
    if head is None:
        find_fault(received)
        return None
    if head.start(4) - head.start(1) > MAX_LINE + len(b"\r\n"):
        raise BadRequest(414, "the request line is too long")
    method, target, minor, fields = head.groups()
    values = defaultdict(list)
    for name, value in KNOWN_FIELD.findall(fields):
        values[name.lower()].append(value.strip(b" \t"))
    check_host(values[b"host"], needed=minor != b"0")
    body = announces_body(
        values[b"content-length"], values[b"transfer-encoding"]
    )
    words = b",".join(values[b"connection"]).lower().split(b",")
    wishes = {word.strip(b" \t") for word in words}
    stays = minor != b"0" or b"keep-alive" in wishes
    return Request(
        method=method,
        target=target,
        minor=int(minor),
        status=status_of(method, target),
        # We read no bodies, so what follows one cannot be understood.
        keep_alive=stays and b"close" not in wishes and not body,
        size=head.end(),
    )


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
    if hosts and not HOST.fullmatch(hosts[0]):
        raise BadRequest(400, "the Host field is malformed")


def announces_body(lengths: list[bytes], codings: list[bytes]) -> bool:
    """Does a body follow the head? (RFC 9112, section 6.3)"""
    if len(set(lengths)) > 1 or not all(map(bytes.isdigit, lengths)):
        raise BadRequest(400, "Content-Length must be one number")
    if lengths and codings:
        raise BadRequest(400, "Content-Length beside Transfer-Encoding")
    return bool(codings) or any(n.strip(b"0") for n in lengths)


def status_of(method: bytes, target: bytes) -> int:
    """Which answer a well-formed request gets (RFC 9110, 15)."""
    if method not in METHODS:
        return 501
    if method not in (b"GET", b"HEAD"):
        return 405
    if ROOT.fullmatch(target):
        return 200
    if target.startswith(b"/") or b"://" in target:
        return 404
    raise BadRequest(400, "the request target is malformed")


def respond(request: Request, keep_alive: bool) -> bytes:
    """The answer to a request: head and, but for HEAD, body."""
    connection = "" if keep_alive else "close"
    if keep_alive and request.minor == 0:
        connection = "keep-alive"  # HTTP/1.0 has to be told
    without_body = request.method == b"HEAD"
    now = int(time.time())
    return write_answer(
        request.status, "", connection, without_body, now
    )


def refuse(error: BadRequest) -> bytes:
    """The answer to a request that is not one."""
    now = int(time.time())
    return write_answer(error.status, error.reason, "close", False, now)


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

signals: list[int] = []  # that asked us to stop, so far
totals = {"requests": 0, "connections": 0}
totals_lock = threading.Lock()  # for the steps that have threads


def stopping() -> bool:
    """Has someone asked us to stop?"""
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

    wake is called on the first signal, to end long waits; add_options
    may add to the command line.
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
    add_options(parser)
    options = parser.parse_args()

    def on_signal(number: int, frame: object) -> None:
        if signals or number == signal.SIGALRM:  # again, or too late
            stop_now(0 if number == signal.SIGALRM else 128 + number)
        signals.append(number)
        signal.alarm(GRACE_SECONDS)
        wake()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
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
    stop_now(0)


if __name__ == "__main__":
    main(serve, add_options=add_options)
