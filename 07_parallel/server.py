"""Step 07: completions, a worker on every core.

Two new ideas. A worker no longer asks who is ready and then makes the
call; it says what it wants done, goes on, and is told what has become
of it: that is a completion. An engine makes them: io_uring (uring.py),
where the kernel lets us, or a selector (emulated.py) elsewhere. And
there are as many workers as there are cores, each with an engine and a
listening socket of its own: the kernel deals out the clients.

Run it:     python3 07_parallel/server.py --workers 2
Try this:   ab -n 2000 -c 20 http://127.0.0.1:8000/ with --delay 0
            --compute 100000, then with --workers 1
            --directory site serves files instead of the small page
Goes wrong: processes share nothing: a counter or a cache for all of
            them needs a database, or threads without a GIL.
"""

from __future__ import annotations

import errno
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
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple, NoReturn

import emulated
import uring
from emulated import ACCEPTED, RECEIVED, SENT
from files import PART, Files, Transfer

HEAD_SECONDS = 10.0  # for a client to send its whole head
IDLE_SECONDS = 5.0  # for a client to begin another request
SEND_SECONDS = 10.0  # for a client to take our answer
LINGER_SECONDS = 1.0  # for a client to close after our answer
SHORT_HEAD = 1024  # bytes: such a head is worth remembering
MANY_PIECES = 8  # received ahead of our answers: then receive no more
CLOCK = -1  # not a socket: the sleep that lets a worker look around
STARTED, STOP = b"started", b"stop"  # said between worker and parent


class State(Enum):
    """What a connection is doing."""

    READING = "reading"  # waits for the rest of a request
    WORKING = "working"  # has a request that is not answered yet
    SENDING = "sending"  # the client has not taken all of our answer
    DRAINING = "draining"  # our side is ended, the client's not yet
    CLOSING = "closing"  # waits for what is under way to end


READING, WORKING, SENDING, DRAINING, CLOSING = State


@dataclass(slots=True, eq=False)
class Connection:
    """One client: how far it has come, and what is under way."""

    fd: int
    deadline: float  # then we lose patience
    state: State = READING
    under_way: int = 0  # operations the engine has not completed
    receiving: bool = False  # is one of them a receive?
    received: bytes = b""  # what came and is not answered yet
    waiting: tuple[bytes, ...] = ()  # pieces that came behind that
    ended: bool = False  # has the client ended its side?
    kept: bool = False  # has it been answered before?
    request: Request | None = None  # being worked on
    transfer: Transfer | None = None  # the file being sent
    answer: bytes = b""  # what was sent at once, if that worked
    batch: int = 0  # when that was
    last: bool = False  # is it the last answer?


