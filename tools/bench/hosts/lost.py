"""Why was a request lost, and may it be sent again?

The taps have seen which requests came to a host, and on which connection.
What came to no host may always be sent again. What came to one may have
been executed: only the client knows whether it may be sent again.
"""

from collections.abc import Sequence

from tools.bench.hosts.load import Row
from tools.bench.hosts.rig import Host
from tools.bench.hosts.tap import Tap

# Why, in the order of the pages.
UNSENT = "unsent"  # no host got it: nobody listened, or none was up
NEW = "new"  # sent on a new connection that ended unanswered
KEPT = "kept"  # sent on a kept connection that was closed under it
HUNG = "hung"  # sent, and nothing happened until somebody gave up
CAUSES = (UNSENT, NEW, KEPT, HUNG)
HUNG_SECONDS = 1.5


def causes(
    rows: Sequence[Row], hosts: Sequence[Host], first: int = 0
) -> dict[str, float]:
    """How many requests were lost, by cause; without taps: nothing.

    rows: all of a load, the earliest first; first: the number of its
    first request.
    """
    taps = [host.tap for host in hosts if host.tap]
    if not taps:
        return {}
    found = dict.fromkeys(CAUSES, 0.0)
    for number, row in enumerate(rows, first):
        if row[2] != "ok":
            found[cause(number, row, taps)] += 1
    return {f"cause_{name}": many for name, many in found.items()}


def cause(number: int, row: Row, taps: Sequence[Tap]) -> str:
    """Why this one was lost."""
    places = [
        (tap, head) for tap in taps for seen, head in tap.seen
        if seen == number
    ]
    if not places:
        return UNSENT
    if row[1] > HUNG_SECONDS:
        return HUNG
    return KEPT if any(not is_first(*place) for place in places) else NEW


def is_first(tap: Tap, head: bytes) -> bool:
    """Is it the first request of its connection?

    head: ports and sequence number, as a tap keeps them.
    """
    ports, at = head[:4], int.from_bytes(head[4:])
    return not any(
        other[:4] == ports and 0 < (at - int.from_bytes(other[4:])) % 2**32
        < 2**31
        for _, other in tap.seen
    )
