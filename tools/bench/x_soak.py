"""``./bench.sh soak``: mixed clients for a quarter of an hour.

The clients and the rules are in `tools.bench.soak`. It passes if no rule
was broken, nothing was written to stderr, and the server ended with exit
status 0 on SIGTERM.
"""

import argparse
import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tools.bench import soak
from tools.bench.cost import Meter
from tools.bench.numbers import number
from tools.bench.outcome import add, keep_raw, take_cost
from tools.bench.server import STOP_SECONDS, Process, ServerError, start
from tools.bench.x_hold import add_server
from tools.data.results import Point, Results, Run
from tools.servers import NO, YES, Server

ABOUT = "mixed load with resets, slow readers and killed workers (15 minutes)"
SUITE = "soak"
MINUTES = 15.0
DELAY = 0.02  # seconds each request waits
WORKERS = ("--workers", "2")
PATIENCE_ALONE = 60.0  # seconds, where the wait of one holds up the others
TELL_SECONDS = 30.0  # between two lines on the screen
SILENT = "exit status 0"  # what `Process.last_words` says of a good end


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    add_server(parser)
    parser.add_argument(
        "--minutes", type=number(0.05, 10_000, float), default=MINUTES,
        metavar="M", help=f"how long (default: {MINUTES:g})",
    )
    parser.add_argument(
        "--seed", type=number(0, 2**32), default=1, metavar="N",
        help="of all that is random (default: 1)",
    )
    parser.add_argument(
        "--clients", type=number(1, 1000), default=soak.CLIENTS,
        metavar="N", help=f"at a time (default: {soak.CLIENTS})",
    )
    parser.add_argument(
        "--no-kill", action="store_true", help="do not kill workers",
    )


def options_of(server: Server, extra: tuple[str, ...]) -> tuple[str, ...]:
    """The server's options: two workers unless they say otherwise."""
    if server.step == 7 and not any("--workers" in word for word in extra):
        return (*WORKERS, *extra)
    return extra


def manners(server: Server) -> tuple[bool, float]:
    """Must clients be polite, and how long must they wait for answers?

    Where a silent client holds up the others, there can be none.
    """
    polite = server.lessons["silent"] != YES
    alone = polite or server.lessons["overlap"] == NO
    return polite, PATIENCE_ALONE if alone else soak.PATIENCE


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Soak, print what happened; 1 if a rule was broken."""
    server: Server = options.only
    extra = options_of(server, options.options)
    point = Point(
        server.name, SUITE, options.clients, DELAY, keep_alive=True,
        variant=" ".join(extra),
    )
    for turn in range(options.repeats or 1):
        try:
            with start(server, DELAY, extra) as process:
                one, faults = measure(
                    process, options, options.seed + turn, folder, console
                )
        except ServerError as error:
            one, faults = Run("", error=str(error)), [str(error)]
        add(results, point, one)
        if faults:  # one bad run is one too many
            point.status, point.reason = "failed", faults[0]
        results.save(folder)
        show(one, faults, console)
    return int(point.status != "ok")


def measure(
    process: Process, options: argparse.Namespace, seed: int, folder: Path,
    console: Console,
) -> tuple[Run, list[str]]:
    """One soak of a server, to its end; what broke, in sentences."""
    meter = Meter(process)
    polite, patience = manners(process.server)
    report = soak.soak(
        process.port, process.pid, 60 * options.minutes, seed,
        clients=options.clients, polite=polite, kill=not options.no_kill,
        patience=patience, tick=ticker(meter, console),
    )
    cost = meter.read()
    faults = [*report.faults, *end(process)]
    one = Run(f"{process.command}\nseed {seed}, {options.clients} clients")
    one.requests, one.failed = report.answered, len(faults)
    one.seconds = round(report.seconds, 3)
    one.requests_per_second = round(report.answered / report.seconds, 3)
    # CPU: of those that were not killed; who is gone cannot be asked.
    take_cost(one, cost)
    one.extra = figures(report)
    one.error = faults[0] if faults else None
    shown = dataclasses.asdict(report) | {"faults": faults}
    text = json.dumps(shown, indent=1)
    keep_raw(folder, process.server.name, one.command, text)
    return one, faults


def ticker(
    meter: Meter, console: Console
) -> Callable[[soak.Report], None]:
    """Watches memory, and tells now and then how far we are."""
    begun = told = time.monotonic()

    def tick(report: soak.Report) -> None:
        nonlocal told
        meter.sample()
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            console.print(
                f"  {told - begun:,.0f} s: {report.answered:,} answered on "
                f"{report.connections:,} connections, {report.kills} workers "
                f"killed, {len(report.faults)} faults"
            )

    return tick


def end(process: Process) -> list[str]:
    """SIGTERM, and what is wrong with how it ends."""
    if process.status() is not None:
        return [f"the server died: {process.last_words()}"]
    os.kill(process.pid, signal.SIGTERM)
    if process.wait(STOP_SECONDS) is None:
        return [f"it still runs {STOP_SECONDS:g} s after SIGTERM"]
    words = process.last_words()
    if process.status() != 0:
        return [f"SIGTERM ended it with status {process.status()}: {words}"]
    return [] if words == SILENT else [f"on stderr: {words}"]


def figures(report: soak.Report) -> dict[str, float]:
    """The counts of a report, by names that say their unit."""
    begun = sum(state.memory for state in report.before.values())
    after = sum(state.memory for state in report.after.values())
    descriptors = [
        sum(state.descriptors for state in states.values())
        for states in (report.before, report.after)
    ]
    return {
        "connections": report.connections,
        "requests_answered": report.answered,
        "requests_cut_by_client": report.cut_by_client,
        "connections_cut_by_kill": report.cut_by_kill,
        "workers_killed": report.kills,
        "longest_restart_seconds": round(report.restart_seconds, 3),
        "descriptors_before": descriptors[0],
        "descriptors_after": descriptors[1],
        "memory_before_bytes": begun,
        "memory_after_bytes": after,
        "growth_bytes": report.growth_bytes,
        **{f"role_{name}": count for name, count in report.roles.items()},
    }


def show(one: Run, faults: list[str], console: Console) -> None:
    """Print the counts, and what broke."""
    for name, value in one.extra.items():
        console.print(f"  {name.replace('_', ' '):<28} {value:>12,.10g}")
    for fault in faults:
        console.print(f"  [red]broken[/]: {escape(fault)}")
    if not faults:
        console.print("  Nothing broke.")