class Worker:
    """Serves its share of the clients: one thread, one engine."""

    def __init__(
        self,
        listener: socket.socket,
        parent: socket.socket,
        options: Namespace,
    ) -> None:
        self.delay, self.compute = options.delay, options.compute
        self.files = (
            Files(options.directory) if options.directory else None
        )
        self.parent = parent
        self.engine: emulated.Engine | uring.Engine = options.engine()
        self.listener = listener.fileno()
        self.engine.adopt(listener)
        self.engine.adopt(parent)
        # Clients repeat themselves: the same head, byte for byte, is
        # the same request. Errors are exceptions: they are not kept.
        self.parse_known = functools.lru_cache(maxsize=256)(parse)
        self.connections: dict[int, Connection] = {}
        self.again: list[Connection] = []  # to go on with next time
        self.parting: dict[int, Connection] = {}  # sent their last
        self.requests = 0  # answered so far
        self.accepts = 0  # connections so far
        self.accepting = False
        self.leaving = False
        self.leave_until = math.inf
        self.batch = 0  # how many batches of completions there were
        self.now = time.monotonic()  # when the last one was taken
        self.looked = self.now  # when we last looked around

    def run(self) -> None:
        """Serve until the parent says stop and nobody is left."""
        engine, connections = self.engine, self.connections
        self.accept_more()
        engine.receive(self.parent.fileno())
        engine.sleep(CLOCK, TICK)
        self.parent.send(STARTED)
        while connections or not self.leaving:
            batch = engine.wait(block=not self.again)
            self.now = time.monotonic()
            self.batch += 1
            self.settle()
            tick = False
            for kind, fd, result, data, again in batch:
                connection = connections.get(fd)
                if connection is None:
                    if kind == ACCEPTED:
                        self.accepting = again
                        self.accepted(result)
                    elif fd == CLOCK:
                        tick = True
                    else:
                        self.told(result, data)
                    continue
                if not again:
                    connection.under_way -= 1
                if connection.state is CLOSING:
                    self.close(connection)
                elif kind == RECEIVED:
                    connection.receiving = again
                    self.received(connection, result, data)
                elif kind == SENT:
                    self.sent(connection, result)
                else:
                    self.worked(connection)
            if tick:  # not before all that has come is looked at
                engine.sleep(CLOCK, TICK)
                self.look_around()
            if self.now > self.leave_until:
                break

    def settle(self) -> None:
        """What was sent at once in the last batch: did that work?"""
        for fd, result in self.engine.failed:
            self.not_sent(self.connections[fd], result)
        for fd in self.parting:  # sent; the engine closes it
            del self.connections[fd]
        self.parting.clear()
        again, self.again = self.again, []
        for connection in again:
            if connection.state is READING:
                self.next_request(connection)

    def told(self, result: int, data: bytes) -> None:
        """Our parent has said something; without a word it has died."""
        if data == STOP:
            self.leaving = True
            self.leave_until = self.now + GRACE_SECONDS - TICK
            self.engine.cancel(self.listener)
        elif result != -errno.ECANCELED:
            os._exit(1)
        self.engine.receive(self.parent.fileno())

    def accept_more(self) -> None:
        """Begin to accept, or begin again."""
        self.engine.accept(self.listener)
        self.accepting = True

    def accepted(self, fd: int) -> None:
        """There is a new connection; or there can be none for now."""
        if fd < 0:
            return
        connection = Connection(fd, self.now + HEAD_SECONDS)
        self.connections[fd] = connection
        self.accepts += 1
        connection.receiving = True
        connection.under_way = 1
        self.engine.receive(fd)

    def receive(self, connection: Connection) -> None:
        """Ask for what the client sends next.

        Who has been answered before and stays is likely to stay: then
        one operation receives all that comes. Most others send one
        request, and one operation for that is cheaper.
        """
        if not connection.receiving:
            connection.receiving = True
            connection.under_way += 1
            self.engine.receive(connection.fd, connection.kept)

    def received(
        self, connection: Connection, result: int, data: bytes
    ) -> None:
        """The client has sent something, has ended or is gone."""
        if result <= 0 and result != -errno.ECANCELED:
            connection.ended = True
        if connection.state is READING:
            if connection.batch == self.batch:
                # Its answer may not be sent yet: one at a time.
                self.put_by(connection, data)
                self.again.append(connection)
                return
            if data and not connection.received:  # the head begins
                connection.deadline = self.now + HEAD_SECONDS
            connection.received += data
            self.next_request(connection)
        elif connection.state is DRAINING:
            if connection.ended:
                self.close(connection)
            else:
                self.receive(connection)
        elif data:
            self.put_by(connection, data)

    def put_by(self, connection: Connection, data: bytes) -> None:
        """Keep what came for later, and not more than enough of it."""
        connection.waiting += (data,)
        if len(connection.waiting) == MANY_PIECES:
            self.engine.pause(connection.fd)

    def next_request(self, connection: Connection) -> None:
        """Begin to answer the next request if all of it is here."""
        received = connection.received
        try:
            if len(received) <= SHORT_HEAD:
                request = self.parse_known(received)
            else:
                request = parse(received)
        except BadRequest as error:
            self.answer(connection, refuse(error), last=True)
            return
        if request is not None:
            self.work(connection, request)
        elif connection.waiting:
            # Not all at once: what is long takes long to cut up.
            pieces = connection.waiting[:MANY_PIECES]
            connection.waiting = connection.waiting[MANY_PIECES:]
            if not connection.received:
                connection.deadline = self.now + HEAD_SECONDS
            connection.received += b"".join(pieces)
            self.next_request(connection)
        elif connection.ended:
            self.close(connection)
        else:
            connection.state = READING
            self.receive(connection)

    def work(self, connection: Connection, request: Request) -> None:
        """Begin the request's work: the worker does not wait."""
        connection.state = WORKING
        head = connection.received
        if request.size == len(head):
            connection.received = b""
        else:
            head = head[: request.size]
            connection.received = connection.received[request.size :]
        if self.files and request.status in (200, 404):
            self.send_file(connection, request, head)
        elif request.status != 200 or not self.delay:
            self.finish_work(connection, request)
        else:
            connection.request = request
            connection.under_way += 1
            self.engine.sleep(connection.fd, self.delay)

    def worked(self, connection: Connection) -> None:
        """The wait is over."""
        assert connection.request is not None
        self.finish_work(connection, connection.request)

    def finish_work(
        self, connection: Connection, request: Request
    ) -> None:
        """Compute, which does hold up this worker, and answer."""
        if self.compute and request.status == 200:
            compute(self.compute)
        keep_alive = request.keep_alive and not self.leaving
        answer = respond(request, keep_alive)
        if (
            connection.received
            or connection.waiting
            or connection.ended
            or not (keep_alive or request.closes)
            or (request.closes and connection.receiving)
        ):
            self.answer(connection, answer, last=not keep_alive)
        else:
            self.answer_now(connection, answer, last=not keep_alive)

    def answer_now(
        self, connection: Connection, answer: bytes, last: bool
    ) -> None:
        """Send to a client that waits for nothing but this answer.

        It has taken all we sent before, so the kernel has room for it;
        if not, settle hears of it. So nothing has to be completed. The
        last answer is followed by the close: the client has said that
        nothing comes from it that would have to be read (hang_up).
        """
        connection.answer = answer
        connection.batch = self.batch
        connection.last = last
        self.requests += 1
        self.engine.send_now(connection.fd, answer, last)
        if last:
            connection.state = SENDING
            self.parting[connection.fd] = connection
            return
        connection.state = READING
        connection.kept = True
        connection.deadline = self.now + IDLE_SECONDS
        if not connection.receiving:
            self.receive(connection)

    def not_sent(self, connection: Connection, result: int) -> None:
        """The kernel has not taken all of an answer at once."""
        self.requests -= 1
        self.parting.pop(connection.fd, None)
        if connection.state is CLOSING:
            return
        if result < 0 and result != -errno.EAGAIN:  # the client is gone
            self.close(connection)
        else:
            rest = connection.answer[max(result, 0) :]
            self.answer(connection, rest, connection.last)

    def answer(
        self, connection: Connection, answer: bytes, last: bool
    ) -> None:
        """Send an answer, however long the client takes for it."""
        self.send(connection, Transfer(answer, None, 0, 0), last)

    def send(
        self, connection: Connection, transfer: Transfer, last: bool
    ) -> None:
        """Begin to send an answer."""
        connection.state = SENDING
        connection.last = last
        connection.transfer = transfer
        connection.deadline = self.now + SEND_SECONDS
        self.send_part(connection, transfer)

    def send_file(
        self, connection: Connection, request: Request, head: bytes
    ) -> None:
        """Answer with a file of the directory."""
        assert self.files
        keep_alive = request.keep_alive and not self.leaving
        transfer = self.files.answer(
            request.method, request.target, head,
            connection_field(request, keep_alive),
        )  # fmt: skip
        if isinstance(transfer, int):
            self.finish_work(
                connection, request._replace(status=transfer)
            )
            return
        self.send(connection, transfer, last=not keep_alive)

    def send_part(
        self, connection: Connection, transfer: Transfer
    ) -> None:
        """Ask the engine to send what is left, or a part of it."""
        connection.under_way += 1
        if transfer.memory is None:
            self.engine.send(connection.fd, transfer.head)
            return
        self.engine.send_file(
            connection.fd, transfer.head, transfer.memory,
            transfer.start, min(transfer.size, PART),
        )  # fmt: skip

    def sent(self, connection: Connection, result: int) -> None:
        """The kernel has the answer, or a part: what is next?"""
        if result < 0:
            self.close(connection)
            return
        transfer = connection.transfer
        assert transfer
        transfer.advance(result)
        if not transfer.done:
            connection.deadline = self.now + SEND_SECONDS
            self.send_part(connection, transfer)
            return
        connection.transfer = None
        self.requests += 1
        if connection.last:
            self.hang_up(connection)
            return
        connection.kept = True
        patience = HEAD_SECONDS if connection.received else IDLE_SECONDS
        connection.deadline = self.now + patience
        if (
            connection.received
            or connection.waiting
            or connection.ended
        ):
            self.next_request(connection)
        else:
            connection.state = READING
            self.receive(connection)

    def hang_up(self, connection: Connection) -> None:
        """End our side, and read until the client ends its own.

        Closing with unread bytes makes the kernel send a reset, which
        can destroy our answer on its way (RFC 9112, section 9.6).
        """
        if connection.ended:
            self.close(connection)
            return
        connection.state = DRAINING
        connection.deadline = self.now + LINGER_SECONDS
        self.engine.shutdown(connection.fd)
        self.receive(connection)

    def close(self, connection: Connection) -> None:
        """Close as soon as nothing is under way any more.

        Before that the descriptor must not be free for a new client:
        it would get the completions meant for the old one.
        """
        if connection.under_way:
            if connection.state is not CLOSING:
                connection.state = CLOSING
                self.engine.cancel(connection.fd)
            return
        connection.state = CLOSING
        self.engine.close(connection.fd)
        del self.connections[connection.fd]

    def look_around(self) -> None:
        """Twice a second: is anybody too slow? Accept again?"""
        if not self.accepting and not self.leaving:
            self.accept_more()
        # If we are late ourselves, what the clients have sent meanwhile
        # may not have reached us: nobody is too slow this time.
        late = self.now - self.looked > 3 * TICK
        self.looked = self.now
        for connection in list(self.connections.values()):
            if connection.state is CLOSING:
                self.engine.cancel(
                    connection.fd
                )  # once more, to be sure
            if (
                connection.state in (WORKING, CLOSING)
                or connection.batch == self.batch  # answered just now
            ):
                continue
            reading = connection.state is READING
            if reading and self.leaving and not connection.waiting:
                self.close(connection)
            elif connection.deadline <= self.now and not late:
                if reading and connection.received:
                    error = BadRequest(408, "too slow")
                    self.answer(connection, refuse(error), last=True)
                else:
                    self.close(connection)


