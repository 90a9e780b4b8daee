"""``./bench.sh hosts``: three hosts behind HAProxy, on one machine.

Each run of a case is a process in namespaces of its own (see
`tools.bench.hosts`); here it is started, and ended whatever happens.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from functools import partial

from tools.bench.hosts import balancer
from tools.bench.hosts.experiments import BY_NAME
from tools.bench.hosts.rig import Case, entry
from tools.bench.outcome import keep_raw
from tools.bench.preflight import obtain
from tools.bench.server import ServerError
from tools.bench.session import Refused, Session, add_options, some_of
from tools.bench.table import figure, title_of
from tools.common.launch import scrub
from tools.data.results import Point, Run
from tools.servers import ROOT

HELP = (
    "three hosts behind a balancer: restarts, deaths, overload (ten minutes)"
)
INSIDE = "tools.bench.hosts"
REST_SECONDS = 60  # of a run, beside its load
END_SECONDS = 5  # for it to end its own processes
LAG_MS = 100.0  # a load that sent later than this was disturbed
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
    if not obtain(session.console, "HAProxy", version, "haproxy"):
        return 1
    session.results.tools["haproxy"] = version() or ""
    network, why = way()
    if why:
        session.say(
            f"Ports of the loopback interface stand for hosts here ({why})."
        )
    session.results.tools["network"] = network
    work = []
    for name, module in BY_NAME.items():
        if name not in named:
            continue
        for number, case in enumerate(module.cases(options.smoke)):
            words = [network, name, str(number), *["smoke"] * options.smoke]
            made: list[Run] = []
            for each in case.all:
                point = Point(
                    each.server, f"hosts-{name}", 0, each.delay,
                    keep_alive=each.keep, variant=each.variant,
                )
                if case.cable and network == LOOPBACK:
                    session.skip(point, f"it needs a cable: {why}")
                else:
                    work.append((point, partial(
                        next_of, made, session, case, name, words
                    )))
    session.rounds(work, 1, told)
    session.show({
        "case": lambda p: f"{p.suite.removeprefix('hosts-')}: "
        f"{title_of(p)}{', kept' * p.keep_alive}",
        "sent": figure("sent"),
        "lost": figure("failed"),
        "late": figure("late"),
        "twice": figure("twice"),
        "p50 ms": figure("p50"),
        "p99 ms": figure("p99"),
    })  # fmt: skip
    return session.status()


def next_of(
    made: list[Run], session: Session, case: Case, name: str,
    words: list[str],
) -> Run:
    """The next of the runs that were made at once: a case and beside."""
    if not made:
        made += at_once(session, case, name, words)
    return made.pop(0)


def at_once(
    session: Session, case: Case, name: str, words: list[str]
) -> list[Run]:
    """Runs of a case and beside, again if something disturbed a load."""
    for left in reversed(range(1 if session.options.smoke else 1 + AGAIN)):
        said = json.loads(said_by(words, case.seconds + REST_SECONDS))
        runs = [Run(**each["run"]) for each in said]
        if all(r.extra["lag_ms"] <= LAG_MS for r in runs) or not left:
            break
        session.say("  disturbed by something else: once more")
    for run, each in zip(runs, said, strict=True):
        keep_raw(session.folder, name, run.command, each["raw"])
        if not run.requests:
            run.error = "no request was answered"
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
        + f", 99 % within {one.latency_ms['p99']:,.0f} ms"
    )


# A run in its namespaces --------------------------------------------------


def way() -> tuple[str, str]:
    """Cable or loopback; and why there can be no cable."""
    if sys.platform != "linux":
        return LOOPBACK, "only Linux has network namespaces"
    try:
        said_by([CABLE], REST_SECONDS)
    except ServerError as error:
        return LOOPBACK, str(error)
    return CABLE, ""


def said_by(words: list[str], seconds: float) -> str:
    """What ``python -m tools.bench.hosts WORDS`` prints.

    It ends, with all that it started, when we do, however that is: it
    reads from a pipe of which only we have the other end. Raises
    ServerError with what it said last.
    """
    inside = entry() if words[0] == CABLE else []
    theirs, ours = os.pipe()
    try:
        child = subprocess.Popen(
            [*inside, sys.executable, "-m", INSIDE, *words], cwd=ROOT,
            stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", start_new_session=True,
        )
    except OSError as error:
        os.close(ours)
        raise ServerError(f"{inside[0]}: {error.strerror}") from error
    finally:
        os.close(theirs)
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise ServerError(f"it took more than {seconds:.0f} s") from error
    finally:
        os.close(ours)  # it ends its own processes first
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_SECONDS)
        with contextlib.suppress(OSError):  # there may be none left
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode:
        lines = err.strip().splitlines() or [f"status {child.returncode}"]
        raise ServerError(scrub(lines[-1]))
    return out
