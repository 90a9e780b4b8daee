"""The command line of ./bench.sh."""

import argparse
import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from tools import peers
from tools.bench import plan, preflight, table, target, wrk
from tools.bench.outcome import as_typed
from tools.bench.peers import start
from tools.bench.run import measure_all, skip, sweep
from tools.bench.session import (
    Option,
    Session,
    add_options,
    common_options,
    conduct,
    number_option,
    servers_option,
)
from tools.common.files import DataError
from tools.common.terminal import a_console
from tools.data.results import REFERENCE, STEPS, load
from tools.servers import ROOT, SERVERS, SKETCHES

FULL_REPEATS = 5
SWEEP_REPEATS = 3
PEER_REPEATS = 5
CLASSIC_CLIENTS = 100  # the most a run without the sweep uses
MODES = {
    "classic": "exactly ab -n 1000 -c 10 for each server (about nine "
    "minutes)",
    "full": "everything, repeated: also 1, 2, 4 ... 4096 clients and system "
    "calls (about an hour)",
    "smoke": f"only {', '.join(plan.SMOKE)}, a second each, to see that it "
    "works; exit status 1 if a server failed",
}

# ./bench.sh NAME -> the module of the experiment, or one with a table of
# them. An experiment has HELP, a line with about how long it takes, OPTIONS
# that it alone has (if any), and ``measure(session)``, which returns the exit
# status (or ``run(options)``, if what it makes are no points). PLACE: the
# folder of docs/data, if that is not NAME; ON_EVERY_PAGE: the site shows the
# result at once; ``prepare``: what else its parser needs.
COMPARED = ("crowd", "gains", "pythons", "scale", "static", "threads")
EXPERIMENTS = {
    name: "tools.bench.experiments."
    + ("compare" if name in COMPARED else name)
    for name in sorted(("labs", "record", "wire", *COMPARED))
} | {name: f"labs.{name}.measure" for name in ("hold", "hosts")}

