"""The command line of ./bench.sh."""

import argparse
import datetime
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Protocol, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tools import peers
from tools.bench import plan, preflight, table, wrk
from tools.bench.keep import make_reference, whole
from tools.bench.peers import start
from tools.bench.run import Bench
from tools.bench.server import ServerError
from tools.data.results import DATA, OWN, REFERENCE, Results
from tools.servers import ROOT, SERVERS, Server, by_name, select

FULL_REPEATS = 3
PEER_REPEATS = 5
MOST_REPEATS = 50
WIDTH = 100  # columns when the output goes to a file
CLASSIC_CLIENTS = 100  # the most a run without the sweep uses
EXPERIMENTS = Path(__file__).parent  # the folder of x_NAME.py
IN_ROOMS = ("record", "wire")  # modules of tools/bench/experiments
HELP = {"-h", "--help"}

ABOUT = """\
Measures the servers under load, prints a table, keeps the figures in
results/ and builds the site with them.

Without an option: every server with 10 and with 100 clients (--delay 0.1),
and its raw speed (--delay 0) with new connections and with keep-alive.
About three minutes."""


class Experiment(Protocol):
    """What a module ``tools/bench/x_NAME.py`` offers as ``./bench.sh NAME``.

    ABOUT: one line for --help, with about how long it takes. One that
    saves files of its own, and no points, for the site to show at once,
    says so with ``ON_EVERY_PAGE = True``; their folder, in results/ and
    in docs/data/, is its FOLDER. It has an option --no-site.
    """

    ABOUT: str

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the experiment's own options."""

    def run(
        self,
        options: argparse.Namespace,
        results: Results,
        folder: Path,
        console: Console,
    ) -> int:
        """Measure, save after every run, print; the exit status."""


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence, exit with status 2."""
        self.exit(2, f"bench.sh: {message} (see {self.prog} --help)\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options. Exits with status 2 if they make no sense."""
    parser = Parser(
        prog="./bench.sh",
        description=ABOUT,
        epilog=_experiments() if HELP & {*arguments} else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--classic", action="store_true",
        help="exactly ab -n 1000 -c 10 for each server (about 7 minutes)",
    )
    modes.add_argument(
        "--full", action="store_true",
        help="everything, repeated: also 1, 2, 4 ... 4096 clients and "
        "system calls (about 35 minutes)",
    )
    modes.add_argument(
        "--smoke", action="store_true",
        help=f"only {', '.join(plan.SMOKE)}, a second each, to see that it "
        "works; exit status 1 if a server failed",
    )
    modes.add_argument(
        "--peers", metavar="NAMES",
        help="other people's servers with the same page, beside ours: all, "
        "or some of " + ", ".join(p.name for p in peers.PEERS) + " (all: "
        "about 17 minutes, --only shortens it)",
    )
    add(
        "--only", metavar="LIST",
        help="servers to measure: step numbers or names, as in "
        "--only 03,06-protocol",
    )
    add(
        "--repeats", type=whole(1, MOST_REPEATS), metavar="N",
        help=f"measure each point N times (--full: {FULL_REPEATS}, --peers: "
        f"{PEER_REPEATS}, else 1) and take the median",
    )
    add(
        "--load", choices=("ab", "python"),
        help="the load generator: ab, or the built-in client written in "
        "Python (default: ab if it can be had)",
    )
    add(
        "--output", type=Path, metavar="DIR",
        help="folder for the figures (default: results/DATE-TIME)",
    )
    add(
        "--reference", action="store_true",
        help="with --full: make this run the reference in docs/data/; with "
        "--peers all: the one of the peers",
    )
    add("--no-site", action="store_true", help="do not build the site")
    add(
        "--list", action="store_true",
        help="print the servers and the peers, and end",
    )
    options = parser.parse_args(arguments)
    try:
        options.servers = _servers(options)
        named = options.peers
        options.peers = [] if named is None else peers.select(named)
    except ValueError as error:
        parser.error(str(error))
    if options.peers:
        if options.reference and named != "all":
            parser.error("--reference with --peers needs all peers")
    elif options.reference and (not options.full or options.only):
        parser.error("--reference needs --full, and all servers")
    _check_output(parser, options)
    return options


