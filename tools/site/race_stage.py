"""The stage of the player: where each request is, and when it moves.

Three boxes: waiting, at work, answered. The middle one is the same for all
servers: a ring for each thread that waits for one request at a time, and
a shelf a process for the requests that no thread waits for. All of it
follows the recording, nothing is known about servers here.
"""

from dataclasses import dataclass
from html import escape

from tools.data.recording import TIMER, Client, Recording
from tools.site import race_lines

FEW = 10  # so many rings are drawn larger

# Where a dot is; a ring is followed by the number of its lane.
WAITING, RING, SHELF, ANSWERED = "w", "r", "s", "d"
# How a dot looks, by the letter of its state: in the accept queue or not
# there yet, accepted but not read, read, being sent the response, done.
QUEUED, ACCEPTED, WORKED, ANSWERING, DONE = "q", "a", "k", "s", "d"

Hold = tuple[int, int]  # since when (µs), in which lane


@dataclass(frozen=True)
class Stage:
    """The middle box and how every dot moves through all three.

    rings: the lanes that have one; shelves: of each, its clients; label:
    what stands above; moves: of each client, when (µs) its dot changes
    and what it is then, a place and a state.
    """

    rings: list[int]
    shelves: list[list[int]]
    label: str
    moves: list[list[tuple[int, str]]]


def stage(recording: Recording) -> Stage:
    """Find rings, shelves and moves of a recording."""
    rings = sorted(race_lines.singles(recording))
    holds = _holds(rings, recording)
    # Does a request that is read stay long without a thread?
    long = recording.delay * 1e6 / 4
    queue = any(
        since - recording.clients[client].read > long
        for client, (since, _) in holds.items()
    )
    shelves: dict[int, list[int]] = {}  # process -> clients
    moves = []
    for at, client in enumerate(recording.clients):
        events = [(client.accepted, "", ACCEPTED)]
        if queue or not rings:
            worker = 0 if rings else recording.lanes[client.lane].worker
            shelves.setdefault(worker, []).append(at)
            events.append((client.read, SHELF, WORKED))
            if at in holds:
                since, lane = holds[at]
                left = _left(holds[at], holds, client)
                events += [(since, f"{RING}{lane}", ""), (left, SHELF, "")]
        else:
            usual = client.lane if client.lane in rings else rings[0]
            _, lane = holds.get(at, (0, usual))
            events.append((client.read, f"{RING}{lane}", WORKED))
        events += [
            (client.answered, "", ANSWERING), (client.done, ANSWERED, DONE),
        ]  # fmt: skip
        moves.append(_moves(events))
    groups = [shelves[worker] for worker in sorted(shelves)]
    return Stage(rings, groups, _label(rings, groups, recording), moves)


def _label(
    rings: list[int], shelves: list[list[int]], recording: Recording
) -> str:
    if len(shelves) > 1:
        return f"parked by {len(shelves)} workers"
    if not rings:
        return "parked by one thread"
    if all(TIMER in recording.lanes[at].name.split() for at in rings):
        return f"{len(rings)} timer threads beside the loop"
    threads = "one thread" if len(rings) == 1 else f"{len(rings)} threads"
    return f"{threads} and a queue" if shelves else threads


def _holds(rings: list[int], recording: Recording) -> dict[int, Hold]:
    """Client -> the thread that begins to wait for it first."""
    waits = sorted(
        (span.begin, lane, span.client)
        for lane in rings
        for span in recording.lanes[lane].spans
        if race_lines.sleeps(span, recording)
    )
    return {client: (begin, lane) for begin, lane, client in reversed(waits)}


def _left(hold: Hold, holds: dict[int, Hold], client: Client) -> int:
    """When the next request comes to the same ring; at the latest, done.

    A request that is still there then makes room.
    """
    since, ring = hold
    later = [
        begin for begin, lane in holds.values()
        if lane == ring and begin > since
    ]
    return min([*later, client.done])


def _moves(events: list[tuple[int, str, str]]) -> list[tuple[int, str]]:
    """When something changes, with what a dot is from then on."""
    place, state = WAITING, QUEUED
    found = {0: place + state}
    for at, new_place, new_state in sorted(events, key=lambda each: each[0]):
        place, state = new_place or place, new_state or state
        found[at] = place + state
    return list(found.items())


def html(made: Stage, recording: Recording) -> str:
    """The three boxes as they are at the end: every client is answered."""
    clients = range(len(made.moves))
    waiting = "".join(_slot(f"{WAITING}{at}") for at in clients)
    answered = "".join(
        _slot(
            f"{ANSWERED}{at}",
            f'<b class="race-dot" data-state="{DONE}">{at + 1}</b>',
        )
        for at in sorted(clients, key=lambda at: recording.clients[at].done)
    )
    return (
        '<div class="race-stage" role="img" '
        'aria-label="Where each request is. Waiting: none. At work: none. '
        f'Answered: 1 to {len(clients)}.">'
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
    parts = ""
    for at, clients in enumerate(made.shelves, 1):
        several = len(made.shelves) > 1
        name = f"worker {at}" if several else "the loop's shelf"
        slots = "".join(_slot(f"{SHELF}{client}") for client in clients)
        parts += (
            '<span class="race-shelf"><span class="race-shelf__name">'
            f"{'queue' if made.rings else name}</span>{_cells(slots)}</span>"
        )
    if made.rings:
        few = " race-rings--few" if len(made.rings) <= FEW else ""
        rings = "".join(
            f'<span class="race-ring" data-slot="{RING}{lane}"></span>'
            for lane in made.rings
        )
        parts += f'<span class="race-rings{few}">{rings}</span>'
    return f'<span class="race-middle">{parts}</span>'
