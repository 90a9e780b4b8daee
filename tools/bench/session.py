"""A measurement under way, whichever: options, rounds, results, tables.

What `./bench.sh` measures alone and what an experiment measures go the
same way: `conduct` calls a function that measures in a `Session`, which
holds the results, saves them after every run, and prints.
"""

import argparse
import contextlib
import resource
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from rich.markup import escape
from rich.progress import track

from tools.bench import outcome, preflight, strace, wrk
from tools.bench.cost import Meter, switches
from tools.bench.interpreters import Interpreter, InterpreterError
from tools.bench.load import PROGRAMS, SHOWN, Load, patience, read, run_load
from tools.bench.numbers import number
from tools.bench.peers import start as peers
from tools.bench.server import Running, ServerError, start
from tools.bench.table import Columns, show_points, typed
from tools.common.terminal import a_console
from tools.data.results import DATA, Point, Run
from tools.peers import Peer
from tools.servers import SERVERS, Server, select

MOST_REPEATS = 50
DYING_SECONDS = 0.3  # for a server that failed to end

Option = tuple[str, dict[str, Any]]  # a flag, and how argparse takes it
Work = tuple[Point, Callable[[], Run]]  # and what measures it once


class Refused(Exception):
    """What is asked for cannot be had here; the text says why."""


# Options ------------------------------------------------------------------


def common_options(
    parser: argparse.ArgumentParser, place: str, usual: str = ""
) -> None:
    """Add what all have; place: their folder in docs/data.

    usual: how often a point is measured otherwise, for the help.
    """
    add_options(parser, [number_option(
        "--repeats", 1, MOST_REPEATS, None,
        "measure each point N times and take the median"
        + f" ({usual})" * bool(usual),
    )])
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--output", type=new_folder, metavar="DIR",
        help="folder for the figures (default: results/DATE-TIME)",
    )
    where.add_argument(
        "--reference", action="store_true",
        help=f"make this run the committed one, docs/data/{place}",
    )


def new_folder(text: str) -> Path:
    """A check for argparse: results that are there stay untouched."""
    folder = Path(text)
    if folder.is_file():
        raise argparse.ArgumentTypeError("it names a file, not a folder")
    if (folder / "results.json").exists():
        raise argparse.ArgumentTypeError(
            "it names a folder that already holds results"
        )
    return folder


def add_options(
    parser: argparse._ActionsContainer, options: Sequence[Option]
) -> None:
    """Add them to a parser, or to a group of one."""
    for flag, how in options:
        parser.add_argument(flag, **how)


def number_option(
    flag: str, low: float, high: float, default: float | None, text: str,
    kind: Callable[[str], float] = int,
) -> Option:
    """An option that is a number from low to high."""
    if default is not None:
        text += f" (default: {default:.10g})"
    return flag, {
        "type": number(low, high, kind), "default": default, "metavar": "N",
        "help": text,
    }