def _check_output(
    parser: Parser, options: argparse.Namespace
) -> None:
    """Results that are already there stay untouched."""
    output: Path | None = options.output
    if output and options.reference:
        parser.error("--reference and --output exclude each other")
    if output and (output / "results.json").exists():
        parser.error("--output names a folder that already holds results")
    if output and output.is_file():
        parser.error("--output names a file; it must be a folder")


def _servers(options: argparse.Namespace) -> list[Server]:
    if options.only is not None:
        chosen = select(options.only)
        if not chosen:
            raise ValueError("--only names no server")
        return chosen
    if options.smoke:
        return [by_name(name) for name in plan.SMOKE]
    return list(SERVERS)


def main(arguments: list[str]) -> int:
    """Measure as asked; returns the exit status.

    0: measured (rows may say that a server failed); 1: the site was not
    built, or in a smoke run a server failed; 2: bad options; 130:
    interrupted, what was measured is kept.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    if arguments and not arguments[0].startswith("-"):
        return experiment(arguments[0], arguments[1:], console)
    options = parse(arguments)
    if options.list:
        for server in SERVERS:
            console.print(
                f"{server.name:<12} {server.title}  [dim]{server.file}"
            )
        for peer in peers.PEERS:
            console.print(f"{peer.name:<12} {peer.title}  [dim]--peers")
        return 0
    _catch_signals()
    try:
        return _measure(options, console)
    except KeyboardInterrupt:
        console.print("\nInterrupted before anything was measured.")
        return 130


def _catch_signals() -> None:
    """Ctrl-C and its like raise KeyboardInterrupt from now on."""
    # Even where a shell made us ignore them: the load must be stoppable.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # not nohup
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _measure(options: argparse.Namespace, console: Console) -> int:
    open_files = preflight.raise_open_files()
    load = options.load or "ab"
    if load == "ab" and not preflight.find_ab(console):
        load = "python"
    if load == "python":
        console.print(
            "The built-in client makes the load: it is slower than ab, so "
            "the fastest servers look slower than they are."
        )
    clients = plan.SWEEP_CLIENTS[-1] if options.full else CLASSIC_CLIENTS
    for note in preflight.notes(open_files, clients):
        console.print(f"[dim]- {note}")
    now = datetime.datetime.now().astimezone()
    folder = options.output or _folder(now)
    results = Results(
        command=_command(options),
        mode=_mode(options),
        started=now.isoformat(timespec="seconds"),
        commit=preflight.commit(),
        machine=preflight.machine(open_files),
        tools=preflight.tool_versions(load),
        load=load,
    )
    missing = start.missing(options.peers, console.print)
    interrupted = False
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(), console=console,
        transient=True,
    )
    try:
        with progress:
            bench = Bench(
                results, folder, progress, preflight.most_clients(open_files)
            )
            if options.peers:
                _run_peers(options, bench, missing)
            else:
                _run(options, bench)
            bench.finish()
    except KeyboardInterrupt:
        interrupted = True
    except OSError as error:
        console.print(f"Stopped: {error.strerror or error}.")
        return 1
    if not any(point.runs for point in results.points):
        raise KeyboardInterrupt
    table.show(results, console)
    if interrupted:
        console.print(
            f"\nInterrupted: what was measured is in {table.typed(folder)}."
        )
        return 130
    if options.reference:
        folder = make_reference(
            folder, DATA / "peers" if options.peers else REFERENCE
        )
    console.print(f"\nFigures and raw outputs: {table.typed(folder)}")
    if options.peers:  # the site shows the committed run of these
        return 0
    status = 0
    if options.smoke and any(p.status == "failed" for p in results.points):
        status = 1
    if not options.no_site and not _build_site(console):
        status = 1
    return status


def _run(options: argparse.Namespace, bench: Bench) -> None:
    """Measure what the options ask for."""
    servers: list[Server] = options.servers
    repeats = options.repeats or (FULL_REPEATS if options.full else 1)
    if options.smoke:
        bench.measure_all(plan.smoke(servers, repeats))
        return
    if options.classic:
        bench.measure_all(plan.classic(servers, repeats))
        return
    bench.measure_all(
        plan.default(servers, repeats, preflight.ports_free_at_once())
    )
    if options.full:
        tasks = plan.syscalls(servers)
        missing = preflight.no_strace()
        if missing:
            bench.skip(tasks, missing)
        else:
            bench.measure_all(tasks)
        bench.sweep(servers, repeats)


def _run_peers(
    options: argparse.Namespace, bench: Bench, missing: dict[str, str]
) -> None:
    """Measure the peers beside our servers; missing: name -> why."""
    results = bench.results
    version = wrk.version() if results.load == "ab" else None
    if version:
        results.tools["wrk"] = version
    there = [p for p in options.peers if p.name not in missing]
    results.tools.update(start.versions(there))
    tasks = plan.peers(
        options.peers, options.servers, options.repeats or PEER_REPEATS,
        version is not None, preflight.ports_free_at_once(),
    )
    bench.measure_all([t for t in tasks if t.server.name not in missing])
    for name, reason in missing.items():
        bench.skip([t for t in tasks if t.server.name == name], reason)


def _mode(options: argparse.Namespace) -> str:
    for mode in ("classic", "full", "smoke", "peers"):
        if getattr(options, mode):
            return mode
    return "default"


def _command(options: argparse.Namespace) -> str:
    """The command as typed, without what only this machine knows."""
    words = ["./bench.sh"]
    if _mode(options) != "default":
        words.append(f"--{_mode(options)}")
    if options.peers:
        everyone = len(options.peers) == len(peers.PEERS)
        names = ",".join(peer.name for peer in options.peers)
        words.append("all" if everyone else names)
    if options.only is not None:
        words += ["--only", ",".join(s.name for s in options.servers)]
    if options.repeats:
        words += ["--repeats", str(options.repeats)]
    if options.load:
        words += ["--load", options.load]
    if options.reference:
        words.append("--reference")
    return " ".join(words)


def _folder(now: datetime.datetime) -> Path:
    """A new folder of the reader's own results, named by the time."""
    name = now.strftime("%Y%m%d-%H%M%S")
    folder, number = OWN / name, 2
    while folder.exists():
        folder = OWN / f"{name}-{number}"
        number += 1
    return folder


