"""04.2: what four recordings say, against the recordings themselves."""

import math
from pathlib import Path
from typing import Any

from tools.learn.student import Wrong
from tools.learn.tables import RECORDED as SERVERS

Values = dict[str, Any]
Table = list[dict[str, float]]
BOTTLENECKS = {
    "A": "work in the loop", "B": "too few threads",
    "C": "one at a time", "D": "its own work",
}
CLOSE = 1.0  # ms: as far off as a reading may be
NEAR = 1.25  # as many times too much or too little for a prediction


def recorded(letter: str) -> Table:
    """The table that the student has beside the answers."""
    path = Path(__file__).with_name(f"{letter.lower()}.txt")
    lines = path.read_text("utf-8").splitlines()
    heads, *rows = [x.split() for x in lines if not x.startswith("#")]
    return [dict(zip(heads, map(float, row), strict=True)) for row in rows]


def number(values: Values, name: str, what: str) -> float:
    """A number that the student gives. Raises Wrong if it is none."""
    found = values.get(name)
    if found is None:
        raise Wrong(f"for {name}: {what}", "it is still None")
    if (
        isinstance(found, bool) or not isinstance(found, int | float)
        or not math.isfinite(found)
    ):
        raise Wrong(f"for {name}: {what}", f"it is {found!r}")
    return found


def count(values: Values, name: str, what: str, right: int) -> None:
    """A number that can be counted. Raises Wrong if it is another."""
    if (found := number(values, name, what)) != right:
        size = "too many" if found > right else "too few"
        raise Wrong(f"for {name}: {what}", f"{found:g} is {size}")


def word(
    values: Values, name: str, right: str, known: dict[str, str], why: str
) -> None:
    """One of the known words. Raises Wrong, with why, if another."""
    words = ", ".join(f'"{each}"' for each in sorted(known.values()))
    found = values.get(name)
    if found not in known.values():
        came = "it is still None" if found is None else f"it is {found!r}"
        raise Wrong(f"for {name} one of {words}", came)
    if found != right:
        raise Wrong(f"for {name} what fits the table", f"{found!r}: {why}")


def at_once(table: Table) -> int:
    """The most requests in service at the same moment."""
    return max(
        sum(other["read"] <= one["read"] < other["answered"]
            for other in table)
        for one in table
    )


def test_at_once(values: Values) -> None:
    """AT_ONCE: how many requests are in service at the same moment."""
    for letter in SERVERS:
        count(
            values, f"AT_ONCE_{letter}",
            f"the most requests of {letter.lower()}.txt that are read and "
            "not yet answered, at one moment",
            at_once(recorded(letter)),
        )


def test_not_accepted(values: Values) -> None:
    """NOT_ACCEPTED: who is still waiting to be accepted."""
    for letter in "AC":
        table = recorded(letter)
        moment = table[0]["answered"]
        count(
            values, f"NOT_ACCEPTED_{letter}",
            f"the clients of {letter.lower()}.txt that have sent and are "
            "not accepted when client 1 is answered",
            sum(c["sent"] <= moment < c["accepted"] for c in table),
        )


def test_servers(values: Values) -> None:
    """SERVER: whose recording it is."""
    why = (
        "look how many are in service at once, when they are accepted, and "
        "how many threads there are"
    )
    for letter, server in SERVERS.items():
        word(values, f"SERVER_{letter}", server, SERVERS, why)


def test_last(values: Values) -> None:
    """LAST, UNREAD: where the last client's time goes."""
    for letter in "AB":
        last = recorded(letter)[-1]
        for name, what, right in (
            ("LAST", "milliseconds from sent to done",
             last["done"] - last["sent"]),
            ("UNREAD", "milliseconds from sent to read",
             last["read"] - last["sent"]),
        ):
            name = f"{name}_{letter}"
            what = f"the last client's {what} in {letter.lower()}.txt"
            found = number(values, name, what)
            if abs(found - right) > CLOSE:
                size = "too much" if found > right else "too little"
                raise Wrong(f"for {name}: {what}", f"{found:g} is {size}")


def test_bottleneck(values: Values) -> None:
    """BOTTLENECK: what the last client waits for."""
    why = (
        "compare the last client's time until it is read with the time it "
        "is in service, and ask who is in service meanwhile"
    )
    for letter, right in BOTTLENECKS.items():
        word(values, f"BOTTLENECK_{letter}", right, BOTTLENECKS, why)


def test_forty(values: Values) -> None:
    """LAST_OF_40: when the last of forty clients is done."""
    for letter in SERVERS:
        table = recorded(letter)
        now = max(client["done"] for client in table)
        # Whoever has a thread each starts twenty more of them.
        more = table[-1]["accepted"] if letter == "D" else now
        name = f"LAST_OF_40_{letter}"
        what = f"milliseconds until the last of 40 clients of {letter} is done"
        found = number(values, name, what)
        if not (now + more) / NEAR <= found <= (now + more) * NEAR:
            size = "too much" if found > now + more else "too little"
            raise Wrong(
                f"for {name}: {what}, more or less",
                f"{found:g} is {size}: how many can be in service at once, "
                "and how many rounds are that?",
            )
