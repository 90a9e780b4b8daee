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

# What a thread does: accept, read and write as in a recording, and
SLEEP = "sleep"  # it waits for one request, for as long as that waits
IDLE = "idle"  # it waits for all
REST = "rest"  # one of those that sleep waits for its next request
PARKED = "parked"  # no thread: a request's own coroutine stands there

SLEPT = 0.9  # of the delay: time.sleep never ends early
LOCK = 0.05  # of the delay: waits below that may be for a lock


class Where(NamedTuple):
    """What is done, and the line that runs then.

    function: ``Class.method`` or a name; text: what the line holds.
    """

    what: str
    function: str
    text: str


def _table(rows: str) -> tuple[Where, ...]:
    """A row each: what is done, the function, and the line's text."""
    return tuple(Where(*row.split(maxsplit=2)) for row in rows.splitlines())


BLOCKING = """\
accept serve         accept(listener)
idle   serve         accept(listener)
read   wait          sock.recv(RECV_SIZE)
sleep  handle_client time.sleep(options.delay)
write  wait          sock.send(connection.unsent)"""
SELECTING = """\
idle   serve  clients.selector.select({})
accept serve  clients.accept()
read   resume sock.recv(RECV_SIZE)
write  resume sock.send(connection.unsent)"""
# asyncio selects, accepts and receives; our coroutines stand still.
STREAMS = "write wait writer.write(connection.unsent)\n"
# The engine does the rest, in the kernel or in emulated.py.
ENGINE = _table("idle Worker.run engine.wait(")

LINES: dict[str, tuple[Where, ...]] = {
    # http.server reads; our handler sleeps and writes.
    "01": _table("""\
accept Server.get_request get_request()
idle   serve              server.handle_request()
sleep  Handler.do_GET     time.sleep(self.options.delay)
write  Handler.do_GET     self.end_headers()"""),
    "02": _table(BLOCKING),
    "03": _table(BLOCKING),
    "03-pool": _table(f"{BLOCKING}\nrest run_worker queue.get()"),
    # Its one thread waits for single requests as well.
    "04": _table(f"sleep resume time.sleep(\n{SELECTING.format('TICK')}"),
    "05": _table(SELECTING.format("timeout()")),
    # A timer's own wait is inside threading.
    "05-threads": _table(SELECTING.format("TICK")),
    "06": _table(f"{STREAMS}parked handle_client await asyncio.sleep("),
    "06-executor": _table(STREAMS + """\
sleep  work          time.sleep(options.delay)
parked handle_client await loop.run_in_executor("""),
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


def sleeps(span: Span, recording: Recording) -> bool:
    """Does a thread wait for one request, and nothing else?"""
    return span.client != NOBODY and _is_wait(span, SLEPT, recording)


def _is_wait(span: Span, part: float, recording: Recording) -> bool:
    """Is a span a wait that lasts for that part of the delay?"""
    least = max(part * recording.delay * 1e6, 1)
    return span.kind == "wait" and span.end - span.begin >= least


def singles(recording: Recording) -> set[int]:
    """The lanes of threads that each wait for one request at a time."""
    return {
        at for at, lane in enumerate(recording.lanes)
        if any(sleeps(span, recording) for span in lane.spans)
    }


def running(recording: Recording) -> list[Line]:
    """The lines of the server's file that its recording lights.

    None of a file that LINES does not name.
    """
    name = recording.server
    if name not in LINES:
        return []
    times: dict[str, list[tuple[int, int]]] = defaultdict(list)
    times[PARKED] = [(c.read, c.answered) for c in recording.clients]
    for what, span in _doings(recording):
        times[what].append((span.begin, span.end))
    text = source.read(options.server(name).file)
    found: dict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)
    for where in LINES[name]:
        at = number(text, where)
        if where.what in times:
            found[at, where.what == PARKED] += times[where.what]
    lines = text.splitlines()
    return [
        Line(
            at, lines[at - 1].partition("  # ")[0].strip(), parked,
            sorted(spans),
        )
        for (at, parked), spans in sorted(found.items())
    ]


def _doings(recording: Recording) -> Iterator[tuple[str, Span]]:
    """What threads do, without what no line of ours does.

    Threads wait for each other to start, and for Python's own lock (the
    GIL): that is short. A thread that is alone has no such waits.
    """
    single = singles(recording)
    workers = [lane.worker for lane in recording.lanes]
    for at, lane in enumerate(recording.lanes):
        alone = workers.count(lane.worker) == 1
        for span in lane.spans:
            if span.kind != "wait":
                yield span.kind, span
            elif sleeps(span, recording):
                yield SLEEP, span
            elif span.client == NOBODY and (
                alone or _is_wait(span, LOCK, recording)
            ):
                yield REST if at in single and not alone else IDLE, span
