"""07.4: predictions against the recorded measurement and the lessons."""

import json
import statistics
from typing import Any

from tools.data.results import REFERENCE
from tools.learn.student import Wrong
from tools.servers import NO, POOL, SERVERS, YES, Server

Values = dict[str, Any]
CLOSE = 1.5  # a prediction may be so many times too high or too low
NAMES = [server.name for server in SERVERS]

# How its requests get on, in words.
BY_LESSON = {
    NO: "one request after the other, so one at a time waits",
    YES: "the waits overlap, so all the clients wait at once",
    POOL: "threads wait, as many at once as there are",
}


def point(suite: str, name: str) -> dict[str, Any]:
    """What was measured of a server, as recorded."""
    known = json.loads((REFERENCE / "results.json").read_text("utf-8"))
    found: dict[str, Any] = next(
        p for p in known["points"]
        if (p["suite"], p["server"], p.get("variant", "")) == (suite, name, "")
    )
    return found


def median(point: dict[str, Any], figure: str) -> float:
    """The median of a figure over the runs of a point."""
    return float(statistics.median(run[figure] for run in point["runs"]))


def thread_each(name: str) -> bool:
    """Had it as many threads as clients, when there were many?"""
    found = point("many", name)
    return median(found, "threads") >= int(found["clients"])


def expect_rates(values: Values, servers: list[Server]) -> None:
    """The predictions for these servers are close."""
    rates = values.get("RATES")
    if not isinstance(rates, dict):
        raise Wrong("a dictionary RATES", f"it is {rates!r}")
    story = []
    for server in servers:
        guess = rates.get(server.name)
        if isinstance(guess, bool) or not isinstance(guess, int | float):
            raise Wrong(
                f"a number for {server.name} in RATES", f"it is {guess!r}"
            )
        truth = median(point("classic", server.name), "requests_per_second")
        if not truth / CLOSE <= guess <= truth * CLOSE:
            way = "low" if guess < truth else "high"
            why = BY_LESSON[server.lessons["overlap"]]
            story.append(
                f"You say {guess:g} for {server.name}. Too {way}: {why}"
            )
    if story:
        raise Wrong(
            "predictions close to what was measured",
            f"{len(story)} of these {len(servers)} are not",
            story,
        )


def expect_names(
    values: Values, name: str, truth: list[str], too_many: str, missing: str
) -> None:
    """A list names these servers. The reasons say why, if not."""
    found = values.get(name)
    if not isinstance(found, list) or not all(
        isinstance(each, str) for each in found
    ):
        raise Wrong(f"a list of names {name}", f"it is {found!r}")
    if unknown := [each for each in found if each not in NAMES]:
        raise Wrong(
            "names of servers, as " + ", ".join(NAMES[:4]),
            f"there is no {unknown[0]!r}",
        )
    wrong = sorted(set(found) - set(truth))
    left = len(set(truth) - set(found))
    story = [f"{each} is not one of them: {too_many}" for each in wrong]
    if left:
        story.append(f"{left} more should be named: {missing}")
    if story:
        raise Wrong(
            f"the right names in {name}",
            f"wrong: {len(wrong)}, missing: {left}",
            story,
        )


def with_overlap(value: str) -> list[Server]:
    """The servers whose waits overlap, do not, or up to the pool."""
    return [s for s in SERVERS if s.lessons["overlap"] == value]


def test_one_at_a_time(values: Values) -> None:
    """RATES: those that take one request after the other."""
    expect_rates(values, with_overlap(NO))


def test_overlapping(values: Values) -> None:
    """RATES: those whose waits overlap, for any number of clients."""
    expect_rates(values, with_overlap(YES))


def test_pools(values: Values) -> None:
    """RATES: those with a bounded number of threads."""
    expect_rates(values, with_overlap(POOL))


def test_overlap(values: Values) -> None:
    """OVERLAP: those where a hundred waits overlap."""
    truth = [s.name for s in with_overlap(YES)]
    expect_names(
        values, "OVERLAP", truth,
        "something bounds how many of the hundred wait at the same time",
        "think of all that can wait for any number of clients",
    )


def test_threads(values: Values) -> None:
    """THREADS: those with a thread for each of a hundred clients."""
    truth = [name for name in NAMES if thread_each(name)]
    expect_names(
        values, "THREADS", truth,
        "its threads do not grow with the clients, or not for long",
        "who starts a thread for each of them, and ends it again?",
    )


def test_cores(values: Values) -> None:
    """CORES: those that compute on more than one core."""
    truth = [s.name for s in SERVERS if s.lessons["cores"] == YES]
    expect_names(
        values, "CORES", truth,
        "its threads, if it has many, share one interpreter and one GIL",
        "what has several interpreters?",
    )
