"""``./bench.sh labs frames``: 06_asyncio/lab_frames.py in all its forms.

The oldest and the newest interpreter run every variant that needs only
the standard library, the one of ``.venv-peers`` those on uvloop, Tornado
and trio too, and beside them stands the same echo in C. Both shapes,
with and without huge pages, round by round in turns. The lab does the
measuring; here its figures become points.

A run of its own, not on the clock, counts what each server copies and
allocates: with count.c between it and the C library. Another one is
profiled; its functions go to profile.json.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools import peers
from tools.bench import interpreters
from tools.bench.keep import add, keep_raw, whole
from tools.bench.peers import start
from tools.bench.server import scrub
from tools.bench.x_threads import Interpreter, InterpreterError, identify
from tools.common.files import save_json
from tools.data.results import Point, Results, Run
from tools.servers import ROOT

ABOUT = (
    "frames: 06_asyncio/lab_frames.py, an echo of 100 MB frames in every "
    "variant, beside one in C (about 20 minutes)"
)
SUITE = "labs-frames"
LAB = "06_asyncio/lab_frames.py"
ECHO = "tools/bench/frames.c"
COUNT = "tools/bench/count.c"
OLDEST = [3, 8]  # asyncio.BufferedProtocol is from 3.7, asyncio.run too
REPEATS = 7  # fewer cannot show that a variant has two speeds
SIZE, FRAMES = 100_000_000, 5
SHAPES = {"one": "one process", "two": "two processes"}
PAGES = {False: "", True: ", huge pages"}
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
LIBRARIES = "uvloop,tornado,trio"  # peers that are measured here too
IN_C = {"C-recv": "recv", "C-through": "through", "C-splice": "splice"}
PATIENCE = 900  # seconds for one call of the lab
END_SECONDS = 20  # for the lab to end that has been told to
COUNTED = (2, 4)  # frames in the runs that count: the second less the first
PROFILED = 2  # frames


class LabError(Exception):
    """A run of the lab that gave no figures; the text says why."""


@dataclasses.dataclass(frozen=True)
class Who:
    """An interpreter and its part: oldest, newest, or libraries."""

    part: str
    python: Interpreter


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to call the lab: on whom, which shape, which pages."""

    who: Who
    shape: str
    huge: bool

    @property
    def variant(self) -> str:
        """What its points are called beside their server's name."""
        return f"{self.who.part}, {self.how}"

    @property
    def how(self) -> str:
        """The shape and the pages in words."""
        return SHAPES[self.shape] + PAGES[self.huge]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this lab; --pythons is shared with the others."""
    group = parser.add_argument_group("options of the lab frames")
    group.add_argument(
        "--frame-size", type=whole(1, 10**10), default=SIZE, metavar="N",
        help=f"bytes of a frame (default: {SIZE})",
    )
    group.add_argument(
        "--frame-count", type=whole(1, 1000), default=FRAMES, metavar="N",
        help=f"frames in a run (default: {FRAMES})",
    )
    group.add_argument(
        "--frame-shape", choices=SHAPES, help="only this shape",
    )
    group.add_argument(
        "--frame-variants", metavar="LIST",
        help="only these variants of the lab, as in streams,splice",
    )
    group.add_argument(
        "--no-libraries", action="store_true",
        help=f"leave out {LIBRARIES} ({start.VENV.name})",
    )


def run(
    options: argparse.Namespace,
    results: Results,
    folder: Path,
    console: Console,
) -> int:
    """Measure every case in rounds, save after each, print the tables.

    Returns 0; 1 if a variant failed; 2 with a sentence if the options
    name what is not there.
    """
    try:
        people = choose(
            getattr(options, "pythons", None), not options.no_libraries,
            console,
        )
        names = variants(people[-1], options.frame_variants)
    except (InterpreterError, LabError) as error:
        print(f"bench.sh: {error}", file=sys.stderr)
        return 2
    for who in people:
        results.tools[who.part] = who.python.described
        console.print(f"[dim]- {who.part}: {who.python.described}")
    no_huge = why_no_huge_pages()
    if no_huge:
        console.print(f"[dim]- Without huge pages: {no_huge}")
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(options, results, folder, console, Path(made))
        bench.people, bench.names = people, names
        bench.pages = (False,) if no_huge else (False, True)
        bench.count()
        for number in range(1, (options.repeats or REPEATS) + 1):
            bench.round(number)
        bench.profile()
    show(results, console)
    return int(any(point.status == "failed" for point in results.points))


# Who runs it --------------------------------------------------------------


def choose(
    words: str | None, libraries: bool, console: Console
) -> list[Who]:
    """The oldest, the newest, and the one with the libraries.

    Raises InterpreterError if none can run the lab.
    """
    found = [
        python
        for python in interpreters.choose(words)
        if not python.free and interpreters.numbers(python)[:2] >= OLDEST
    ]
    if not found:
        raise InterpreterError(
            "the lab frames needs an interpreter from Python 3.8 on, "
            "with a GIL"
        )
    people = [Who("newest", found[-1])]
    if len(found) > 1:
        people.insert(0, Who("oldest", found[0]))
    if libraries:
        missing = start.missing(peers.select(LIBRARIES), console.print)
        for why in missing.values():
            console.print(f"[dim]- {why}")
        if len(missing) < len(LIBRARIES.split(",")):
            people.append(Who("libraries", identify(str(start.PYTHON))))
    return people


def variants(who: Who, words: str | None) -> list[str]:
    """The names of the lab's variants, or those of --frame-variants.

    Raises LabError with a sentence for a name that there is not.
    """
    said = call([who.python.program, LAB, "--list"])
    lines = [line for line in said.splitlines() if line[:1].strip()]
    names = [line.split()[0] for line in lines]
    if words is None:
        return names
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    for word in wanted:
        if word not in names:
            raise LabError(
                f"the lab has no variant {word!r}; there are "
                + ", ".join(names)
            )
    if not wanted:
        raise LabError("--frame-variants names no variant")
    return wanted


def why_no_huge_pages() -> str:
    """Why malloc cannot be told to take huge pages; "" if it can."""
    library, version = platform.libc_ver()
    numbers = [int(n) for n in version.split(".")[:2] if n.isdecimal()]
    if library != "glibc" or numbers < [2, 35]:
        return "that needs the GNU C library from 2.35 on"
    try:
        text = Path(
            "/sys/kernel/mm/transparent_hugepage/enabled"
        ).read_text()
    except OSError:
        return "this kernel has none"
    return "they are switched off here" if "[never]" in text else ""


# Calling the lab ----------------------------------------------------------


def call(words: list[str], **environment: str) -> str:
    """What a command prints, run from the root of the repository.

    However this ends, the lab and its servers end too. Raises LabError
    with what the command said last.
    """
    try:
        child = subprocess.Popen(
            words, cwd=ROOT, env={**os.environ, **environment}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, errors="replace",
        )
    except OSError as error:
        raise LabError(f"{words[0]}: {error.strerror}") from error
    try:
        out, err = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"it took more than {PATIENCE} s") from error
    finally:
        if child.poll() is None:
            child.terminate()  # it ends its own processes first
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_SECONDS)
            child.kill()
            child.wait()
    if child.returncode and not out.startswith("{"):
        lines = err.strip().splitlines() or ["it printed nothing"]
        raise LabError(scrub(lines[-1].removeprefix("lab_frames.py: ")))
    return out


def read(text: str) -> dict[str, Any]:
    """What the lab said with --json. Raises LabError."""
    try:
        said: dict[str, Any] = json.loads(text)
        for row in said["variants"]:
            _ = row["name"], row["runs"], row["skipped"], row["error"]
    except (ValueError, KeyError, TypeError) as error:
        raise LabError("the lab did not print its figures") from error
    return said


class Bench:
    """Everything that is measured in one run of ``./bench.sh``."""

    people: list[Who]
    names: list[str]
    pages: tuple[bool, ...]

    def __init__(
        self, options: argparse.Namespace, results: Results, folder: Path,
        console: Console, made: Path,
    ) -> None:
        """made: an empty folder for what is compiled."""
        self.options = options
        self.results = results
        self.folder = folder
        self.console = console
        self.made = made
        self.points: dict[tuple[str, str], Point] = {}
        self.counts: dict[tuple[str, str], dict[str, float]] = {}
        self.echo = self._compile(ECHO, "echo", [])
        self.counter = self._compile(
            COUNT, "count.so", ["-shared", "-fPIC", "-fno-builtin"]
        )

    def _compile(self, source: str, name: str, how: list[str]) -> str:
        """The path of what cc made of it, "" if it cannot."""
        if shutil.which("cc") is None or sys.platform != "linux":
            self.console.print(f"[dim]- Without {source}: no cc for Linux")
            return ""
        path = str(self.made / name)
        try:
            call(["cc", "-O2", *how, "-o", path, source, "-ldl"])
        except LabError as error:
            self.console.print(f"[dim]- Without {source}: {error}")
            return ""
        return path

    def cases(self) -> Iterator[Case]:
        """All of them, in the order of a round."""
        shape = self.options.frame_shape
        for each in [shape] if shape else SHAPES:
            for huge in self.pages:
                for who in self.people:
                    yield Case(who, each, huge)

    def asked(self, who: Who) -> list[str]:
        """Variants for an interpreter: libraries on one of them only."""
        if who.part == "libraries":
            return self.names
        foreign = ("uv-", "tornado", "trio")
        return [n for n in self.names if not n.startswith(foreign)]

    def lab(self, case: Case, *words: str) -> tuple[str, str]:
        """Call the lab; the command as shown, and what it printed."""
        size = str(self.options.frame_size)
        known = ["--size", size, "--shape", case.shape, "--json"]
        environment = HUGE if case.huge else {}
        shown = [f"{k}={v}" for k, v in environment.items()]
        shown.append(f"python{case.who.python.label}")
        shown += [LAB, *known, *words]
        out = call(
            [case.who.python.program, LAB, *known, *words], **environment
        )
        return shlex.join(shown), out

    # The timed rounds

    def round(self, number: int) -> None:
        """Every variant of every case once."""
        for case in self.cases():
            names = self.asked(case.who)
            if not names:
                continue
            self.console.print(
                f"[dim]round {number} of "
                f"{self.options.repeats or REPEATS}: {case.variant}"
            )
            words = ["--only", ",".join(names), *self._once()]
            if number > 1:
                words.append("--no-counts")
            self._take(case, names, words)
            if case.who is self.people[-1] and case.shape == "two":
                self._in_c(case)
            self.results.save(self.folder)

    def _once(self) -> list[str]:
        frames = self.options.frame_count
        return ["--rounds", "1", "--frames", str(frames)]

    def _in_c(self, case: Case) -> None:
        """The echoes in C: their client is the lab's, as for all."""
        if not self.echo:
            return
        for name, how in IN_C.items():
            server = shlex.join([self.echo, how])
            self._take(case, [name], ["--server", server, *self._once()])

    def _take(
        self, case: Case, names: list[str], words: list[str]
    ) -> None:
        """Measure, and add a run to the point of each name."""
        try:
            command, out = self.lab(case, *words)
            command = command.replace(self.echo, "frames")
            found = read(out)
            rows = found["variants"]
            name = f"{case.who.part}-{case.how}".replace(", ", "-")
            name, text = name.replace(" ", "-"), json.dumps(found)
            keep_raw(self.folder, name, command, text)
        except LabError as error:
            self.console.print(escape(str(error)), soft_wrap=True)
            rows = [
                {"skipped": "", "error": str(error), "runs": []}
                for _ in names
            ]
            command = " ".join([LAB, *words])
        for name, row in zip(names, rows, strict=True):
            self._add(case, name, row, command)

    def _add(
        self, case: Case, name: str, row: dict[str, Any], command: str
    ) -> None:
        is_c = name in IN_C
        variant = f"C, {case.how}" if is_c else case.variant
        key = (name, variant)
        fresh = Point(name, SUITE, 1, 0.0, variant=variant)
        point = self.points.setdefault(key, fresh)
        if row["skipped"]:
            if not point.reason:
                point.status, point.reason = "skipped", row["skipped"]
                self.results.points.append(point)
            return
        counts = self.counts.setdefault(key, {})
        counts.update(_named(row.get("counts", {})))
        if row.get("copies") is not None:
            counts["copies_expected"] = row["copies"]
        if case.shape == "two":  # counted in servers of that shape
            counts.update(self.counts.get((name, case.who.part), {}))
        one = Run(command, error=row["error"] or None)
        if row["runs"]:
            _fill(one, row["runs"][0], self.options.frame_count, counts)
        add(self.results, point, one)

    # What is counted

    def count(self) -> None:
        """What each server copies and allocates for a frame."""
        if not self.counter or self.options.frame_shape == "one":
            return
        for who in self.people:
            for name in self.asked(who):
                self.console.print(f"[dim]counting: {who.part}, {name}")
                try:
                    self.counts[name, who.part] = self.copies(who, name)
                except LabError as error:
                    self.console.print(f"[dim]- not counted: {error}")

    def copies(self, who: Who, name: str) -> dict[str, float]:
        """Per frame: copies and allocations in frames, and allocations.

        The difference of two runs, so that how the process begins and
        ends is not in it. Raises LabError.
        """
        few, many = (self._counted(who, name, n) for n in COUNTED)
        frames = COUNTED[1] - COUNTED[0]
        each = {k: (many[k] - few[k]) / frames for k in few}
        size = self.options.frame_size
        return {
            "copied_frames": round(each["copied"] / size, 3),
            "allocated_frames": round(each["allocated"] / size, 3),
            "allocations_per_frame": each["allocations"],
        }

    def _counted(self, who: Who, name: str, frames: int) -> dict[str, int]:
        file = self.made / "count.json"
        file.unlink(missing_ok=True)
        size = str(self.options.frame_size)
        words = [who.python.program, LAB, "--serve", name, "--size", size]
        counting = f"LD_PRELOAD={self.counter}", f"COUNT_FILE={file}"
        server = shlex.join(["env", *counting, *words])
        self.lab(
            Case(who, "two", False), "--server", server, "--rounds", "1",
            "--frames", str(frames),
        )
        try:
            # The last to end is Python; "env" may have counted itself.
            last = file.read_text().splitlines()[-1]
            found: dict[str, int] = json.loads(last)
        except (OSError, IndexError, ValueError) as error:
            raise LabError("nothing was counted") from error
        return found

    # Where the time goes

    def profile(self) -> None:
        """The functions that take the time, into profile.json."""
        found: dict[str, dict[str, Any]] = {}
        shape = self.options.frame_shape or "one"
        for who in [who for who in self.people if who.part == "newest"]:
            case = Case(who, shape, False)
            names = ",".join(self.asked(who))
            self.console.print(f"[dim]profile: {case.variant}")
            with contextlib.suppress(LabError):
                _, out = self.lab(
                    case, "--only", names, "--profile", "--no-counts",
                    "--rounds", "1", "--frames", str(PROFILED),
                )
                found[case.variant] = {
                    row["name"]: row["runs"][0]["profile"][:3]
                    for row in read(out)["variants"]
                    if row["runs"]
                }
        save_json(self.folder / "profile.json", found)