def shell_words(text: str) -> tuple[str, ...]:
    """A check for argparse: words as a shell would split them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


WORDS: Option = ("--options", {
    "type": shell_words, "default": (), "metavar": "WORDS",
    "help": "more for the server's command line, as in "
    "--options='--engine emulated'",
})


def servers_option(
    default: Sequence[Server] = SERVERS, among: Sequence[Server] = SERVERS
) -> Option:
    """``--only``: a list of servers, some of those that there are."""

    def check(text: str) -> list[Server]:
        try:
            chosen = select(text, among)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not chosen:
            raise argparse.ArgumentTypeError("it names no server")
        return chosen

    return "--only", {
        "type": check, "default": list(default), "metavar": "LIST",
        "help": "servers: step numbers or names, as in --only "
        f"03,06-protocol; there are {', '.join(one.name for one in among)}",
    }


def some_of(
    known: Sequence[str], what: str
) -> Callable[[str], tuple[str, ...]]:
    """A check for argparse: some of these names, in the order known."""

    def check(text: str) -> tuple[str, ...]:
        wanted = {word.strip() for word in text.split(",") if word.strip()}
        for word in sorted(wanted - {*known}):
            raise argparse.ArgumentTypeError(
                f"there is no {what} {word!r}; there are {', '.join(known)}"
            )
        if not wanted:
            raise argparse.ArgumentTypeError(f"names no {what}")
        return tuple(name for name in known if name in wanted)

    return check


# A session ----------------------------------------------------------------


class Session:
    """A measurement under way: options, results, folder, screen."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.output or outcome.own_folder()
        self.console = a_console()
        self.begun = time.monotonic()
        load = getattr(options, "load", None)
        if load != "python":
            load = "ab" if shutil.which("ab") else "python"
        command = getattr(options, "command", "")
        self.results = preflight.fresh(
            command or outcome.as_typed(sys.argv[1:]), name, load
        )

    @property
    def points(self) -> list[Point]:
        """What has been measured so far."""
        return self.results.points

    def repeats(self, usual: int) -> int:
        """How often to measure each point."""
        return int(self.options.repeats or usual)

    def say(self, text: str) -> None:
        """Print a line, however long."""
        self.console.print(text, soft_wrap=True)

    def save(self) -> None:
        """Save what there is."""
        self.results.seconds = round(time.monotonic() - self.begun, 1)
        self.results.save(self.folder)

    def note_pythons(self, pythons: Sequence[Interpreter]) -> None:
        """Say which interpreters are measured, and keep it."""
        for python in pythons:
            self.results.tools[python.name] = python.described
            self.say(f"[dim]- {python.name}: {python.described}")

    def rounds(
        self, work: Sequence[Work], usual: int,
        tell: Callable[[Run], str] | None = None,
    ) -> None:
        """Measure all points once, then all again, and so on.

        So what disturbs the machine for a while disturbs all alike. A
        point that has come to its end is not measured again.

        usual: how often, unless --repeats says so; tell: a run in a few
        words.
        """
        repeats = self.repeats(usual)
        turns = [
            (turn, *one) for turn in range(1, repeats + 1) for one in work
        ]
        for turn, point, measure in track(
            turns, "Measuring", console=self.console, transient=True
        ):
            if not point.end:
                of = f", run {turn} of {repeats}" * (repeats > 1)
                self._once(point, measure, of, tell or summary)

    def _once(
        self, point: Point, measure: Callable[[], Run], of: str,
        tell: Callable[[Run], str],
    ) -> None:
        """Measure a point once, say so, keep it."""
        clients = f", {point.clients:,} clients" * bool(point.clients)
        self.say(
            f"[bold]{point.server}[/] {point.variant or point.suite}"
            f"{clients}{of}"
        )
        try:
            one = measure()
        except (ServerError, strace.StraceError, psutil.Error) as error:
            one = Run("", error=str(error))
        self.keep(point, one)
        failed = one.error and f"failed: {one.error}"
        self.say(f"  {escape(failed or tell(one))}")

    def keep(self, point: Point, one: Run) -> None:
        """Add a run to its point, which failed if all have, and save."""
        if not point.runs:  # an interrupt leaves no point without a run
            self.points.append(point)
        point.runs.append(one)
        errors = [run.error for run in point.runs if run.error is not None]
        failed = len(errors) == len(point.runs)
        point.status = "failed" if failed else "ok"
        point.reason = errors[-1] if failed else ""
        self.save()

    def skip(self, point: Point, reason: str) -> None:
        """Note why a point is not measured, and save."""
        point.status, point.reason = "skipped", reason
        self.points.append(point)
        self.save()

    def load(
        self, process: Running, load: Load, *, name: str = "", url: str = "",
        command: str = "", delay: float = 0.0, busy: bool = False,
        count: bool = False,
    ) -> Run:
        """Run a load against a server; its figures and its cost.

        name: of the file of raw outputs; url, command: the server's, if
        not as it says itself; delay: of a request; busy: keep in
        Run.extra how many cores the generator used (``load_cores``), and
        requests/s if that had been a whole one
        (``load_limit_per_second``); count: count system calls instead of
        seconds.
        """
        url = url or process.url
        program = "wrk" if isinstance(load, wrk.Load) else self.results.load
        shown = " ".join(load.command(url, SHOWN[program]))
        self.say(f"  [cyan]$ {escape(shown)}")
        words = load.command(url, PROGRAMS[program])
        most = patience(load, delay)
        lines = [command or process.command, shown]
        begun, ours, meter = time.monotonic(), _children(), Meter(process)
        counting = strace.count(
            [member.pid for member in process.processes()]
        ) if count else contextlib.nullcontext()
        with counting as counter:
            tick = (lambda: None) if counter else meter.sample
            text, late = run_load(words, most, tick)
        wall, cpu = time.monotonic() - begun, _children() - ours
        one = read(program, text, late)
        if counter:  # strace made it slow
            one.seconds, one.requests_per_second = 0.0, None
            one.latency_ms, one.system_calls = {}, counter.calls
            lines.append(counter.command)
            text += f"\n{counter.table}"
        else:
            outcome.take_cost(one, meter.read())
        one.command = "\n".join(lines)
        outcome.keep_raw(self.folder, name or "server", one.command, text)
        if busy:
            _note_generator(one, wall, cpu)
        # One that is dying may still need a moment.
        moment = DYING_SECONDS if one.failed or one.error else 0.0
        if process.wait(moment) is not None:
            one.error = f"the server died: {process.last_words()}"
        return one

    def measure(
        self, server: Server | Peer, load: Load, *words: str,
        delay: float = 0.0, warm_up: int = 20, python: str = sys.executable,
        one_core: bool = False, **more: Any,
    ) -> Run:
        """Start a server, warm it up, run a load; see `load` and `start`.

        words: more for its command line; one_core: keep all of it on one.
        Raises ServerError.
        """
        with (
            peers.start(server) if isinstance(server, Peer)
            else start(server, delay, words, python)
        ) as process:
            if one_core:  # the threads that it starts will inherit that
                own = psutil.Process(process.pid)
                own.cpu_affinity(own.cpu_affinity()[-1:])
            process.warm_up(warm_up)
            before = switches(process)
            one = self.load(process, load, delay=delay, **more)
        # Those of ended threads are known when the server has ended.
        if not one.system_calls and process.switches and before is not None:
            one.context_switches = max(process.switches - before, 0)
        return one

    def show(
        self, columns: Columns, note: str = "",
        points: Sequence[Point] | None = None, title: str | None = None,
    ) -> None:
        """Print a row for each point, and why some have no figures.

        columns: title -> what stands there; the first names the point.
        """
        points = self.points if points is None else points
        show_points(self.console, columns, points, title)
        if note:
            self.console.print(f"[dim]{note}")

    def status(self) -> int:
        """The exit status: 1 if a point has no good run."""
        return int(any(point.status == "failed" for point in self.points))