class Handle(NamedTuple):
    """A worker as its parent sees it: a process or a thread."""

    line: socket.socket  # to talk to it; ends when one of us dies
    listener: socket.socket
    pid: int  # 0: it is a thread
    thread: threading.Thread | None = None


listeners: list[socket.socket] = []
workers: list[Handle] = []


def serve(listener: socket.socket, options: Namespace) -> None:
    """Start the workers, replace those that die, stop them all."""
    options.engine = choose_engine(options.engine)
    if options.worker_kind == "auto":
        options.worker_kind = best_kind()
    try:
        listeners.extend(open_listeners(listener, options))
    except OSError as error:
        sys.exit(f"cannot listen: {error.strerror}")
    for each in listeners:
        workers.append(start_worker(each, options))
    announce(listeners[0])
    while not stopping():
        replace_dead(options)
        time.sleep(TICK)
    for worker in workers:
        say_stop(worker)
    for worker in workers:
        collect(worker)


def choose_engine(name: str) -> type[emulated.Engine | uring.Engine]:
    """The engine of this name, or the best that works here."""
    if name == "emulated":
        return emulated.Engine
    try:
        uring.open_ring()
    except uring.Unavailable as reason:
        if name == "uring":
            sys.exit(f"{reason}: try --engine emulated")
        print(f"{reason}: the emulated engine serves", file=sys.stderr)
        return emulated.Engine
    except OSError as error:  # ours to mend, so nothing to hide
        sys.exit(f"io_uring cannot start: {error.strerror}")
    return uring.Engine


