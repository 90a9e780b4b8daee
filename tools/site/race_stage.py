"""The stage of the player: where each request is, and when it moves.

Three boxes: waiting, at work, answered. The middle one shows how a server
waits: a ring for each thread that waits for one request, a shelf for the
requests that a loop has parked, a shelf a worker where there are several.
All of it follows the recording, nothing is known about servers here.
"""

import itertools
from dataclasses import dataclass
from html import escape

from tools.data.recording import TIMER, Recording
from tools.site import race_lines

FEW = 10  # so many rings are drawn larger

# What a dot looks like, by the letter of its state.
QUEUED = "q"  # in the kernel's accept queue, or not there yet
ACCEPTED = "a"  # accepted, its request not read
WORKED = "k"  # read, not answered yet
ANSWERING = "s"  # the answer has begun
DONE = "d"  # the client has its answer

# Where a dot is; a ring is followed by the number of its lane.
WAITING, RING, SHELF, ANSWERED = "w", "r", "s", "d"


@dataclass(frozen=True)
class Move:
    """A dot goes somewhere at a time in µs."""

    at: int
    place: str
    state: str


@dataclass(frozen=True)
class Stage:
    """The middle box and how every dot moves through all three.

    rings: the lanes that have one; groups: for each worker that parks
    requests, which (the places in `Recording.clients`); moves: for each
    client its moves in order of time; timers: do the threads of the rings
    nothing but wait, beside a loop that does the rest?
    """

    rings: list[int]
    groups: list[list[int]]
    moves: list[list[Move]]
    timers: bool = False

    @property
    def family(self) -> str:
        """What is seen at a glance, as a word for classes and tests."""
        if not self.rings:
            return "workers" if len(self.groups) > 1 else "loop"
        if self.groups:
            return "queue"
        if self.timers:
            return "timers"
        return "threads" if len(self.rings) > 1 else "one"

    @property
    def label(self) -> str:
        """What stands above the middle box."""
        threads = len(self.rings)
        return {
            "one": "one thread",
            "threads": f"{threads} threads",
            "queue": f"{threads} threads and a queue",
            "timers": f"{threads} timer threads beside the loop",
            "loop": "parked by one thread",
            "workers": f"parked by {len(self.groups)} workers",
        }[self.family]


Hold = tuple[int, int]  # since when, in which lane
Change = tuple[int, str]  # when, and what is so from then on


def stage(recording: Recording) -> Stage:
    """Find rings, shelves and moves of a recording."""
    rings = sorted(race_lines.singles(recording))
    lanes = recording.lanes
    holds = _holds(rings, recording)
    # Does a request that is read stay long without a thread?
    long = recording.delay * 1e6 / 4
    queue = any(
        begin - recording.clients[client].read > long
        for client, (begin, _) in holds.items()
    )
    shelf = queue or not rings
    groups: dict[int, list[int]] = {}
    moves = []
    for client, its in enumerate(recording.clients):
        where = [(0, WAITING)]
        first = its.lane if its.lane in rings else min(rings, default=0)
        hold = holds.get(client, (its.read, first))
        if shelf:
            worker = 0 if rings else lanes[its.lane].worker
            groups.setdefault(worker, []).append(client)
            where.append((its.read, SHELF))
            if client in holds:
                # Who is still there when the next comes makes room.
                where.append((hold[0], f"{RING}{hold[1]}"))
                where.append((_left(hold, holds, its.done), SHELF))
        else:
            where.append((its.read, f"{RING}{hold[1]}"))
        where.append((its.done, ANSWERED))
        looks = [
            (0, QUEUED), (its.accepted, ACCEPTED), (its.read, WORKED),
            (its.answered, ANSWERING), (its.done, DONE),
        ]  # fmt: skip
        moves.append(_moves(where, looks))
    timers = bool(rings) and all(
        TIMER in lanes[lane].name.split() for lane in rings
    )
    return Stage(rings, [groups[at] for at in sorted(groups)], moves, timers)


def _holds(rings: list[int], recording: Recording) -> dict[int, Hold]:
    """Client -> the thread that begins to wait for it first."""
    waits = sorted(
        (span.begin, lane, span.client)
        for lane in rings
        for span in recording.lanes[lane].spans
        if span.kind == "wait"
        and race_lines.phase(span, recording) == race_lines.DURING
    )
    return {client: (begin, lane) for begin, lane, client in reversed(waits)}


def _left(hold: Hold, holds: dict[int, Hold], end: int) -> int:
    """When the next request comes to the same ring; at the latest, end."""
    later = [
        begin for begin, lane in holds.values()
        if lane == hold[1] and begin > hold[0]
    ]
    return min([*later, end])


def _moves(where: list[Change], looks: list[Change]) -> list[Move]:
    """Both lists as one: at each time, where a dot is and how it looks."""
    places, states = _in_order(where), _in_order(looks)
    return [
        Move(at, _last(places, at), _last(states, at))
        for at in sorted({at for at, _ in places + states})
    ]


def _in_order(changes: list[Change]) -> list[Change]:
    """Nothing before what it follows, whatever the clock said."""
    times = itertools.accumulate((at for at, _ in changes), max)
    return [
        (at, what) for at, (_, what) in zip(times, changes, strict=True)
    ]


def _last(changes: list[Change], now: int) -> str:
    return [what for at, what in changes if at <= now][-1]


def html(made: Stage, recording: Recording, number: int) -> str:
    """The three boxes as they are at the end: everybody is answered.

    number: of the run in its race; a script finds the stage by it.
    """
    clients = range(len(made.moves))
    waiting = "".join(_slot(f"w{at}") for at in clients)
    answered = "".join(
        _slot(f"d{at}", f'<b class="race-dot" data-state="d">{at + 1}</b>')
        for at in sorted(clients, key=lambda at: recording.clients[at].done)
    )
    return (
        '<div class="race-stage" role="img" '
        'aria-label="Where each request is. Waiting: none. At work: none. '
        f'Answered: 1 to {len(clients)}." '
        f'data-family="{made.family}" data-run="{number}">'
        f"{_box('waiting', 'waiting', _cells(waiting))}"
        f"{_box('work', f'at work: {made.label}', _middle(made))}"
        f"{_box('answered', 'answered', _cells(answered))}"
        "</div>"
    )


def _box(name: str, label: str, content: str) -> str:
    return (
        f'<div class="race-box race-box--{name}">'
        f'<span class="race-label">{escape(label)}</span>{content}</div>'
    )


def _cells(slots: str) -> str:
    return f'<span class="race-cells">{slots}</span>'


def _slot(name: str, content: str = "") -> str:
    return f'<span class="race-slot" data-slot="{name}">{content}</span>'


def _middle(made: Stage) -> str:
    """Shelves, and behind them the rings."""
    parts = []
    for at, clients in enumerate(made.groups, 1):
        name = "queue" if made.rings else "the loop's shelf"
        if made.family == "workers":
            name = f"worker {at}"
        slots = "".join(_slot(f"s{client}") for client in clients)
        parts.append(
            '<span class="race-shelf"><span class="race-shelf__name">'
            f"{name}</span>{_cells(slots)}</span>"
        )
    if made.rings:
        few = " race-rings--few" if len(made.rings) <= FEW else ""
        rings = "".join(
            f'<span class="race-ring" data-slot="r{lane}"></span>'
            for lane in made.rings
        )
        parts.append(f'<span class="race-rings{few}">{rings}</span>')
    return f'<span class="race-middle">{"".join(parts)}</span>'
