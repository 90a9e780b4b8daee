"""What a server did for some clients, from its system calls.

A call tells its client by the descriptor: accept gives back one, and the
client's port. From then on, whatever a thread does with this descriptor
it does for this client. Whose request a wait is for is harder to tell:

- a sleep in the thread that has just received a request is for it;
- a thread that was started for a request, and in which a wait ends by
  its time-out (threading.Timer), waits for that one;
- threads of an executor take requests in the order in which they came.

Over io_uring there are no such calls: see `_from_rings`.
"""

import itertools
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from tools.bench.calls import WAITING, Call
from tools.bench.recording.burst import Moments
from tools.data.recording import NOBODY, TIMER, Client, Lane, Span

MOST_COUNTS = 150  # points of the counter of system calls
NEARLY = 0.5  # of the delay: a wait that long may be a request's
LONGEST_GAP = 10**12  # µs; "until strace let go"
SLEEPS = {"clock_nanosleep", "nanosleep"}
LOOKS = {  # calls that wait for whoever comes
    "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait",
    "epoll_pwait2", "io_uring_enter",
}  # fmt: skip


class TimelineError(Exception):
    """The calls and the clients do not fit together; the text says why."""


@dataclass
class Timeline:
    """What goes into a recording."""

    clients: list[Client]
    lanes: list[Lane]
    calls: list[tuple[int, int]]
    calls_by_name: dict[str, int]


@dataclass
class _Deed:
    """A call, as one thing that a thread does; client: see `Span`."""

    thread: int
    kind: str
    begin: int
    end: int
    client: int = NOBODY


@dataclass
class _Served:
    """What the server did for a client. Times in µs since the epoch."""

    accepted: int = 0
    read: int = 0
    answered: int = 0
    process: int = 0
    writer: int = 0  # the thread that answered
    sleeper: int = 0  # the thread that waited for it alone


class _Walk:
    """Goes through all calls once, and remembers whose turn it is.

    processes: thread -> its process; timers: threads that were started for
    a request and waited for it by a time-out.
    """

    def __init__(
        self, ports: dict[int, int], threads: dict[int, int], delay: float
    ) -> None:
        self.served = [_Served() for _ in ports]
        self.processes = dict(threads)
        self.deeds: dict[int, list[_Deed]] = {}  # thread -> its own
        self.timers: set[int] = set()
        self._ports = ports  # -> client
        self._long = NEARLY * delay * 1e6
        self._fds: dict[tuple[int, int | None], int] = {}  # -> client
        self._turn: dict[int, int] = {}  # thread -> its last client
        self._born_for: dict[int, int] = {}  # thread -> client
        # Long waits, and for whom each probably is.
        self._sleeps: list[tuple[_Deed, int]] = []
        self._rings: list[tuple[_Deed, int]] = []

    def take(self, call: Call) -> None:
        """Look at the next call."""
        process = self.processes.setdefault(call.thread, call.thread)
        turn = self._turn.get(call.thread, NOBODY)
        end = LONGEST_GAP + call.begin if call.end is None else call.end
        deed = _Deed(call.thread, "work", call.begin, end)
        self.deeds.setdefault(call.thread, []).append(deed)
        known = self._fds.get((process, call.fd))
        if call.accepts:
            deed.kind, turn = "accept", self._accept(call, process)
        elif known is not None:
            deed.kind, turn = self._serve(call, known), known
            if deed.kind == "wait":
                deed.client = known
            elif call.name == "close":
                del self._fds[process, call.fd]
        elif call.starts_thread is not None:
            self.processes[call.starts_thread] = process
            self._born_for[call.starts_thread] = turn
        elif call.name in WAITING:
            deed.kind = "wait"
            if call.end is None or call.end - call.begin < self._long:
                pass
            elif call.name in SLEEPS:
                self._sleeps.append((deed, turn))
            elif call.name == "futex" and call.error == "ETIMEDOUT":
                starter = self._born_for.get(call.thread, NOBODY)
                self._rings.append((deed, starter))
        self._turn[call.thread] = turn

    def _accept(self, call: Call, process: int) -> int:
        client = self._ports.get(call.port or 0, NOBODY)
        self._fds[process, call.result] = client
        if client != NOBODY and call.end is not None:
            self.served[client].accepted = call.end
            self.served[client].process = process
        return client

    def _serve(self, call: Call, client: int) -> str:
        """The kind of a call on a client's descriptor."""
        served = self.served[client]
        if call.receives:
            if not served.answered and call.end is not None:
                served.read = call.end
            return "read"
        if call.sends:
            served.answered = served.answered or call.begin
            served.writer = served.writer or call.thread
            return "write"
        return "wait" if call.name in LOOKS else "work"

    def homes(self) -> set[int]:
        """The processes that serve."""
        return {served.process for served in self.served}

    def settle(self) -> None:
        """Find out whose the long waits are.

        Raises TimelineError if they do not fit.
        """
        homes = self.homes()
        for deed, client in self._rings:
            if self._give(deed, client):
                self.timers.add(deed.thread)
        others = [
            deed for deed, client in self._sleeps
            if not self._give(deed, client)
            and self.processes[deed.thread] in homes
        ]
        without = [place for place, served in enumerate(self.served)
                   if not served.sleeper]
        without.sort(key=lambda place: self.served[place].read)
        if others and len(without) != len(others):
            raise TimelineError(
                f"{len(others)} sleeps for {len(without)} requests"
            )
        for client, deed in zip(without, others, strict=False):
            if not self._give(deed, client):
                raise TimelineError("a sleep could not be told from another")

    def _give(self, deed: _Deed, client: int) -> bool:
        """Make it the wait for this client's request, if it can be that."""
        if client == NOBODY:
            return False
        served = self.served[client]
        times = [served.read, deed.begin, deed.end, served.answered]
        if times != sorted(times):
            return False
        deed.client, served.sleeper = client, deed.thread
        return True


