"""What every experiment does alike, from its options to its table.

An experiment is a module with HELP (a line), ``add_options(parser)`` and
``run(options)``. Its run calls `conduct` with a function that measures in
a `Session`: that holds the results, saves them after every run and
prints.
"""

import argparse
import math
import resource
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench import ab, preflight, wrk
from tools.bench.cost import Meter
from tools.bench.interpreters import Interpreter, InterpreterError
from tools.bench.numbers import number
from tools.bench.outcome import (
    add,
    any_fault,
    as_typed,
    keep_raw,
    make_reference,
    own_folder,
    take_cost,
    take_report,
)
from tools.bench.report import NoFigures
from tools.bench.run import PROGRAMS, SHOWN, run_load, summary
from tools.bench.server import Running, ServerError
from tools.bench.table import typed
from tools.data.results import DATA, Point, Run
from tools.servers import SERVERS, Server, select

WIDTH = 100  # columns when the output goes to a file
MOST_REPEATS = 50
GRACE_SECONDS = 5.0  # for a load generator to end after its time
SLACK_SECONDS = 30.0  # for a load that is a number of requests, and then
LEAST_RATE = 200  # requests a second; slower than that has stopped
MEGABYTE = 1_000_000

Load = ab.Load | wrk.Load
Work = Sequence[tuple[Point, Callable[[], Run]]]
Cell = Callable[[Point], str]


class Refused(Exception):
    """What is asked for cannot be had here; the text says why."""


# Options ------------------------------------------------------------------


def common_options(parser: argparse.ArgumentParser, place: str) -> None:
    """Add what all experiments have; place: their folder in docs/data."""
    number_option(
        parser, "--repeats", 1, MOST_REPEATS, None,
        "measure each point N times and take the median",
    )
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


def number_option(
    parser: argparse._ActionsContainer, flag: str, low: float, high: float,
    default: float | None, text: str,
    kind: Callable[[str], float] = int,
) -> None:
    """Add an option that is a number from low to high."""
    if default is not None:
        text += f" (default: {default:.10g})"
    parser.add_argument(
        flag, type=number(low, high, kind), default=default, metavar="N",
        help=text,
    )


def words_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--options``: words for the server."""
    parser.add_argument(
        "--options", type=shell_words, default=(), metavar="WORDS",
        help="more for the server's command line, as in "
        "--options='--engine emulated'",
    )


def shell_words(text: str) -> tuple[str, ...]:
    """A check for argparse: words as a shell would split them."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def servers_option(
    parser: argparse.ArgumentParser, default: Sequence[Server] = SERVERS
) -> None:
    """Add ``--only``: a list of servers."""
    parser.add_argument(
        "--only", type=some_servers, default=list(default), metavar="LIST",
        help="servers: step numbers or names, as in --only 03,06-protocol",
    )


