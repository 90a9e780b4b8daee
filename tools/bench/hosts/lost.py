"""Why was a request lost, and may it be sent again?

The taps have seen which requests arrived at a host, and on which
connection. What arrived nowhere may always be sent again. What arrived may
have been executed: then it may be repeated only by who knows that twice
does no harm, as with GET.
"""

from collections.abc import Sequence

from tools.bench.hosts.rig import Answers, Rig
from tools.bench.hosts.tap import Tap

UNSENT = "unsent"  # arrived nowhere: refused, or no host was up
NEW = "new"  # arrived on a new connection that ended without an answer
KEPT = "kept"  # arrived on a kept connection that was closed under it
HUNG = "hung"  # arrived, and nothing happened until somebody gave up
CAUSES = (UNSENT, NEW, KEPT, HUNG)
HUNG_SECONDS = 1.5


def causes(rig: Rig, responses: Answers) -> dict[str, float]:
    """How many of a load were lost, by cause; without cables: nothing."""
    if not rig.cabled:
        return {}
    taps = [host.tap for host in rig.hosts]
    found = dict.fromkeys(CAUSES, 0.0)
    for number, row in enumerate(responses.rows, rig.numbers.start):
        if row[2] != "ok":
            found[cause(number, row[1], taps)] += 1
    return {f"cause_{name}": many for name, many in found.items()}


def cause(number: int, seconds: float, taps: Sequence[Tap]) -> str:
    """Why this request was lost. seconds: how long that took."""
    places = [
        (tap, head) for tap in taps for seen, head in tap.seen.copy()
        if seen == number
    ]
    if not places:
        return UNSENT
    if seconds > HUNG_SECONDS:
        return HUNG
    return NEW if all(is_first(*place) for place in places) else KEPT


def is_first(tap: Tap, head: bytes) -> bool:
    """Is it the first request of its connection?

    head: ports and sequence number, as the tap keeps them.
    """
    at = int.from_bytes(head[4:])
    before = (
        (at - int.from_bytes(other[4:])) % 2**32
        for _, other in tap.seen.copy() if other[:4] == head[:4]
    )
    return not any(0 < distance < 2**31 for distance in before)
