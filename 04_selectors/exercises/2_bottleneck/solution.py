"""Exercise 04.2: find the bottleneck.

The tables are beside this file, so Python may count for us.
"""

from pathlib import Path

Table = list[dict[str, float]]


def read(name: str) -> Table:
    """A table: for each client the values of its line."""
    lines = Path(__file__).with_name(name).read_text().splitlines()
    heads, *rows = [x.split() for x in lines if not x.startswith("#")]
    return [
        dict(zip(heads, map(float, row), strict=True)) for row in rows
    ]


def at_once(table: Table) -> int:
    """The most requests in service: look when each one is read."""
    return max(
        sum(b["read"] <= a["read"] < b["answered"] for b in table)
        for a in table
    )


def not_accepted(table: Table) -> int:
    """How many wait to be accepted when client 1 is answered."""
    moment = table[0]["answered"]
    return sum(c["sent"] <= moment < c["accepted"] for c in table)


def took(table: Table) -> float:
    """How long the last client waited, in ms."""
    return table[-1]["done"] - table[-1]["sent"]


def unread(table: Table) -> float:
    """How long of it its request was not read, in ms."""
    return table[-1]["read"] - table[-1]["sent"]


A, B, C, D = map(read, ("a.txt", "b.txt", "c.txt", "d.txt"))

AT_ONCE_A = at_once(A)
AT_ONCE_B = at_once(B)
AT_ONCE_C = at_once(C)
AT_ONCE_D = at_once(D)

NOT_ACCEPTED_A = not_accepted(A)
NOT_ACCEPTED_C = not_accepted(C)

SERVER_A = "04"  # one at a time, but all accepted at the beginning
SERVER_B = "03-pool"  # ten at once, and each thread twice
SERVER_C = "02"  # one at a time, accepted one at a time
SERVER_D = "03"  # twenty at once, on twenty threads

LAST_A = took(A)
UNREAD_A = unread(A)
LAST_B = took(B)
UNREAD_B = unread(B)

BOTTLENECK_A = "work in the loop"
BOTTLENECK_B = "too few threads"
BOTTLENECK_C = "one at a time"
BOTTLENECK_D = "its own work"

LAST_OF_40_A = 2 * A[-1]["done"]  # forty waits in a row
LAST_OF_40_B = 2 * B[-1]["done"]  # four rounds of ten
LAST_OF_40_C = 2 * C[-1]["done"]
# One round; but a thread has to be started for each of them.
LAST_OF_40_D = D[-1]["done"] + D[-1]["accepted"]