def _named(counts: dict[str, float]) -> dict[str, float]:
    """The lab's counts by names that say their unit."""
    names = {
        "peak_frames": "peak_frames", "receives": "receives_per_frame",
        "sends": "sends_per_frame",
    }
    return {names[k]: round(v, 3) for k, v in counts.items()}


def _fill(
    one: Run, said: dict[str, float], frames: int, counts: dict[str, float]
) -> None:
    one.requests = frames
    one.seconds = round(said["seconds"], 6)
    one.cpu_user = round(said.get("user", 0.0), 6)
    one.cpu_system = round(said.get("system", 0.0), 6)
    one.extra = {
        "mb_per_second": round(said["mb_per_second"], 3),
        "faults_per_frame": round(said.get("faults", 0) / frames, 3),
        "user_ms": round(1000 * said.get("user", 0) / frames, 3),
        "system_ms": round(1000 * said.get("system", 0) / frames, 3),
        **counts,
    }


# The tables ---------------------------------------------------------------


def show(results: Results, console: Console) -> None:
    """A table for each shape: MB/s of each variant on each interpreter."""
    points = results.suite(SUITE)
    for shape in SHAPES.values():
        columns = sorted(
            {p.variant for p in points if f", {shape}" in p.variant}
        )
        if not columns:
            continue
        table = Table(
            title=f"MB/s, {shape}", box=box.SIMPLE_HEAD, pad_edge=False,
            title_justify="left",
        )
        table.add_column("variant")
        for column in columns:
            head = column.replace(f", {shape}", "").replace(", ", "\n")
            table.add_column(head, justify="right")
        for name in dict.fromkeys(p.server for p in points):
            cells = [_cell(points, name, column) for column in columns]
            if any(cells):
                table.add_row(name, *cells)
        console.print(table)
    console.print(
        "[dim]medians, and below the slowest and fastest run; two columns "
        "apart: what huge pages do"
    )
    for line in against_c(points):
        console.print(line)