def conduct(
    name: str, options: argparse.Namespace,
    measure: Callable[[Session], int], place: str = "",
) -> int:
    """Measure, save, say where the figures are; the exit status.

    place: the folder of docs/data of the committed run, if it is not
    called like this. The status is that of `measure`; 1: stopped by an
    error; 2: the options ask for what cannot be had; 130: interrupted,
    what was measured is kept.
    """
    session = Session(name, options)
    folder = session.folder
    try:
        status = measure(session)
        session.results.complete = True
    except KeyboardInterrupt:
        status = 130
    except (Refused, InterpreterError) as error:
        print(f"bench.sh: {error}", file=sys.stderr)
        return 2
    except (OSError, ServerError) as error:
        session.say(f"Stopped: {getattr(error, 'strerror', '') or error}.")
        status = 1
    if not session.points:
        if status == 130:
            session.say("\nInterrupted before anything was measured.")
        return status
    session.save()
    said = "Figures and raw outputs:"
    if status == 130:
        said = "Interrupted: what was measured is in"
    elif options.reference and status == 0:
        folder = outcome.make_reference(folder, DATA / (place or name))
    session.say(f"\n{said} {typed(folder)}")
    return status


def summary(one: Run) -> str:
    """One line on a good run for the screen."""
    if one.system_calls:
        calls = one.figure("calls_per_request") or 0.0
        return f"{calls:.1f} system calls a request"
    words = f"{one.requests_per_second or 0:,.1f} requests/s"
    if "p99" in one.latency_ms:
        words += (
            f", half within {one.latency_ms['p50']:,.0f} ms, "
            f"99 % within {one.latency_ms['p99']:,.0f} ms"
        )
    return words + f", {one.failed} failed" * bool(one.failed)


def _note_generator(one: Run, wall: float, cpu: float) -> None:
    """How many cores the load generator used, and what it could do."""
    one.extra["load_cores"] = round(cpu / wall, 3)
    if one.requests_per_second and cpu:
        limit = one.requests_per_second * wall / cpu
        one.extra["load_limit_per_second"] = round(limit)


def _children() -> float:
    """CPU seconds of all our children that have ended.

    While a load runs, only its generator ends.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
