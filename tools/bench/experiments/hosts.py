"""``./bench.sh hosts``: three hosts behind HAProxy, on one machine.

Each run of a case is a process in namespaces of its own (see
`tools.bench.hosts`); here it is started, and ended whatever happens.
"""

import argparse
import json
import math
import socket
import sys
from collections.abc import Iterator
from functools import partial

from tools.bench.experiments import lab
from tools.bench.experiments.lab import LabError
from tools.bench.hosts import balancer
from tools.bench.hosts.experiments import BY_NAME
from tools.bench.hosts.rig import Case, entry
from tools.bench.outcome import keep_raw
from tools.bench.preflight import obtain
from tools.bench.session import Refused, Session, Work, add_options, some_of
from tools.bench.table import figure, title_of
from tools.data.results import Point, Run

HELP = (
    "three hosts behind a balancer: restarts, deaths, overload (ten minutes)"
)
INSIDE = "tools.bench.hosts"
REST_SECONDS = 240  # for a run beside its load, on a busy machine
LAG_MS = 150.0  # a load that sent later than this was disturbed
AGAIN = 2  # times, if so
CABLE, LOOPBACK = "cable", "loopback"


def prepare(parser: argparse.ArgumentParser) -> None:
    """The names of the experiments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "\n".join(
        [HELP, "", *(f"  {name}: {m.HELP}" for name, m in BY_NAME.items())]
    )
    parser.set_defaults(load="python")
    parser.add_argument(
        "names", nargs="*", type=some_of([*BY_NAME], "experiment"),
        metavar="NAME", help=f"{', '.join(BY_NAME)} (default: all)",
    )
    add_options(parser, [("--smoke", {
        "action": "store_true",
        "help": "less and shorter, to see that it works (a minute)",
    })])  # fmt: skip


def measure(session: Session) -> int:
    """All cases of the experiments that are asked for."""
    options = session.options
    named = {name for names in options.names for name in names} or {*BY_NAME}
    if options.reference and (options.smoke or len(named) < len(BY_NAME)):
        raise Refused("--reference needs all of hosts, and not --smoke")
    version = balancer.version
    if not obtain(
        session.console, "HAProxy", version, "from haproxy.org", "haproxy"
    ):
        return 1
    found = session.results.tools["haproxy"] = version() or ""
    if tuple(map(int, found.split("."))) < balancer.OLDEST:
        raise Refused(f"HAProxy is {found} here: it has to be 2.6 or newer")
    network, why = way()
    if why:
        session.say(
            f"Ports of the loopback interface stand for hosts here: {why}"
        )
    session.results.tools["network"] = network
    session.rounds([
        one for name in BY_NAME if name in named
        for one in work(session, name, network, why)
    ], 1, told)  # fmt: skip
    session.show({
        "case": lambda p: f"{p.suite.removeprefix('hosts-')}: {title_of(p)}",
        "sent": figure("sent"),
        "lost": figure("failed"),
        "late": figure("late"),
        "twice": figure("twice"),
        "p50 ms": figure("p50"),
        "p99 ms": figure("p99"),
    })  # fmt: skip
    return session.status()


def work(
    session: Session, name: str, network: str, why: str
) -> Iterator[Work]:
    """What an experiment measures; skips what cannot be had here.

    why: there is no cable.
    """
    smoke = session.options.smoke
    for number, case in enumerate(BY_NAME[name].cases(smoke)):
        words = [network, name, str(number), *["smoke"] * smoke]
        made: list[Run] = []
        for each in case.all:
            point = Point(
                each.server, f"hosts-{name}", 0, each.delay,
                keep_alive=each.keep, variant=each.variant,
            )
            if case.cable and why:
                session.skip(point, f"it needs a cable to pull: {why}")
            else:
                yield point, partial(next_of, made, session, case, words)


def next_of(
    made: list[Run], session: Session, case: Case, words: list[str]
) -> Run:
    """The next of the runs that are made at once: a case and beside."""
    if not made:
        made += at_once(session, case, words)
    return made.pop(0)


def at_once(session: Session, case: Case, words: list[str]) -> list[Run]:
    """Runs of a case and beside, again if something disturbed a load."""
    for left in reversed(range(1 if session.options.smoke else 1 + AGAIN)):
        try:
            said = json.loads(said_by(words, case.seconds + REST_SECONDS))
        except LabError as error:
            return [Run("", error=str(error)) for _ in case.all]
        runs = [Run(**each["run"]) for each in said]
        if all(r.extra["lag_ms"] <= LAG_MS for r in runs) or not left:
            break
        session.say("  disturbed by something else: once more")
    for run, each in zip(runs, said, strict=True):
        keep_raw(session.folder, words[1], run.command, each["raw"])
    return runs


def told(one: Run) -> str:
    """A run for the screen."""
    lost = [
        f"{many:,.0f} {name.removeprefix('lost_')}"
        for name, many in one.extra.items() if name.startswith("lost_")
    ]
    return (
        f"{one.extra['sent']:,.0f} sent, {one.failed:,} lost"
        + f" ({', '.join(lost)})" * bool(lost)
        + f", 99 % within {one.latency_ms.get('p99', math.inf):,.0f} ms"
    )


# A run in its namespaces --------------------------------------------------


def way() -> tuple[str, str]:
    """Cable or loopback; and why there can be no cable."""
    if sys.platform != "linux":
        return LOOPBACK, "only Linux has network namespaces"
    try:
        said_by([CABLE], REST_SECONDS)
    except LabError as error:
        return LOOPBACK, str(error)
    return CABLE, ""


def said_by(words: list[str], seconds: float) -> str:
    """What ``python -m tools.bench.hosts WORDS`` prints.

    It ends, with all that it started, when we do, however that is: it
    reads from a socket of which only we have the other end. Raises
    LabError with what it said last.
    """
    inside = entry() if words[0] == CABLE else []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return lab.said_by(
            [*inside, sys.executable, "-m", INSIDE, *words], seconds,
            stdin=theirs.fileno(), end=ours.close,
        )
