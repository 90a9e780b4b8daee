"""Which line of a server's file runs while a thread does something.

A line is named by the function it is in and by its text, never by its
number: if a server changes so that the line is not there, or there twice,
the build fails instead of lighting a wrong one. What runs inside a library
has no line of ours and is not in the table.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from tools.data.recording import NOBODY, Lane, Recording, Span
from tools.site import options, source
from tools.site.errors import SiteError

# When in the life of its client a span begins.
NOBODYS = "nobody"  # it belongs to no client
BEFORE = "before"  # its request is not complete
DURING = "during"  # read, and not answered yet
FIRST = "first"  # it begins the answer
AFTER = "after"  # the answer has begun
ANY = "any"

# What a thread is there for; see `role`.
SINGLE = "single"  # waits for one request at a time
LOOP = "loop"  # serves all, or hands them to others
OTHER = "other"  # neither accepts nor serves

SLEEP = 0.9  # of the delay: time.sleep never ends early
LOCK = 0.05  # of the delay: waits below that may be for a lock

PARKED = "parked"  # a request's own coroutine stands there: not a span


@dataclass(frozen=True)
class Where:
    """What a span is, and the line that runs then.

    function: ``Class.method`` or a name; text: what the line holds.
    """

    kind: str
    phase: str
    role: str
    function: str
    text: str


def _blocking(accepting: str) -> tuple[Where, ...]:
    """The plain calls of steps 02 and 03."""
    accept = ("accept", "connection, _ = listener.accept()")
    return (
        Where("accept", ANY, ANY, *accept),
        Where("wait", NOBODYS, accepting, *accept),
        Where("read", BEFORE, ANY, "receive", "connection.recv(RECV_SIZE)"),
        Where("wait", BEFORE, ANY, "receive", "connection.recv(RECV_SIZE)"),
        Where(
            "wait", DURING, ANY, "answer_request", "time.sleep(options.delay)"
        ),
        Where("write", ANY, ANY, "send", "connection.sendall(answer)"),
        Where("read", AFTER, ANY, "hang_up", "connection.recv(RECV_SIZE)"),
        Where("wait", AFTER, ANY, "hang_up", "connection.recv(RECV_SIZE)"),
    )


def _loop(select: str) -> tuple[Where, ...]:
    """The loop of steps 04 and 05, but for its waiting on work."""
    return (
        Where("wait", NOBODYS, LOOP, "Loop.run", select),
        Where("accept", ANY, LOOP, "Loop.accept", "self.listener.accept()"),
        Where(
            "read", BEFORE, LOOP, "Loop.receive",
            "connection.sock.recv(RECV_SIZE)",
        ),
        Where(
            "read", AFTER, LOOP, "Loop.receive",
            "connection.sock.recv(RECV_SIZE)",
        ),
        Where(
            "write", ANY, LOOP, "Loop.send",
            "connection.sock.send(connection.unsent)",
        ),
    )


WRITE_STREAM = Where(
    "write", FIRST, LOOP, "send", "writer.write(answer)"
)
SELECT = "self.selector.select(0 if self.pipelined else TICK)"
ENGINE = Where("wait", NOBODYS, LOOP, "Worker.run", "engine.wait(")

LINES: dict[str, tuple[Where, ...]] = {
    # http.server reads; our handler sleeps and writes.
    "01": (
        Where("accept", ANY, ANY, "Server.get_request", "get_request()"),
        Where("wait", NOBODYS, ANY, "serve", "server.handle_request()"),
        Where(
            "wait", DURING, ANY, "Handler.do_GET",
            "time.sleep(self.options.delay)",
        ),
        # The head and the page are sent one after the other.
        Where("write", FIRST, ANY, "Handler.do_GET", "self.end_headers()"),
        Where("write", AFTER, ANY, "Handler.do_GET", "self.wfile.write("),
    ),
    "02": _blocking(ANY),
    "03": _blocking(LOOP),
    "03-pool": (
        *_blocking(LOOP),
        Where("wait", NOBODYS, SINGLE, "run_worker", "queue.get()"),
    ),
    "04": (
        Where("wait", NOBODYS, ANY, "Loop.run", SELECT),
        Where("wait", DURING, ANY, "Loop.work", "time.sleep("),
        # Its one thread waits for single requests as well.
        *(
            Where(w.kind, w.phase, ANY, w.function, w.text)
            for w in _loop(SELECT)
        ),
    ),
    # A timer's own wait is inside threading.
    "05": (
        *_loop(SELECT),
        Where("write", ANY, SINGLE, "Loop.ring", "self.bell.send("),
        Where("read", NOBODYS, LOOP, "Loop.finish_work", "self.alarm.recv("),
    ),
    "05-heap": _loop("self.selector.select(self.pause())"),
    # asyncio selects, accepts and receives; our coroutines stand still.
    "06": (
        WRITE_STREAM,
        Where(PARKED, ANY, ANY, "answer_request", "await asyncio.sleep("),
    ),
    "06-executor": (
        WRITE_STREAM,
        Where("wait", DURING, SINGLE, "work", "time.sleep(options.delay)"),
        Where(
            PARKED, ANY, ANY, "answer_request", "await loop.run_in_executor("
        ),
    ),
    "06-protocol": (),
    # The engine does the rest, in the kernel or in emulated.py.
    "07": (ENGINE,),
    "07-emulated": (ENGINE,),
}


@dataclass(frozen=True)
class Line:
    """A line of a server's file and when it runs.

    times: begin and end in µs, one pair for each thread that is on it;
    parked: True if it is coroutines that stand there, not threads.
    """

    number: int
    text: str
    parked: bool
    times: tuple[tuple[int, int], ...]


def number(text: str, where: Where) -> int:
    """The number of the line in a file's text, from 1.

    Raises SiteError unless the function has that line exactly once.
    """
    piece = source.find(text, where.function)
    found = [
        piece.first + at
        for at, line in enumerate(piece.text.splitlines())
        if where.text in line.partition("  # ")[0]
    ]
    if len(found) != 1:
        raise SiteError(
            f"{where.function} has {len(found)} lines with "
            f"{where.text!r}, not one: tools/site/race_lines.py names the "
            "lines that a recording lights"
        )
    return found[0]


def table(name: str) -> dict[Where, int]:
    """The line number of everything that a server's recording lights."""
    text = source.read(options.server(name).file)
    return {where: number(text, where) for where in LINES[name]}