def _cell(points: list[Point], name: str, variant: str) -> str:
    for point in points:
        if (point.server, point.variant) == (name, variant):
            found = speed(point)
            if found is None:
                return point.status
            low, high = point.spread("mb_per_second") or (found, found)
            return f"{found:,.0f}\n[dim]{low:,.0f}-{high:,.0f}"
    return ""


def speed(point: Point) -> float | None:
    """MB/s, the median; None if there is none."""
    try:
        return point.median("mb_per_second")
    except KeyError:
        return None


def against_c(points: list[Point]) -> list[str]:
    """A sentence for each kind of pages: the best Python, the best C."""
    found = []
    for pages in PAGES.values():
        how = SHAPES["two"] + pages
        here = [
            (rate, point)
            for point in points
            if point.variant.partition(", ")[2] == how
            and (rate := speed(point)) is not None
        ]
        ours = [each for each in here if each[1].server not in IN_C]
        theirs = [each for each in here if each[1].server in IN_C]
        if not ours or not theirs:
            continue
        best, point = max(ours, key=lambda each: each[0])
        most, other = max(theirs, key=lambda each: each[0])
        found.append(
            f"{how}: the fastest Python is {point.server} "
            f"({point.variant.partition(',')[0]}) with {best:,.0f} MB/s, "
            f"{100 * best / most:.0f} % of {other.server}."
        )
    return found