def _build_site(console: Console) -> bool:
    """Build the site with the new figures; False if that failed."""
    if not (ROOT / "mkdocs.yml").is_file():
        console.print("There is no mkdocs.yml yet: no site was built.")
        return True
    console.print("Building the site with these figures ...")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"],
        cwd=ROOT, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    if done.returncode:
        console.print("[red]The site was not built: see above.")
        return False
    console.print("The site: open site/index.html in a browser.")
    return True


# Experiments: ./bench.sh NAME ------------------------------------------


def experiment_names() -> list[str]:
    """The experiments there are, in alphabetical order."""
    files = EXPERIMENTS.glob("x_*.py")
    return sorted([*(f.stem.removeprefix("x_") for f in files), *IN_ROOMS])


def _experiment(name: str) -> Experiment:
    if name in IN_ROOMS:
        return cast(
            Experiment,
            importlib.import_module(f"tools.bench.experiments.{name}"),
        )
    return cast(Experiment, importlib.import_module(f"tools.bench.x_{name}"))


def _experiments() -> str:
    """What --help says of the experiments."""
    lines = ["experiments (./bench.sh NAME --help explains its options):"]
    for name in experiment_names():
        module: Any = _experiment(name)
        about = module.HELP if name in IN_ROOMS else module.ABOUT
        lines.append(f"  {name:<12} {about}")
    return "\n".join(lines)