def singles(recording: Recording) -> set[int]:
    """The lanes of threads that each wait for one request at a time.

    Such a thread sleeps for a client for as long as a request waits.
    """
    return {
        at
        for at, lane in enumerate(recording.lanes)
        for span in lane.spans
        if span.kind == "wait"
        and phase(span, recording) == DURING
        and is_sleep(span, recording)
    }


def is_sleep(span: Span, recording: Recording) -> bool:
    """Is a span long enough to be the wait that a request is there for?

    Anything shorter in the middle of a request is a wait for a lock.
    """
    long = SLEEP * recording.delay * 1e6
    return span.end - span.begin >= max(long, 1)


def may_be_a_lock(at: int, span: Span, recording: Recording) -> bool:
    """Could a wait for nobody be one for another thread of the process?

    Threads wait for each other to start, and for Python's own lock (the
    GIL); neither is the line that waits for clients, and both are short.
    """
    worker = recording.lanes[at].worker
    alone = sum(lane.worker == worker for lane in recording.lanes) == 1
    short = span.end - span.begin < LOCK * recording.delay * 1e6
    return not alone and short


def role(at: int, recording: Recording) -> str:
    """What the thread of a lane is there for: SINGLE, LOOP or OTHER."""
    if at in singles(recording):
        return SINGLE
    lane = recording.lanes[at]
    serves = any(client.lane == at for client in recording.clients)
    meets = any(
        span.kind == "accept" or span.client != NOBODY for span in lane.spans
    )
    return LOOP if serves or meets else OTHER


def phase(span: Span, recording: Recording) -> str:
    """When in the life of its client a span is."""
    if span.client == NOBODY:
        return NOBODYS
    client = recording.clients[span.client]
    if span.kind == "write" and span.begin == client.answered:
        return FIRST
    if span.begin >= client.answered:
        return AFTER
    # The span that completes the request is still before it.
    return DURING if span.begin >= client.read else BEFORE


def running(recording: Recording) -> list[Line]:
    """The lines of the server's file that its recording lights."""
    numbers = table(recording.server)
    times: dict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)
    for at, lane in enumerate(recording.lanes):
        for span, found in _spans(at, lane, recording, numbers):
            times[found, False].append((span.begin, span.end))
    for where, found in numbers.items():
        if where.kind == PARKED:
            times[found, True] += [
                (c.read, c.answered) for c in recording.clients
            ]
    lines = source.read(
        options.server(recording.server).file
    ).splitlines()
    return [
        Line(
            found, lines[found - 1].partition("  # ")[0].strip(), parked,
            tuple(sorted(spans)),
        )
        for (found, parked), spans in sorted(times.items())
    ]


def _spans(
    at: int, lane: Lane, recording: Recording, numbers: dict[Where, int]
) -> list[tuple[Span, int]]:
    """The spans of a lane that have a line, each with its number."""
    its_role = role(at, recording)
    found = []
    for span in lane.spans:
        now = phase(span, recording)
        if span.kind == "wait" and (
            (now == NOBODYS and may_be_a_lock(at, span, recording))
            or (now == DURING and not is_sleep(span, recording))
        ):
            continue
        for where, line in numbers.items():
            if (
                where.kind == span.kind
                and where.phase in (ANY, now)
                and where.role in (ANY, its_role)
            ):
                found.append((span, line))
                break
    return found


def at_once(line: Line, now: int) -> int:
    """How many threads are on a line at a moment in µs."""
    begins = [begin for begin, _ in line.times]
    before = line.times[: bisect_right(begins, now)]
    return sum(now < end for _, end in before)
