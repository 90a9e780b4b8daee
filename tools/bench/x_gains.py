"""``./bench.sh gains``: what each idea of step 07 is worth.

Takes one idea away at a time: copies the step's folder, replaces a few
words in the copy, and measures it beside the original. A replacement
that does not find its words ends the experiment: the list follows the
code or it fails.
"""

import argparse
import contextlib
import dataclasses
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.bench import wrk
from tools.bench.ab import MANY, Load
from tools.bench.numbers import number
from tools.bench.outcome import add
from tools.bench.run import summary
from tools.bench.server import ServerError, start
from tools.bench.x_crowd import ab_like, measure, with_wrk
from tools.data.results import Point, Results, Run
from tools.servers import ROOT, Server, by_name

ABOUT = "what each idea of 07 is worth: taken away one at a time (9 minutes)"
COPIES = ".patched"  # folder of the repository, for the changed copies
CLIENTS = 100
SECONDS = 3  # a load
REPEATS = 5
WARM_UP = 100  # requests
KEEP, NEW = "gain-keep", "gain-new"
Change = tuple[str, str, str]  # file, words in it, what to put instead


@dataclass(frozen=True)
class Idea:
    """An idea of step 07, and how to take it away.

    name: for the table, in a few words: what is then otherwise; changes:
    what to replace, in which file; options: or a command line; suites:
    where it matters.
    """

    name: str
    changes: tuple[Change, ...] = ()
    options: tuple[str, ...] = ()
    suites: tuple[str, ...] = (KEEP, NEW)


OTHER_ERRORS = """\
            except OSError as error:
                # Too many
"""[:-1]
MIN_WAIT = OTHER_ERRORS.replace(
    "error:\n", "error:\n                if error.errno == errno.ETIME:\n"
    "                    return\n",
)