def build(
    calls: Sequence[Call], moments: Sequence[Moments],
    threads: dict[int, int], delay: float, owners: dict[int, int],
) -> Timeline:
    """A timeline that begins with the first client.

    calls: as from `calls.read`; threads: of the server when the clients
    begin, thread -> its process, the oldest first; delay: seconds each
    request waits; owners: client's port -> the process that serves it, if
    that had to be looked up (io_uring). Raises TimelineError.
    """
    zero = min(each.begun for each in moments)
    length = max(each.done for each in moments) - zero
    ports = {each.port: place for place, each in enumerate(moments)}
    walk = _Walk(ports, threads, delay)
    # What accept gives back is there at its end, not at its begin.
    for call in sorted(
        calls, key=lambda c: c.end if c.accepts and c.end else c.begin
    ):
        walk.take(call)
    if any(call.name == "io_uring_enter" for call in calls):
        _from_rings(walk, calls, moments, delay, owners)
    for what in ("accepted", "read", "answered"):
        if not all(getattr(served, what) for served in walk.served):
            raise TimelineError(f"a request was not seen to be {what}")
    walk.settle()
    lanes = _lanes(walk, zero, length)
    places = {thread: place for place, thread in enumerate(lanes)}
    counted = [c for c in calls if zero <= c.begin <= zero + length]
    return Timeline(
        [
            _client(served, each, zero, places)
            for served, each in zip(walk.served, moments, strict=True)
        ],
        list(lanes.values()),
        _count([call.begin - zero for call in counted]),
        dict(Counter(call.name for call in counted).most_common()),
    )


