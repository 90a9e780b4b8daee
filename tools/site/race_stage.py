"""The stage of the player: where each request is, and when it moves.

Three boxes: waiting, at work, answered. The middle one shows how a server
waits: a ring for each thread that waits for one request, a shelf for the
requests that a loop has parked, a shelf a worker where there are several.
All of it follows the recording, nothing is known about servers here.
"""

import itertools
from dataclasses import dataclass
from html import escape

from tools.data.recording import TIMER, Client, Recording
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


def stage(recording: Recording) -> Stage:
    """Find rings, shelves and moves of a recording."""
    rings = sorted(race_lines.singles(recording))
    held = [_held(at, rings, recording) for at in range(
        len(recording.clients)
    )]
    queue = bool(rings) and _waits_for_a_thread(held, recording)
    shelf = queue or not rings
    moves = [
        _moves(client, hold, shelf, rings)
        for client, hold in zip(recording.clients, held, strict=True)
    ]
    if queue:
        _make_room(moves)
    timers = bool(rings) and all(
        TIMER in recording.lanes[lane].name.split() for lane in rings
    )
    return Stage(rings, _groups(moves, recording), moves, timers)


def _held(
    client: int, rings: list[int], recording: Recording
) -> tuple[int, int] | None:
    """The thread that begins to wait for a client first, and when."""
    found = [
        (span.begin, lane)
        for lane in rings
        for span in recording.lanes[lane].spans
        if span.client == client
        and span.kind == "wait"
        and race_lines.phase(span, recording) == race_lines.DURING
    ]
    if not found:
        return None
    begin, lane = min(found)
    return lane, begin


def _waits_for_a_thread(
    held: list[tuple[int, int] | None], recording: Recording
) -> bool:
    """Does a request that is read stay long without a thread?"""
    long = recording.delay * 1e6 / 4
    return any(
        hold is not None and hold[1] - client.read > long
        for client, hold in zip(recording.clients, held, strict=True)
    )


def _moves(
    client: Client, hold: tuple[int, int] | None, shelf: bool,
    rings: list[int],
) -> list[Move]:
    moves = [
        Move(0, WAITING, QUEUED),
        Move(client.accepted, WAITING, ACCEPTED),
    ]
    if hold is None:
        lane = client.lane if client.lane in rings else min(rings, default=0)
        place = SHELF if shelf else f"{RING}{lane}"
        moves.append(Move(client.read, place, WORKED))
    else:
        place = f"{RING}{hold[0]}"
        if shelf:
            moves.append(Move(client.read, SHELF, WORKED))
            moves.append(Move(hold[1], place, WORKED))
        else:
            moves.append(Move(client.read, place, WORKED))
    moves.append(Move(client.answered, place, ANSWERING))
    moves.append(Move(client.done, ANSWERED, DONE))
    return _in_order(moves)


def _in_order(moves: list[Move]) -> list[Move]:
    """No move before the one it follows, whatever the clock said."""
    latest = 0
    ordered = []
    for move in moves:
        latest = max(latest, move.at)
        ordered.append(Move(latest, move.place, move.state))
    return ordered


def _make_room(moves: list[list[Move]]) -> None:
    """Who is still in a ring when the next comes goes to the shelf."""
    comes: dict[str, list[tuple[int, int]]] = {}
    for client, its in enumerate(moves):
        first = next((m for m in its if m.place.startswith(RING)), None)
        if first is not None:
            comes.setdefault(first.place, []).append((first.at, client))
    for place, visits in comes.items():
        for (_, client), (leave, _) in itertools.pairwise(sorted(visits)):
            moves[client] = _leave(moves[client], place, leave)


def _leave(moves: list[Move], place: str, leave: int) -> list[Move]:
    changed = []
    gone = False
    for move, after in zip(moves, [*moves[1:], None], strict=True):
        if move.place != place:
            changed.append(move)
        elif move.at >= leave:
            changed.append(
                Move(move.at, SHELF, move.state) if not gone else move
            )
        else:
            changed.append(move)
            if after is None or after.at > leave:
                changed.append(Move(leave, SHELF, move.state))
    return changed


def _groups(
    moves: list[list[Move]], recording: Recording
) -> list[list[int]]:
    """Which clients are ever on a shelf, by the worker that has them."""
    workers: dict[int, list[int]] = {}
    for client, its in enumerate(moves):
        if any(move.place == SHELF for move in its):
            lane = recording.lanes[recording.clients[client].lane]
            workers.setdefault(lane.worker, []).append(client)
    groups = [workers[worker] for worker in sorted(workers)]
    if any(m.place.startswith(RING) for its in moves for m in its):
        return [sorted(itertools.chain(*groups))] if groups else []
    return groups


def ranges(numbers: list[int]) -> str:
    """Numbers in order in a few words: ``1 to 4, 7``; none: ``none``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = [
        f"{p[0]}" if len(p) == 1 else f"{p[0]} to {p[-1]}" for p in parts
    ]
    return ", ".join(words) or "none"


def html(made: Stage, recording: Recording, number: int) -> str:
    """The three boxes as they are at the end: everybody is answered.

    number: of the run in its race; a script finds the stage by it.
    """
    count = len(made.moves)
    order = sorted(
        range(count), key=lambda at: (recording.clients[at].done, at)
    )
    answered = "".join(
        _slot(f"d{at}", f'<b class="race-dot" data-state="d">{at + 1}</b>')
        for at in order
    )
    waiting = "".join(_slot(f"w{at}") for at in range(count))
    label = (
        "Where each request is. Waiting: none. At work: none. "
        f"Answered: {ranges([at + 1 for at in range(count)])}."
    )
    return (
        f'<div class="race-stage" role="img" aria-label="{escape(label)}" '
        f'data-family="{made.family}" data-run="{number}">'
        f"{_box('waiting', 'waiting', _cells(waiting))}"
        f"{_box('work', f'at work: {made.label}', _middle(made, recording))}"
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


def _middle(made: Stage, recording: Recording) -> str:
    """Rings and shelves."""
    rings = "".join(
        f'<span class="race-ring" data-slot="r{lane}"></span>'
        for lane in made.rings
    )
    parts = []
    several = made.family == "workers"
    for at, clients in enumerate(made.groups, 1):
        slots = "".join(_slot(f"s{client}") for client in clients)
        name = (
            f"worker {at}" if several
            else "queue" if made.rings else "the loop's shelf"
        )
        parts.append(
            f'<span class="race-shelf"><span class="race-shelf__name">'
            f"{name}</span>{_cells(slots)}</span>"
        )
    if rings:  # behind the queue for them
        few = " race-rings--few" if len(made.rings) <= FEW else ""
        parts.append(f'<span class="race-rings{few}">{rings}</span>')
    return f'<span class="race-middle">{"".join(parts)}</span>'