IDEAS = (
    Idea("as it is"),
    Idea("emulated: no io_uring", options=("--engine", "emulated")),
    Idea(
        "each send has a completion",
        (("server.py", "            or not (keep_alive or request.closes)\n",
          "            or True\n"),),
    ),
    Idea(
        "reads to the end before it closes",
        (("server.py", "            or not (keep_alive or request.closes)\n",
          "            or not keep_alive\n"),),
        suites=(NEW,),
    ),
    Idea(
        "each head is parsed, known or not",
        (("server.py", "self.parse_known(received)", "parse(received)"),),
    ),
    Idea(
        "only single receives",
        (("server.py", "self.engine.receive(connection.fd, connection.kept)",
          "self.engine.receive(connection.fd)"),),
        suites=(KEEP,),
    ),
    Idea(
        "only multishot receives",
        (("server.py", "self.engine.receive(connection.fd, connection.kept)",
          "self.engine.receive(connection.fd, True)"),),
        suites=(NEW,),
    ),
    Idea(
        "accepted before it has sent anything",
        (("server.py", "        each.setsockopt(socket.IPPROTO_TCP, "
          "socket.TCP_DEFER_ACCEPT, 1)\n", ""),),
        suites=(NEW,),
    ),
    Idea(
        "the end in a segment of its own",
        (("uring.py", "LAST = ALL | MSG_MORE", "LAST = ALL"),),
        suites=(NEW,),
    ),
    Idea(
        "completions interrupt us (no DEFER_TASKRUN)",
        (("uring.py", "    for flags in FLAGS:\n",
          "    for flags in FLAGS[3:]:\n"),),
    ),
    Idea(
        "waits up to 50 µs for eight completions",
        (("uring.py", "ENTER, self.fd, self.put - self.taken, wait, 1\n",
          "ENTER, self.fd, self.put - self.taken, wait * 8, 9, "
          "address(WAIT), 24\n"),
         ("uring.py", "class Unavailable",
          "WAIT = bytearray(struct.pack('=QIIQ', 0, 0, 50, 0))\n\n\n"
          "class Unavailable"),
         ("uring.py", OTHER_ERRORS, MIN_WAIT)),
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this experiment."""
    parser.add_argument(
        "--seconds", type=number(1, 3600), default=SECONDS, metavar="S",
        help=f"of each load (default: {SECONDS})",
    )


def patched(idea: Idea, folder: Path) -> Server:
    """07 without an idea, as a copy in a folder of its own.

    Raises ValueError if the words to be replaced are not there once.
    """
    original = by_name("07")
    options = (*original.options, *idea.options)
    if not idea.changes:
        return dataclasses.replace(original, options=options)
    copy = folder / "-".join(
        "".join(c if c.isalnum() else " " for c in idea.name).split()
    )
    shutil.copytree(
        original.path.parent, copy,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name, old, new in idea.changes:
        text = (copy / name).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise ValueError(
                f"{idea.name!r}: {old.strip()!r} is {text.count(old)} times "
                f"in 07_parallel/{name}, not once: tools/bench/x_gains.py "
                "has to follow"
            )
        changed = text.replace(old, new)
        (copy / name).write_text(changed, encoding="utf-8")
    file = str((copy / "server.py").relative_to(ROOT))
    return dataclasses.replace(original, file=file, options=options)


@contextlib.contextmanager
def copies() -> Iterator[dict[str, Server]]:
    """The server without each idea, by the idea's name."""
    folder = ROOT / COPIES
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield {idea.name: patched(idea, folder) for idea in IDEAS}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure all of them, repeats interleaved; 1 if one failed."""
    if shutil.which("wrk"):
        results.tools["wrk"] = wrk.version() or "?"
    points = {
        (suite, idea.name): Point(
            "07", suite, CLIENTS, 0.0, keep_alive=suite == KEEP,
            variant=idea.name,
        )
        for suite in (KEEP, NEW)
        for idea in IDEAS
        if suite in idea.suites
    }
    repeats = options.repeats or REPEATS
    try:
        with copies() as servers:
            for turn in range(1, repeats + 1):
                for (suite, name), point in points.items():
                    console.print(
                        f"[bold]{name}[/], {suite}, run {turn} of {repeats}"
                    )
                    one = _measure(
                        servers[name], suite, options.seconds, results.load,
                        folder,
                    )
                    add(results, point, one)
                    console.print(f"  {escape(summary(one))}")
                    results.save(folder)
    except ValueError as error:
        console.print(f"[red]{escape(str(error))}")
        return 1
    show(list(points.values()), console)
    return int(any(point.status != "ok" for point in points.values()))


def _measure(
    server: Server, suite: str, seconds: int, kind: str, folder: Path
) -> Run:
    if suite == KEEP and shutil.which("wrk"):
        load = with_wrk(wrk.Load(CLIENTS, seconds))
    else:
        load = ab_like(
            kind, Load(CLIENTS, MANY, seconds, keep_alive=suite == KEEP)
        )
    try:
        with start(server, 0.0, ("--workers", "1")) as process:
            process.warm_up(WARM_UP)
            return measure(process, load, seconds, folder)
    except ServerError as error:
        return Run("", error=str(error))


def show(points: list[Point], console: Console) -> None:
    """Print CPU per request and its ratio to the original."""
    for suite in (KEEP, NEW):
        table = Table(title=suite, box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("07")
        for column in ("CPU us/request", "lowest-highest", "times", "req/s"):
            table.add_column(column, justify="right")
        unit = None
        for point in (p for p in points if p.suite == suite):
            values = [1000 * value for value in point.values("cpu_ms")]
            if not values:
                table.add_row(point.variant, "[red]failed")
                continue
            middle = statistics.median(values)
            unit = unit or middle
            table.add_row(
                point.variant, f"{middle:.2f}",
                f"{min(values):.2f}-{max(values):.2f}",
                f"{middle / unit:.2f}",
                f"{point.median('requests_per_second') or 0:,.0f}",
            )
        console.print(table)
    for point in points:
        if point.status != "ok":
            console.print(f"{point.variant}: {escape(point.reason)}")