def experiment(name: str, arguments: list[str], console: Console) -> int:
    """Run ``./bench.sh NAME``; returns the exit status.

    It is that of the experiment; 1: it was stopped by an error; 2: there
    is none of this name, or the options make no sense; 130: interrupted,
    what was measured is kept.
    """
    if name not in experiment_names():
        print(
            f"bench.sh: there is no experiment {name!r}; there are "
            f"{', '.join(experiment_names()) or 'none'}",
            file=sys.stderr,
        )
        sys.exit(2)
    module = _experiment(name)
    if name in IN_ROOMS:
        return _in_room(module, name, arguments, console)
    options = _experiment_options(name, module, arguments)
    _catch_signals()
    open_files = preflight.raise_open_files()
    now = datetime.datetime.now().astimezone()
    folder = options.output or _folder(now)
    load = "ab" if shutil.which("ab") else "python"
    results = Results(
        command=_as_typed([name, *arguments]),
        mode=name,
        started=now.isoformat(timespec="seconds"),
        commit=preflight.commit(),
        machine=preflight.machine(open_files),
        tools=preflight.tool_versions(load),
        load=load,
    )
    begun = time.monotonic()
    try:
        status = module.run(options, results, folder, console)
        results.complete = True
    except KeyboardInterrupt:
        status = 130
    except (OSError, ServerError) as error:
        console.print(f"Stopped: {getattr(error, 'strerror', '') or error}.")
        status = 1
    if not results.points:
        if getattr(module, "ON_EVERY_PAGE", False):
            if not (status or options.no_site or options.output):
                return int(not _build_site(console))
        elif status == 130:
            console.print("\nInterrupted before anything was measured.")
        return status
    results.seconds = round(time.monotonic() - begun, 1)
    results.save(folder)
    if status == 130:
        console.print(
            f"\nInterrupted: what was measured is in {table.typed(folder)}."
        )
        return status
    if options.reference and status == 0:
        folder = make_reference(folder, DATA / name)
    console.print(f"\nFigures and raw outputs: {table.typed(folder)}")
    return status


def _in_room(
    module: Any, name: str, arguments: list[str], console: Console
) -> int:
    """Run one of tools.bench.experiments, and build the site after it."""
    parser = Parser(
        prog=f"./bench.sh {name}", description=module.HELP,
        allow_abbrev=False,
    )
    module.add_options(parser)
    options = parser.parse_args(arguments)
    _catch_signals()
    status: int = module.run(options)
    build = getattr(module, "ON_EVERY_PAGE", False)
    if build and not (status or options.no_site or options.output):
        return int(not _build_site(console))
    return status


def _experiment_options(
    name: str, module: Experiment, arguments: list[str]
) -> argparse.Namespace:
    """The options of an experiment. Exits with status 2 on nonsense."""
    parser = Parser(
        prog=f"./bench.sh {name}", description=module.ABOUT,
        allow_abbrev=False,
    )
    module.add_options(parser)
    own = getattr(module, "FOLDER", "")
    place = own or getattr(module, "PLACE", name)
    parser.add_argument(
        "--repeats", type=whole(1, MOST_REPEATS), metavar="N",
        help="measure each point N times and take the median",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR",
        help=f"folder for the figures (default: results/{own or 'DATE-TIME'})",
    )
    parser.add_argument(
        "--reference", action="store_true",
        help=f"make this run the committed one, docs/data/{place}",
    )
    options = parser.parse_args(arguments)
    _check_output(parser, options)
    return options


def _as_typed(words: list[str]) -> str:
    """A command without what only this machine knows: folders."""
    shown = ["./bench.sh"]
    skip = False
    for word in words:
        if not skip and not word.startswith("--output"):
            shown.append(re.sub(r"(?<![^\s,=])/(?:[^\s,=/]+/)*", "", word))
        skip = word == "--output"
    return shlex.join(shown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