def open_listeners(
    listener: socket.socket, options: Namespace
) -> list[socket.socket]:
    """As many listening sockets on one port as there are workers.

    With SO_REUSEPORT each has its own accept queue and Linux spreads
    the connections over them. Elsewhere the workers share one queue.
    They belong to the parent: while a dead worker is replaced, its
    clients wait in the queue and are not lost.
    """
    number = options.workers
    if sys.platform != "linux":
        return [listener] * number
    found = [listener]
    if number > 1:
        address, family = listener.getsockname(), listener.family
        listener.close()
        found = [
            socket.create_server(
                address, family=family, backlog=BACKLOG, reuse_port=True
            )
            for _ in range(number)
        ]
    for each in found:
        # Accept who has sent something (or was silent for a second):
        # then the first receive is complete as soon as we ask for it.
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        # Each accepted socket inherits this: send without delay.
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.directory:
            # And this: room for one part of a file, not for megabytes,
            # so that we hear of a slow reader's progress.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PART)
    return found


def start_worker(listener: socket.socket, options: Namespace) -> Handle:
    """Start a worker; return when it is ready.

    One that cannot start would not start the next time either: that
    ends the server, with the reason.
    """
    try:
        ours, theirs = socket.socketpair()
        if options.worker_kind == "thread":
            handle = start_thread(ours, theirs, listener, options)
        else:
            handle = start_process(ours, theirs, listener, options)
        word = ours.recv(1000)
    except OSError as error:
        word = str(error.strerror).encode()
    if word != STARTED:
        reason = word.decode() or "it died at once"
        os.write(2, f"a worker cannot start: {reason}\n".encode())
        os._exit(1)
    return handle


