"""What a server did for some clients, from its system calls.

A call tells its client by the descriptor: accept gives back one, and the
client's port. From then on, whatever a thread does with this descriptor
it does for this client, and what it does until its next call too. Three
waits are harder to tell:

- a sleep in the thread that has just received a request is for it;
- a thread that was started for a request, and in which a wait ends by
  its time-out (threading.Timer), waits for that one;
- threads of an executor take requests in the order in which they came.

Over io_uring there are no such calls: see `_from_rings`.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

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
    """A call, as one thing that a thread does."""

    kind: str
    begin: int
    end: int
    client: int
    after: int  # the client whose turn it is behind it


class _Walk:
    """Goes through all calls once, and remembers whose turn it is.

    threads: thread -> its process; delay: seconds each request waits.
    accepted, read, answered: client -> µs since the epoch; thread: the
    client's, see `Client.lane`; timers: those that were started for a
    request and waited for it by a time-out.
    """

    def __init__(
        self, ports: dict[int, int], threads: dict[int, int], delay: float
    ) -> None:
        self.ports = ports  # -> client
        self.long = NEARLY * delay * 1e6
        self.processes = dict(threads)
        self.deeds: dict[int, list[_Deed]] = {}
        self.accepted: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.answered: dict[int, int] = {}
        self.thread: dict[int, int] = {}
        self.home: dict[int, int] = {}  # client -> process
        self.timers: set[int] = set()  # threads
        self._fds: dict[tuple[int, int | None], int] = {}
        self._turn: dict[int, int] = {}  # thread -> client
        self._born_for: dict[int, int] = {}  # thread -> client
        self._slept: dict[int, int] = {}  # client -> thread
        self._sleeps: list[tuple[int, _Deed]] = []  # whose? not known

    def take(self, call: Call) -> None:
        """Look at the next call."""
        process = self.processes.setdefault(call.thread, call.thread)
        turn = self._turn.get(call.thread, NOBODY)
        kind, client = "work", turn
        known = self._fds.get((process, call.fd))
        if call.accepts:
            kind, client = "accept", self._accept(call, process)
            turn = client
        elif known is not None:
            kind, client, turn = self._serve(call, known), known, known
            if call.name == "close":
                turn = NOBODY
                del self._fds[process, call.fd]
        elif call.starts_thread is not None:
            self.processes[call.starts_thread] = process
            self._born_for[call.starts_thread] = turn
        elif call.name in WAITING:
            kind, client = "wait", self._waits_for(call, turn)
            if call.name in LOOKS:
                turn = NOBODY
            elif client != NOBODY:
                turn = client
        self._turn[call.thread] = turn
        end = LONGEST_GAP + call.begin if call.end is None else call.end
        deed = _Deed(kind, call.begin, end, client, turn)
        self.deeds.setdefault(call.thread, []).append(deed)
        if kind == "wait" and client == NOBODY and self._is_sleep(call):
            self._sleeps.append((call.thread, deed))

    def _accept(self, call: Call, process: int) -> int:
        client = self.ports.get(call.port or 0, NOBODY)
        self._fds[process, call.result] = client
        if client != NOBODY and call.end is not None:
            self.accepted[client] = call.end
            self.home[client] = process
        return client

    def _serve(self, call: Call, client: int) -> str:
        """The kind of a call on a client's descriptor."""
        if call.receives:
            if client not in self.answered and call.end is not None:
                self.read[client] = call.end
            return "read"
        if call.sends:
            self.answered.setdefault(client, call.begin)
            self.thread.setdefault(client, call.thread)
            return "write"
        return "wait" if call.name in LOOKS else "work"

    def _waits_for(self, call: Call, turn: int) -> int:
        """The client a wait is for, or NOBODY."""
        rings = call.name == "futex" and call.error == "ETIMEDOUT"
        client = NOBODY
        if self._is_sleep(call):
            client = turn
        elif rings and self._is_long(call):
            client = self._born_for.get(call.thread, NOBODY)
        if client not in self.read or client in self.answered:
            return NOBODY
        if rings:
            self.timers.add(call.thread)
        self._slept[client] = call.thread
        return client

    def _is_long(self, call: Call) -> bool:
        return call.end is not None and call.end - call.begin >= self.long

    def _is_sleep(self, call: Call) -> bool:
        return call.name in SLEEPS and self._is_long(call)

    def settle(self, begin: int, end: int) -> None:
        """Find out whose the other sleeps are, begun in this time.

        Raises TimelineError if they do not fit.
        """
        homes = set(self.home.values())
        sleeps = sorted(
            (deed.begin, thread, deed)
            for thread, deed in self._sleeps
            if self.processes[thread] in homes and begin <= deed.begin <= end
        )
        without = [client for client in self.read if client not in self._slept]
        without.sort(key=lambda client: self.read[client])
        if sleeps and len(without) != len(sleeps):
            raise TimelineError(
                f"{len(sleeps)} sleeps for {len(without)} requests"
            )
        for client, (_, thread, deed) in zip(without, sleeps, strict=False):
            answered = self.answered.get(client, 0)
            if not self.read[client] <= deed.begin < deed.end <= answered:
                raise TimelineError("a sleep could not be told from another")
            deed.client = deed.after = client
            self._slept[client] = thread
        self.thread.update(self._slept)


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
        if len(getattr(walk, what)) < len(moments):
            raise TimelineError(f"a request was not seen to be {what}")
    walk.settle(zero, zero + length)
    lanes = _lanes(walk, zero, length)
    places = {thread: place for place, thread in enumerate(lanes)}
    counted = [c for c in calls if zero <= c.begin <= zero + length]
    return Timeline(
        [
            _client(walk, place, each, zero, places)
            for place, each in enumerate(moments)
        ],
        list(lanes.values()),
        _count([call.begin - zero for call in counted]),
        dict(Counter(call.name for call in counted).most_common()),
    )


