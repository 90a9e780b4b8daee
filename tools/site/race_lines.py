"""Which line of a server's file runs while a thread does something.

A line is named by the function it is in and by its text, never by its
number: if a server changes so that the line is not there, or there twice,
the build fails instead of lighting a wrong one. What runs inside a library
has no line of ours and is not in the table.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tools.data.recording import NOBODY, Recording, Span
from tools.site import options, source
from tools.site.errors import SiteError

# When in the life of its client a span begins: it belongs to no client,
# its request is not complete, it is read, the response begins, has begun.
NOBODYS, BEFORE, DURING, FIRST, AFTER = (
    "nobody", "before", "during", "first", "after"
)
ANY = "any"
# What a thread is there for: one request at a time, or all of them.
SINGLE, LOOP = "single", "loop"
PARKED = "parked"  # a request's own coroutine stands there: not a span

SLEEP = 0.9  # of the delay: time.sleep never ends early
LOCK = 0.05  # of the delay: waits below that may be for a lock


class Where(NamedTuple):
    """What a span is, and the line that runs then.

    kind: of the span; function: ``Class.method`` or a name; text: what
    the line holds.
    """

    kind: str
    phase: str
    role: str
    function: str
    text: str


def _table(rows: str) -> tuple[Where, ...]:
    """A row each: kind, phase, role, function and the line's text."""
    return tuple(Where(*row.split(maxsplit=4)) for row in rows.splitlines())


# http.server reads; our handler sleeps and writes, the page on its own.
HTTP_SERVER = _table("""\
accept any    any Server.get_request get_request()
wait   nobody any serve              server.handle_request()
wait   during any Handler.do_GET     time.sleep(self.options.delay)
write  first  any Handler.do_GET     self.end_headers()
write  after  any Handler.do_GET     self.wfile.write(""")
BLOCKING = """\
accept any    any  serve         accept(listener)
wait   nobody {}   serve         accept(listener)
read   any    any  wait          sock.recv(RECV_SIZE)
wait   before any  wait          sock.recv(RECV_SIZE)
wait   during any  handle_client time.sleep(options.delay)
write  any    any  wait          sock.send(connection.unsent)
wait   after  any  wait          sock.recv(RECV_SIZE)"""
SERVING = _table("""\
accept any    any serve  clients.accept()
read   before any resume sock.recv(RECV_SIZE)
read   after  any resume sock.recv(RECV_SIZE)
write  any    any resume sock.send(connection.unsent)""")
SELECT = "serve clients.selector.select"
STREAMS = _table("write first loop wait writer.write(connection.unsent)")
# The engine does the rest, in the kernel or in emulated.py.
ENGINE = _table("wait nobody loop Worker.run engine.wait(")

LINES: dict[str, tuple[Where, ...]] = {
    "01": HTTP_SERVER,
    "02": _table(BLOCKING.format(ANY)),
    "03": _table(BLOCKING.format(LOOP)),
    "03-pool": _table(f"""\
{BLOCKING.format(LOOP)}
wait   nobody single run_worker queue.get()"""),
    # Its one thread waits for single requests as well.
    "04": _table(f"""\
wait nobody any {SELECT}(TICK)
wait during any resume time.sleep(""") + SERVING,
    "05": _table(f"""\
wait nobody loop {SELECT}(timeout())""") + SERVING,
    # A timer's own wait is inside threading.
    "05-threads": _table(f"""\
wait  nobody loop   {SELECT}(TICK)
write any    single wake_loop   wake_send.send(
read  nobody loop   finish_work wake_recv.recv(""") + SERVING,
    # asyncio selects, accepts and receives; our coroutines stand still.
    "06": STREAMS + _table("""\
parked any any handle_client await asyncio.sleep("""),
    "06-executor": STREAMS + _table("""\
wait   during single work time.sleep(options.delay)
parked any    any    handle_client await loop.run_in_executor("""),
    "06-protocol": (),
    "07": ENGINE,
    "07-emulated": ENGINE,
}


class Line(NamedTuple):
    """A line of a server's file and when it runs.

    times: begin and end in µs, one pair for each thread that is on it;
    parked: True if it is coroutines that stand there, not threads.
    """

    number: int
    text: str
    parked: bool
    times: list[tuple[int, int]]


def number(text: str, where: Where) -> int:
    """The number of the line in a file's text, from 1.

    Raises SiteError unless the function has that line exactly once.
    """
    piece = source.find(text, where.function)
    found = [
        at
        for at, line in enumerate(piece.text.splitlines(), piece.first)
        if where.text in line.partition("  # ")[0]
    ]
    if len(found) != 1:
        raise SiteError(
            f"{where.function} has {len(found)} lines with "
            f"{where.text!r}, not one: tools/site/race_lines.py names the "
            "lines that a recording lights"
        )
    return found[0]


def singles(recording: Recording) -> set[int]:
    """The lanes of threads that each wait for one request at a time.

    Such a thread sleeps for a client for as long as a request waits.
    """
    return {
        at
        for at, lane in enumerate(recording.lanes)
        if any(
            span.kind == "wait"
            and phase(span, recording) == DURING
            and _is_long(span, SLEEP, recording)
            for span in lane.spans
        )
    }


def _is_long(span: Span, part: float, recording: Recording) -> bool:
    """Does a span last for that part of the delay?"""
    return span.end - span.begin >= max(part * recording.delay * 1e6, 1)


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


def _for_a_lock(span: Span, alone: bool, recording: Recording) -> bool:
    """May a wait be one for another thread of the process?

    Threads wait for each other to start, and for Python's own lock (the
    GIL): that is short, and no line of ours. In the middle of a request
    anything shorter than the delay is. alone: the process has no other.
    """
    now = phase(span, recording)
    if now == DURING:
        return not _is_long(span, SLEEP, recording)
    return now == NOBODYS and not (alone or _is_long(span, LOCK, recording))


def running(recording: Recording) -> list[Line]:
    """The lines of the server's file that its recording lights."""
    name = recording.server
    if name not in LINES:
        raise SiteError(
            f"LINES in tools/site/race_lines.py has no lines for {name}"
        )
    text = source.read(options.server(name).file)
    times: dict[Where, list[tuple[int, int]]] = {
        where: [] for where in LINES[name]
    }
    for where, span in _spans(recording):
        times[where].append((span.begin, span.end))
    found: dict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)
    for where, spans in times.items():
        parked = where.kind == PARKED
        if parked:
            spans = [(c.read, c.answered) for c in recording.clients]
        at = number(text, where)
        if spans:
            found[at, parked] += spans
    lines = text.splitlines()
    return [
        Line(
            at, lines[at - 1].partition("  # ")[0].strip(), parked,
            sorted(spans),
        )
        for (at, parked), spans in sorted(found.items())
    ]


def _spans(recording: Recording) -> Iterator[tuple[Where, Span]]:
    """The spans that have a line of ours, each with the first that fits."""
    single = singles(recording)
    workers = [lane.worker for lane in recording.lanes]
    for at, lane in enumerate(recording.lanes):
        role = SINGLE if at in single else LOOP
        alone = workers.count(lane.worker) == 1
        for span in lane.spans:
            if span.kind == "wait" and _for_a_lock(span, alone, recording):
                continue
            now = phase(span, recording)
            for where in LINES[recording.server]:
                if (
                    where.kind == span.kind
                    and where.phase in (ANY, now)
                    and where.role in (ANY, role)
                ):
                    yield where, span
                    break