def some_servers(text: str) -> list[Server]:
    """A check for argparse: servers by step or name."""
    try:
        chosen = select(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not chosen:
        raise argparse.ArgumentTypeError("it names no server")
    return chosen


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
    """One experiment under way: options, results, folder, screen."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.options = options
        self.folder: Path = options.output or own_folder()
        self.console = Console(highlight=False)
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=WIDTH)
        command = getattr(options, "command", "") or as_typed(sys.argv[1:])
        load = "ab" if shutil.which("ab") else "python"
        self.results = preflight.fresh(command, name, load)

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

    def note_pythons(self, pythons: Sequence[Interpreter]) -> None:
        """Say which interpreters are measured, and keep it."""
        for python in pythons:
            name = f"python{python.label}"
            self.results.tools[name] = python.described
            self.say(f"[dim]- {name}: {python.described}")

    def rounds(
        self, work: Work, usual: int, tell: Callable[[Run], str] = summary
    ) -> None:
        """Measure all points once, then all again, and so on.

        So what disturbs the machine for a while disturbs all alike.
        work: a point, and what measures it once; usual: how often, unless
        --repeats says so; tell: a run in a few words.
        """
        repeats = self.repeats(usual)
        for turn in range(1, repeats + 1):
            for point, measure in work:
                self.say(
                    f"[bold]{point.server}[/] {point.variant or point.suite}"
                    f"{f', {point.clients:,} clients' * bool(point.clients)}"
                    f", run {turn} of {repeats}"
                )
                try:
                    one = measure()
                except (ServerError, psutil.Error) as error:
                    one = Run("", error=str(error))
                self.keep(point, one)
                self.say(f"  {escape(one.error or tell(one))}")

    def keep(self, point: Point, one: Run) -> None:
        """Add a run to its point, and save."""
        add(self.results, point, one)
        self.results.save(self.folder)

    def skip(self, point: Point, reason: str) -> None:
        """Note why a point is not measured, and save."""
        point.status, point.reason = "skipped", reason
        self.points.append(point)
        self.results.save(self.folder)

    def load(
        self, process: Running, load: Load, *, name: str = "", url: str = "",
        command: str = "", busy: bool = False,
    ) -> Run:
        """Run a load against a server; its figures and its cost.

        name: of the file of raw outputs; url, command: the server's, if
        not as it says itself; busy: keep in Run.extra how many cores the
        generator used (``load_cores``), and requests/s if that had been a
        whole one (``load_limit_per_second``).
        """
        url = url or process.url
        program = "wrk" if isinstance(load, wrk.Load) else self.results.load
        shown = " ".join(load.command(url, SHOWN[program]))
        one = Run(f"{command or process.command}\n{shown}")
        meter = Meter(process)
        begun, ours = time.monotonic(), _children()
        text, late = run_load(
            load.command(url, PROGRAMS[program]), _patience(load),
            meter.sample,
        )
        wall, cpu = time.monotonic() - begun, _children() - ours
        take_cost(one, meter.read())
        keep_raw(self.folder, name or "server", one.command, text)
        try:
            report = (wrk if program == "wrk" else ab).parse(text)
        except NoFigures as error:
            one.error = str(error)
        else:
            take_report(one, report)
            one.error = any_fault(
                report, late, "interrupted: the server had stopped answering"
            )
        if busy:
            one.extra["load_cores"] = round(cpu / wall, 3)
            if one.requests_per_second and cpu:
                limit = one.requests_per_second * wall / cpu
                one.extra["load_limit_per_second"] = round(limit)
        if process.wait(0.1 if one.error else 0.0) is not None:
            one.error = f"the server died: {process.last_words()}"
        return one

    def show(
        self, columns: dict[str, Cell], note: str = "",
        points: Sequence[Point] | None = None, title: str | None = None,
    ) -> None:
        """Print a row for each point, and why some have no figures.

        columns: title -> what stands there; the first names the point.
        """
        points = self.points if points is None else points
        table = Table(
            title=title, box=box.SIMPLE_HEAD, pad_edge=False,
            title_justify="left",
        )
        for index, head in enumerate(columns):
            table.add_column(head, justify="right" if index else "left")
        name, *rest = columns.values()
        for point in points:
            good = point.status == "ok"
            cells = [cell(point) for cell in rest] if good else [
                f"[red]{point.status}"]
            table.add_row(name(point), *cells)
        self.console.print(table)
        if note:
            self.console.print(f"[dim]{note}")
        for point in points:
            if point.reason:
                self.say(f"{title_of(point)}: {escape(point.reason)}")

    def status(self) -> int:
        """The exit status: 1 if a point has no good run."""
        return int(any(point.status == "failed" for point in self.points))


def conduct(
    name: str, options: argparse.Namespace, measure: Callable[[Session], int]
) -> int:
    """Measure, save, say where the figures are; the exit status.

    It is that of `measure`; 1: stopped by an error; 2: the options ask
    for what cannot be had; 130: interrupted, what was measured is kept.
    """
    session = Session(name, options)
    results, folder = session.results, session.folder
    begun = time.monotonic()
    try:
        status = measure(session)
        results.complete = True
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
    results.seconds = round(time.monotonic() - begun, 1)
    results.save(folder)
    said = "Figures and raw outputs:"
    if status == 130:
        said = "Interrupted: what was measured is in"
    elif options.reference and status == 0:
        folder = make_reference(folder, DATA / name)
    session.say(f"\n{said} {typed(folder)}")
    return status


def _patience(load: Load) -> float:
    """Seconds after which a load is interrupted."""
    if load.seconds is not None:
        return load.seconds + GRACE_SECONDS
    assert isinstance(load, ab.Load)
    return SLACK_SECONDS + load.requests / LEAST_RATE


def _children() -> float:
    """CPU seconds of all our children that have ended.

    While a load runs, only its generator ends.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Cells of a table ---------------------------------------------------------


def title_of(point: Point) -> str:
    """What a point is called: its server and what sets it apart."""
    return f"{point.server}, {point.variant}".rstrip(", ")


def median(point: Point, name: str) -> float | None:
    """The median of a figure; None: not measured."""
    try:
        return point.median(name)
    except KeyError:  # not in Run.extra
        return None


def figure(name: str, how: str = "{:,.0f}", unit: float = 1.0) -> Cell:
    """A cell with the median of a figure, in this unit."""

    def cell(point: Point) -> str:
        value = median(point, name)
        return "" if value is None else how.format(value / unit)

    return cell


def spread(name: str, how: str = "{:,.0f}", unit: float = 1.0) -> Cell:
    """The same, and the lowest and the highest run below it."""
    middle = figure(name, how, unit)

    def cell(point: Point) -> str:
        text = middle(point)
        if not text:
            return ""
        low, high = point.spread(name) or (math.nan, math.nan)
        ends = f"{how.format(low / unit)}-{how.format(high / unit)}"
        return f"{text}\n[dim]{ends}" if low < high else text

    return cell


def failures(point: Point) -> str:
    """A cell with how many requests failed."""
    return str(sum(run.failed for run in point.runs))
