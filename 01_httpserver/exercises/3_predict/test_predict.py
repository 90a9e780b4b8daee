"""01.3: predictions, against what was measured for this site.

The measured figures are never shown: a miss is explained instead.
"""

from typing import Any

from tools.data import results
from tools.learn.student import Wrong

NEAR = 1.3  # as many times too much or too little is near enough
BUSY = 0.05  # of the time: more is not "next to nothing"

Values = dict[str, Any]


def measured(
    suite: str, figure: str, clients: int, server: str = "01"
) -> float:
    """A figure of the reference run."""
    reference = results.load(results.REFERENCE)
    point = reference.find(server, suite, clients)
    value = point.median(figure) if point else None
    assert value is not None, f"{server} {suite} {figure} is not measured"
    return value


def number(values: Values, name: str) -> float:
    """What the student predicts. Raises Wrong if it is no number."""
    found = values.get(name)
    if found is None:
        raise Wrong(
            f"a number for {name}",
            "it is still None" if name in values else "there is none",
        )
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise Wrong(f"a number for {name}", f"it is {found!r}")
    return found


def near(given: float, right: float) -> bool:
    """Are they the same, more or less?"""
    return right / NEAR <= given <= right * NEAR


def expect(
    values: Values, name: str, right: float, why: str,
    slips: dict[float, str] | None = None,
) -> None:
    """A prediction near what was measured.

    why: what to think of, after a miss; slips: numbers that a certain
    thought leads to, and what is wrong with it.
    """
    given = number(values, name)
    if near(given, right):
        return
    for slip, what in (slips or {}).items():
        if near(given, slip):
            why = what
    size = "too much" if given > right else "too little"
    raise Wrong(
        f"{name} near what was measured", f"{given:g} is {size}. {why}"
    )


def test_one_client(values: Values) -> None:
    """RATE_1_CLIENT: answers a second, with one client."""
    expect(
        values, "RATE_1_CLIENT",
        measured("sweep", "requests_per_second", 1),
        "The client asks, waits 0.1 s, has its answer and asks again. How "
        "many times does that fit into a second?",
        {0.1: "0.1 s is how long one takes: how many are that a second?"},
    )


def test_ten_clients(values: Values) -> None:
    """RATE_10_CLIENTS: answers a second, with ten clients."""
    expect(
        values, "RATE_10_CLIENTS",
        measured("classic", "requests_per_second", 10),
        "The server has one place where it can wait, and each answer needs "
        "it for 0.1 s. How many are that a second?",
        {
            100: "Ten clients could get that many, if nobody held up "
            "anybody. For how many of them does the server wait at a time?",
            1: "That is what one of the ten gets. All ten count.",
        },
    )


def test_hundred_clients(values: Values) -> None:
    """RATE_100_CLIENTS: answers a second, with a hundred clients."""
    expect(
        values, "RATE_100_CLIENTS",
        measured("many", "requests_per_second", 100),
        "More clients make a longer line. Does a longer line make the one "
        "at its head faster, or slower?",
        {
            1000: "For that, a hundred waits would have to overlap. This "
            "server waits in one place.",
        },
    )


def test_median(values: Values) -> None:
    """MEDIAN_10_CLIENTS: seconds for half of the answers."""
    expect(
        values, "MEDIAN_10_CLIENTS", measured("classic", "p50", 10) / 1000,
        "Count who stands in front of a client that asks again: each of "
        "them takes 0.1 s, and so does its own request.",
        {
            0.1: "That is its own wait. Who was there before it?",
            0.5: "So it is in the first round, when they all come at once. "
            "After that, each one goes to the end of a line of nine.",
        },
    )


def test_first(values: Values) -> None:
    """FIRST_OF_100: seconds until the first of a hundred is answered."""
    expect(
        values, "FIRST_OF_100", measured("many", "min", 100) / 1000,
        "Nobody is before the first. Those behind it do not slow it down.",
        {10: "The server sends each answer when it is ready. The first "
             "does not have to stay for the others."},
    )


def test_last(values: Values) -> None:
    """LAST_OF_100: seconds until the last of a hundred is answered."""
    expect(
        values, "LAST_OF_100", measured("many", "max", 100) / 1000,
        "Ninety-nine requests of 0.1 s are before it, and then comes its "
        "own.",
        {0.1: "For that, all of them would have to wait at the same time."},
    )


def test_threads(values: Values) -> None:
    """THREADS: how many the server has, with a hundred clients."""
    given = number(values, "THREADS")
    if given != measured("many", "threads", 100):
        raise Wrong(
            "THREADS as it was measured",
            f"{given:g} is wrong. Where in the program are the clients that "
            "wait? Not in it: the kernel holds them in a queue.",
        )


def test_busy(values: Values) -> None:
    """BUSY: what part of the time the processor is at work."""
    given = number(values, "BUSY")
    most = max(BUSY, 3 * measured("classic", "cores", 10))
    if not 0 <= given <= 1:
        raise Wrong("a number from 0 to 1 for BUSY", f"it is {given:g}")
    if given > most:
        raise Wrong(
            "BUSY near what was measured",
            f"{given:g} is too much. Of the 0.1 s of a request the server "
            "sleeps nearly all; a sleeping program gets no processor time.",
        )


def test_bytes(values: Values) -> None:
    """HTML_OF_1000: bytes of HTML in a thousand answers."""
    right = 1000 * measured("classic", "body_bytes", 10)
    given = number(values, "HTML_OF_1000")
    if given != right:
        size = "too much" if given > right else "too little"
        raise Wrong(
            "HTML_OF_1000 to the byte",
            f"{given:g} is {size}. Only bodies count here, no heads. "
            "'curl -s http://127.0.0.1:8000/ | wc -c' counts one.",
        )


def test_by_hand(values: Values) -> None:
    """RATE_BY_HAND: answers a second of server 02, with ten clients."""
    expect(
        values, "RATE_BY_HAND",
        measured("classic", "requests_per_second", 10, server="02"),
        "Half the processor time shortens what the processor does. What "
        "part of the 0.1 s is that?",
        {100: "It waits in one place as well: one connection after the "
              "other."},
    )