NO_SITE: Option = (
    "--no-site", {"action": "store_true", "help": "do not build the site"}
)
ABOUT = """\
Measures the servers under load, prints a table, keeps the figures in
results/ and builds the site with them.

Without an option: every server with 10 and with 100 clients (--delay 0.1),
and its raw speed (--delay 0) with new connections and with keep-alive.
About four minutes."""


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence, exit with status 2."""
        self.exit(2, f"bench.sh: {message} (see {self.prog} --help)\n")


# Options ------------------------------------------------------------------


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options. Exits with status 2 if they make no sense."""
    parser = Parser(
        prog="./bench.sh",
        description=ABOUT,
        epilog=_experiments() if {"-h", "--help"} & {*arguments} else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    mode = parser.add_mutually_exclusive_group().add_argument
    for name, text in MODES.items():
        mode(f"--{name}", action="store_true", help=text)
    mode(
        "--peers", metavar="NAMES",
        help="other people's servers with the same page, beside ours: all, "
        "or some of " + ", ".join(p.name for p in peers.PEERS) + " (all: "
        "about 17 minutes, --only shortens it)",
    )
    mode(
        "--beside", metavar="FILE", nargs="+", type=Path,
        help="measure nothing: build the site with other people's results "
        "beside the reference (each a results.json, or its folder; one is "
        "a bar of its own, several are a band with its median)",
    )
    mode(
        "--target", metavar="URL", type=target.target,
        help="a server that you have started elsewhere, "
        f"{target.SAMPLE}: a small load from here, a minute at most; load "
        "only machines of your own",
    )
    add_options(parser, [
        number_option(
            "--clients", 1, target.MOST_CLIENTS, None,
            f"of --target, at a time (default: {target.CLIENTS}, at most "
            f"{target.MOST_CLIENTS})",
        ),
        ("--yes", {
            "action": "store_true",
            "help": "the machine of --target is yours: do not ask",
        }),
        servers_option([], (*SERVERS, *SKETCHES)),
    ])
    parser.add_argument(
        "--sketches", action="store_true",
        help="the sketches, too, with 10 clients (--full: always)",
    )
    common_options(
        parser, "reference, or peers (all servers, with --full or --peers "
        "all)", f"--full: {FULL_REPEATS}, its sweep {SWEEP_REPEATS}, "
        f"--peers: {PEER_REPEATS}, else 1",
    )
    parser.add_argument(
        "--load", choices=("ab", "python"),
        help="the load generator: ab, or the built-in client written in "
        "Python (default: ab if it can be had)",
    )
    add_options(parser, [NO_SITE])
    options = parser.parse_args(arguments)
    options.command = as_typed(arguments)
    try:
        _check(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def _check(options: argparse.Namespace) -> None:
    """Look names up. Raises ValueError with a sentence."""
    modes = (name for name in (*MODES, "peers") if getattr(options, name))
    options.mode = next(modes, "default")
    usual = plan.SMOKE if options.smoke else [one.name for one in SERVERS]
    names = {one.name for one in options.only} or {*usual}
    if options.sketches or options.full:
        names |= {f"{name}-sketch" for name in names}
    alone = options.smoke or options.peers is not None
    options.servers = [one for one in SERVERS if one.name in names]
    options.sketches = [
        one for one in SKETCHES if one.name in names and not alone
    ]
    if alone and not options.servers:
        raise ValueError("--only names no server")
    named = options.peers
    options.peers = [] if named is None else peers.select(named)
    if options.reference:
        if options.peers and named != "all":
            raise ValueError("--reference with --peers needs all peers")
        if not options.peers and (not options.full or options.only):
            raise ValueError("--reference needs --full, and all servers")
    ours = options.only or options.repeats or options.output
    if options.target and (ours or options.sketches):
        raise ValueError("--target measures that server alone, once, and "
                         "keeps nothing")
    if not options.target and (options.clients or options.yes):
        raise ValueError("--clients and --yes are those of --target")
    if options.beside:
        _check_beside(options)


def _check_beside(options: argparse.Namespace) -> None:
    """Can the site show these results? Raises ValueError."""
    if options.only or options.repeats or options.load or options.output:
        raise ValueError("--beside measures nothing")
    if options.no_site:
        raise ValueError("--beside is there to build the site")
    for path in options.beside:
        try:
            mode = load(path).mode
        except DataError as error:
            raise ValueError(f"--beside {path}: {error}") from error
        if mode not in STEPS:
            raise ValueError(
                f"--beside {path}: it holds a run of {mode}, and only what "
                "./bench.sh measures alone, with --classic or with --full "
                "can stand beside the reference"
            )


# Running ------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Measure as asked; returns the exit status.

    0: measured (rows may say that a server failed); 1: the site was not
    built, or in a smoke run or with --target a server failed; 2: bad
    options; 130: interrupted, what was measured is kept.
    """
    console = a_console()
    if arguments and not arguments[0].startswith("-"):
        return experiment(arguments[0], arguments[1:], console)
    options = parse(arguments)
    if options.beside:
        paths = [str(path.resolve()) for path in options.beside]
        return _build_site(console, SEVEN_BESIDE=os.pathsep.join(paths))
    _catch_signals()
    if options.target:
        return target.measure(options, console)
    place = "peers" if options.peers else REFERENCE.name
    status = conduct(options.mode, options, _measure, place)
    # The site shows the committed run of the peers.
    if status or options.peers or options.no_site:
        return status
    return _build_site(console)


def _catch_signals() -> None:
    """Ctrl-C and its like raise KeyboardInterrupt from now on."""
    # Even where a shell made us ignore them: the load must be stoppable.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        nohup = number == signal.SIGHUP
        if not nohup or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def _measure(session: Session) -> int:
    """Measure what the options ask for; 1: a smoke run has found a fault."""
    options, results = session.options, session.results
    clients = plan.SWEEP_CLIENTS[-1] if options.full else CLASSIC_CLIENTS
    for note in preflight.notes(results.machine.open_files, clients):
        session.say(f"[dim]- {note}")
    if results.load == "python":
        if options.load != "python":
            session.say(preflight.NO_AB)
        session.say(
            "The built-in client makes the load: it is slower than ab, so "
            "the fastest servers look slower than they are."
        )
    try:
        if options.peers:
            _run_peers(session)
        else:
            _run(session)
    finally:
        table.show(session.results, session.console)
    return session.status() if options.smoke else 0


def _run(session: Session) -> None:
    """Measure our servers."""
    options = session.options
    servers = options.servers
    repeats = FULL_REPEATS if options.full else 1
    tasks = plan.suites(options.mode, servers, options.sketches)
    measure_all(session, tasks, repeats)
    if options.full:
        tasks = plan.syscalls(servers)
        if missing := preflight.no_strace():
            skip(session, tasks, missing)
        else:  # counts hardly vary
            measure_all(session, tasks, 1)
        limit = preflight.most_clients(session.results.machine.open_files)
        sweep(session, servers, SWEEP_REPEATS, limit)


def _run_peers(session: Session) -> None:
    """Measure the peers beside our servers."""
    options, results = session.options, session.results
    missing = start.missing(options.peers, session.say)  # name -> why
    there = [p for p in options.peers if p.name not in missing]
    results.tools.update(start.versions(there))
    no_wrk = "wrk is not installed: apt-get install wrk, or brew install wrk"
    if version := wrk.version():
        results.tools["wrk"], no_wrk = version, ""
    whys = [
        (task, missing.get(
            task.server.name, no_wrk * isinstance(task.load, wrk.Load)
        )) for task in plan.peers(options.peers, options.servers)
    ]
    measure_all(session, [task for task, why in whys if not why], PEER_REPEATS)
    for task, why in whys:
        if why:
            skip(session, [task], why)


def _build_site(console: Console, **environment: str) -> int:
    """Build the site with what it finds; 1 if that failed."""
    console.print("Building the site with these figures ...")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"],
        cwd=ROOT, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **environment},
    )
    if done.returncode:
        console.print("[red]The site was not built: see above.")
        return 1
    console.print("The site: open site/index.html in a browser.")
    return 0


# Experiments: ./bench.sh NAME ---------------------------------------------


def find(name: str) -> Any:
    """The experiment of this name: a module, or the entry of one's table."""
    module = importlib.import_module(EXPERIMENTS[name])
    return getattr(module, "EXPERIMENTS", {}).get(name, module)


def _experiments() -> str:
    """What --help says of the experiments."""
    lines = ["experiments (./bench.sh NAME --help explains its options):"]
    lines += [f"  {name:<12} {find(name).HELP}" for name in EXPERIMENTS]
    return "\n".join(lines)


def experiment_options(
    parser: argparse.ArgumentParser, name: str, module: Any
) -> None:
    """Add the options of an experiment, and what all of them have."""
    if hasattr(module, "prepare"):
        module.prepare(parser)
    add_options(parser, getattr(module, "OPTIONS", ()))
    common_options(parser, getattr(module, "PLACE", name))
    if hasattr(module, "ON_EVERY_PAGE"):
        add_options(parser, [NO_SITE])


def run(name: str, module: Any, options: argparse.Namespace) -> int:
    """Run an experiment; its exit status."""
    if hasattr(module, "run"):
        return int(module.run(options))
    return conduct(name, options, module.measure)


def experiment(name: str, arguments: list[str], console: Console) -> int:
    """Run ``./bench.sh NAME``; returns its exit status.

    2: there is none of this name, or the options make no sense.
    """
    if name not in EXPERIMENTS:
        Parser(prog="./bench.sh").error(
            f"there is no experiment {name!r}; there are "
            f"{', '.join(EXPERIMENTS)}"
        )
    module = find(name)
    parser = Parser(
        prog=f"./bench.sh {name}", description=module.HELP,
        allow_abbrev=False,
    )
    experiment_options(parser, name, module)
    options = parser.parse_args(arguments)
    _catch_signals()
    status = run(name, module, options)
    shown = hasattr(module, "ON_EVERY_PAGE")
    if shown and not (status or options.no_site or options.output):
        return _build_site(console)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
