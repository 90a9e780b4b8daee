"""``./bench.sh hosts``: three hosts behind HAProxy, on one machine.

Each case is measured by a process in namespaces of its own (see
`labs.hosts`); here it is started, and ended whatever happens.
"""

import argparse
import json
import socket
import sys
from collections.abc import Iterator
from functools import partial

from labs.hosts import balancer
from labs.hosts.experiments import EXPERIMENTS
from labs.hosts.rig import Case, entry
from tools.bench.experiments import lab
from tools.bench.experiments.lab import LabError
from tools.bench.outcome import keep_raw
from tools.bench.session import Option, Refused, Session, Work, some_of
from tools.bench.table import figure, title_of
from tools.data.results import MORE_SUITES, Point, Run

PLACE = "hosts"
HELP = (
    "three hosts behind a balancer: restarts, deaths, overload (ten minutes)"
)
OPTIONS: list[Option] = [("--smoke", {
    "action": "store_true",
    "help": "only some cases, to see that it works (two minutes)",
})]  # fmt: skip
REST_SECONDS = 240  # for a case beside its load, on a busy machine


def prepare(parser: argparse.ArgumentParser) -> None:
    """The names of the experiments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    texts = (f"  {n}: {MORE_SUITES[f'hosts-{n}']}" for n in EXPERIMENTS)
    parser.description = "\n".join([HELP, "", *texts])
    parser.add_argument(
        "names", nargs="*", type=some_of([*EXPERIMENTS], "experiment"),
        metavar="NAME", help=f"{', '.join(EXPERIMENTS)} (default: all)",
    )


def measure(session: Session) -> int:
    """All cases of the experiments that are asked for."""
    options = session.options
    words = getattr(options, "names", ())
    named = {name for names in words for name in names} or {*EXPERIMENTS}
    if options.reference and (options.smoke or named < {*EXPERIMENTS}):
        raise Refused("--reference needs all of hosts, and not --smoke")
    if not balancer.version():
        session.say(
            "HAProxy is missing: apt-get install haproxy, or see haproxy.org"
        )
        return 1
    try:
        said_by([], REST_SECONDS)
    except LabError as error:
        raise Refused(
            "hosts needs Linux and the right to make network namespaces: "
            f"try sudo ./bench.sh hosts, or a virtual machine ({error})"
        ) from error
    session.results.load = "python"
    session.results.tools["haproxy"] = balancer.version() or ""
    session.rounds(
        [one for name in EXPERIMENTS if name in named
         for one in work(session, name)], 1,
        lambda one: f"{one.extra['sent']:,.0f} sent, {one.failed:,} lost",
    )
    session.show({
        "case": lambda p: f"{p.suite.removeprefix('hosts-')}: {title_of(p)}",
        "sent": figure("sent"),
        "lost": figure("failed"),
        "twice": figure("twice"),
        "p50 ms": figure("p50"),
        "p99 ms": figure("p99"),
        "sent late, ms": figure("lag_ms"),  # disturbed, if it is much
    })  # fmt: skip
    return session.status()


def work(session: Session, name: str) -> Iterator[Work]:
    """What an experiment measures: all fronts of a case at once."""
    cases, some = EXPERIMENTS[name]
    for number in some if session.options.smoke else range(len(cases)):
        case = cases[number]
        runs = forever(session, case, [name, str(number)])
        for front in case.fronts:
            point = Point(
                case.server, f"hosts-{name}", 0, case.delays[0],
                keep_alive=front.keep, variant=front.variant,
            )
            yield point, partial(next, runs)


def forever(
    session: Session, case: Case, words: list[str]
) -> Iterator[Run]:
    """A run for each front, then all again, as often as it is asked."""
    while True:
        try:
            said = json.loads(said_by(words, case.seconds + REST_SECONDS))
        except LabError as error:
            yield from (Run("", error=str(error)) for _ in case.fronts)
            continue
        for each in said:
            one = Run(**each["run"])
            keep_raw(session.folder, words[0], one.command, each["raw"])
            yield one


def said_by(words: list[str], seconds: float) -> str:
    """What ``python -m labs.hosts WORDS`` prints, in new namespaces.

    It ends, with all that it started, when we do, however that is: it
    reads from a socket of which only we have the other end. Raises
    LabError with what it said last.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return lab.said_by(
            [*entry(), sys.executable, "-m", "labs.hosts", *words], seconds,
            stdin=theirs.fileno(), end=ours.close,
        )