def start_thread(
    ours: socket.socket,
    theirs: socket.socket,
    listener: socket.socket,
    options: Namespace,
) -> Handle:
    """A worker that shares the interpreter with all others."""
    thread = threading.Thread(
        target=run_worker, args=(listener, theirs, options), daemon=True
    )
    thread.start()
    return Handle(ours, listener, 0, thread)


def start_process(
    ours: socket.socket,
    theirs: socket.socket,
    listener: socket.socket,
    options: Namespace,
) -> Handle:
    """A worker with an interpreter, and so a GIL, of its own."""
    pid = os.fork()
    if pid:
        theirs.close()
        return Handle(ours, listener, pid)
    try:
        # A signal may go to all of us: it is the parent who says stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # The fork has copied what belongs to the others.
        ours.close()
        for worker in workers:
            worker.line.close()
        for each in listeners:
            if each is not listener:
                each.close()
        run_worker(listener, theirs, options)
    finally:
        os._exit(0)


def run_worker(
    listener: socket.socket, parent: socket.socket, options: Namespace
) -> None:
    """Serve, then tell the parent how much was done."""
    try:
        worker = Worker(listener, parent, options)
    except (OSError, uring.Unavailable) as error:
        parent.send(str(error).encode())
        return
    try:
        worker.run()
    except Exception:
        traceback.print_exc()
        os._exit(1)
    parent.setblocking(True)
    parent.send(f"{worker.requests} {worker.accepts}".encode())


def replace_dead(options: Namespace) -> None:
    """Start a new worker for each process that has died."""
    for index, worker in enumerate(workers):
        if worker.pid and os.waitpid(worker.pid, os.WNOHANG)[0]:
            worker.line.close()
            workers[index] = start_worker(worker.listener, options)


def say_stop(worker: Handle) -> None:
    """Ask a worker to finish what is under way."""
    try:
        worker.line.send(STOP)
    except OSError:  # it has died: nothing to stop
        pass


def collect(worker: Handle) -> None:
    """Wait for the end of a worker and add up what it has done."""
    try:
        done = worker.line.recv(100).split()
    except OSError:  # it has died
        done = []
    if len(done) == 2:
        count(requests=int(done[0]), connections=int(done[1]))
    if worker.pid:
        os.waitpid(worker.pid, 0)


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def best_kind() -> str:
    """Threads need a Python without a GIL to use all the cores."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)
    return "process" if has_gil() else "thread"


def directory(path: str) -> str:
    """A check for argparse: there is such a directory."""
    if not os.path.isdir(path):
        raise ArgumentTypeError(f"{path!r} is not a directory")
    return path


def add_options(parser: Parser) -> None:
    """What only this step needs."""
    parser.add_argument(
        "--workers", type=between(1, 512), default=usable_cores(),
        help="processes or threads; one for each core (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--worker-kind", choices=("auto", "process", "thread"),
        default="auto", help="auto: threads where there is no GIL",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=("auto", "uring", "emulated"),
        default="auto", help="auto: io_uring where it can be had",
    )  # fmt: skip
    parser.add_argument(
        "--directory", type=directory, metavar="DIR",
        help="serve these files, without --delay and --compute",
    )  # fmt: skip


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
    status: int  # of the answer: 200, 404, 405 or 501
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