def _lanes(walk: _Walk, zero: int, length: int) -> dict[int, Lane]:
    """Thread -> lane: a process's together, its oldest thread first."""
    homes = set(walk.home.values())
    threads: dict[int, list[int]] = {}  # process -> its threads
    spans = {}
    for thread, process in walk.processes.items():
        its = _spans(walk.deeds.get(thread, []), zero, length)
        if process in homes and its:
            threads.setdefault(process, []).append(thread)
            spans[thread] = its
    lanes = {}
    for worker, process in enumerate(sorted(threads)):
        number = itertools.count(1)
        for thread in threads[process]:
            kind = TIMER if thread in walk.timers else "thread"
            words = [f"worker {worker + 1}"] if len(threads) > 1 else []
            if thread != process:
                words.append(f"{kind} {next(number)}")
            name = ", ".join(words) or "main"
            lanes[thread] = Lane(name, worker, spans[thread])
    return lanes


def _client(
    walk: _Walk, place: int, seen: Moments, zero: int, places: dict[int, int]
) -> Client:
    """A client's moments; they must be in an order that is possible."""
    _, *client = astuple(seen)  # all but its port
    times = [walk.accepted[place], walk.read[place], walk.answered[place]]
    orders = (
        client, times, [seen.begun, times[0]], [seen.sent, times[1]],
        [times[2], seen.first_byte],
    )
    if any(order != sorted(order) for order in orders):
        raise TimelineError("the clocks of a client and of strace differ")
    lane = places.get(walk.thread.get(place, 0))
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
            ("work", deed.end, until, deed.after),
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

    A short wait, such as for Python's lock, becomes work; short work
    for nobody, or for another client, joins the work before it. What
    was accepted, received and sent stays.
    """
    found: list[Span] = []
    for span in spans:
        short = span.end - span.begin < tiny
        kind = "work" if short and span.kind == "wait" else span.kind
        last = found[-1] if found else None
        if last and last.kind == kind and last.end == span.begin:
            joins = kind == "work" and short and span.client == NOBODY
            if last.client == span.client or joins:
                found[-1] = Span(kind, last.begin, span.end, last.client)
                continue
        found.append(Span(kind, span.begin, span.end, span.client))
    return tuple(found)


# io_uring ----------------------------------------------------------------


def _from_rings(
    walk: _Walk, calls: Sequence[Call], moments: Sequence[Moments],
    delay: float, owners: dict[int, int],
) -> None:
    """The moments of clients that are served over io_uring.

    Accepting, receiving and sending are no system calls there: the
    kernel does them, and io_uring_enter hands over what to do next and
    returns with what is done. So they are taken from its begins and
    ends: a connection is accepted when the first call returns after the
    client has sent (until then the kernel holds it back), its receive is
    handed over by the next one, and so on. How many operations a call
    hands over tells how many connections the one before has brought.
    """
    for process in dict.fromkeys(owners.values()):
        enters = [
            call for call in calls
            if call.thread == process and call.name == "io_uring_enter"
        ]
        sent = {
            place: each.sent for place, each in enumerate(moments)
            if owners.get(each.port) == process
        }
        _follow_ring(walk, enters, sent, round(delay * 1e6))
        for place in sent:
            walk.home[place] = walk.thread[place] = process


def _follow_ring(
    walk: _Walk, enters: list[Call], sent: dict[int, int], delay: int
) -> None:
    """The moments of one ring's clients; sent: client -> when it sent."""
    waiting = sorted(sent, key=lambda place: sent[place])
    receiving: list[int] = []
    timed: dict[int, int] = {}  # client -> when its time is over
    over: list[int] = []
    for enter, following in itertools.zip_longest(enters, enters[1:]):
        for place in over:  # this call hands the responses over
            walk.answered[place] = enter.begin
        if enter.end is None:
            return
        for place in receiving:
            walk.read[place] = enter.end
        room = 0
        if following:
            due = following.begin + delay
            timed.update(dict.fromkeys(receiving, due))
            room = max(following.submitted - len(receiving), 0)
        come = [place for place in waiting if sent[place] <= enter.end]
        receiving = come[:room]
        waiting = [place for place in waiting if place not in receiving]
        walk.accepted.update(dict.fromkeys(receiving, enter.end))
        over = [place for place, due in timed.items() if due <= enter.end]
        for place in over:
            del timed[place]