def _from_rings(
    walk: _Walk, calls: Sequence[Call], moments: Sequence[Moments],
    delay: float, owners: dict[int, int],
) -> None:
    """The moments of clients that are served over io_uring.

    Accepting, receiving and sending are no system calls there: the
    kernel does them, and io_uring_enter hands over what to do next and
    returns with what is done. So they are taken from its begins and
    ends: a connection is accepted when the first call returns after the
    client has sent (until then the kernel holds it back), and read when
    the next one does. The one after that begins the delay. When it is
    over, a call returns, and the response is sent next.
    """
    for served, each in zip(walk.served, moments, strict=True):
        process = owners.get(each.port, 0)
        enters = [
            call for call in calls
            if call.thread == process and call.name == "io_uring_enter"
            and call.end is not None
        ]
        ends = [call.end or 0 for call in enters]
        came = bisect_left(ends, each.sent)
        if came + 2 < len(enters):
            due = enters[came + 2].begin + round(delay * 1e6)
            over = bisect_left(ends, due)
            served.accepted, served.read = ends[came], ends[came + 1]
            served.answered = ends[over] if over < len(ends) else 0
        served.process = served.writer = process


def _lanes(walk: _Walk, zero: int, length: int) -> dict[int, Lane]:
    """Thread -> lane: a process's together, its oldest thread first."""
    threads: dict[int, list[int]] = {home: [] for home in walk.homes()}
    spans = {}
    for thread, process in walk.processes.items():
        its = _spans(walk.deeds.get(thread, []), zero, length)
        if process in threads and its:
            threads[process].append(thread)
            spans[thread] = its
    lanes = {}
    for worker, process in enumerate(sorted(threads)):
        number = itertools.count(1)
        for thread in threads[process]:
            kind = TIMER if thread in walk.timers else "thread"
            name = f"worker {worker + 1}" if len(threads) > 1 else "main"
            if thread != process:
                name = f"{kind} {next(number)}"
            lanes[thread] = Lane(name, worker, spans[thread])
    return lanes


def _client(
    served: _Served, seen: Moments, zero: int, places: dict[int, int]
) -> Client:
    """A client's moments; they must be in an order that is possible."""
    _, *client = astuple(seen)  # all but its port
    times = [served.accepted, served.read, served.answered]
    orders = (
        client, times, [seen.begun, times[0]], [seen.sent, times[1]],
        [times[2], seen.first_byte],
    )
    if any(order != sorted(order) for order in orders):
        raise TimelineError("the clocks of a client and of strace differ")
    lane = places.get(served.sleeper or served.writer)
    if lane is None:
        raise TimelineError("a request was answered by an unknown thread")
    facts = [*(time - zero for time in client + times), lane]
    return Client(*facts)


def _spans(deeds: list[_Deed], zero: int, length: int) -> tuple[Span, ...]:
    """A thread's calls, and its work between them, within a recording."""
    found = []
    for deed, following in itertools.zip_longest(deeds, deeds[1:]):
        until = following.begin if following else deed.end
        for kind, begin, end, client in (
            (deed.kind, deed.begin, deed.end, deed.client),
            ("work", deed.end, until, NOBODY),
        ):
            begin, end = max(begin - zero, 0), min(end - zero, length)
            if begin < end:
                found.append(Span(kind, begin, end, client))
    return tuple(found)


def _count(times: list[int]) -> list[tuple[int, int]]:
    """How many calls there were until then, in few enough points."""
    step = math.ceil(len(times) / MOST_COUNTS) or 1
    counts = {}
    for number, at in enumerate(times, 1):
        if number % step == 0 or number == len(times):
            counts[at] = number  # the last one of this microsecond
    return list(counts.items())


def simplify(spans: Sequence[Span], tiny: int) -> tuple[Span, ...]:
    """The same with less detail: what is shorter than tiny µs is merged.

    A short wait, such as for Python's lock, becomes work. What was
    accepted, received and sent stays.
    """
    found: list[Span] = []
    for span in spans:
        short = span.end - span.begin < tiny
        if short and span.kind == "wait":
            span = Span("work", span.begin, span.end)
        last = found[-1] if found else span
        same = (last.kind, last.client) == (span.kind, span.client)
        if same and last.end == span.begin:
            span = replace(found.pop(), end=span.end)
        found.append(span)
    return tuple(found)
