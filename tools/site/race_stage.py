"""The stage of the player: where each request is, and when it moves.

Three boxes: waiting, at work, answered. The middle one is the same for all
servers: a ring for each thread that waits for one request at a time, and
a shelf a process for the requests that no thread waits for. All of it
follows the recording, nothing is known about servers here.
"""

from dataclasses import dataclass

from tools.data.recording import TIMER, Client, Recording
from tools.site import race_lines

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
    and what it is then, a place and a state; order: in which they end.
    """

    rings: list[int]
    shelves: list[list[int]]
    label: str
    moves: list[list[tuple[int, str]]]
    order: list[int]


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
    clients = recording.clients
    order = sorted(range(len(clients)), key=lambda at: clients[at].done)
    label = _label(rings, groups, recording)
    return Stage(rings, groups, label, moves, order)


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
