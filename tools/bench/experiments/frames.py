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
import itertools
import json
import platform
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.markup import escape

from tools import peers
from tools.bench import interpreters
from tools.bench.experiments.lab import LabError, said_by
from tools.bench.interpreters import Interpreter, InterpreterError, identify
from tools.bench.outcome import keep_raw
from tools.bench.peers import start
from tools.bench.session import Refused, Session, number_option, some_of
from tools.bench.table import spread, title_of
from tools.common.files import save_json
from tools.data.results import Point, Run

HELP = (
    "06_asyncio/lab_frames.py, an echo of 100 MB frames in every variant, "
    "beside one in C (about 20 minutes)"
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
FOREIGN = ("uv-", "tornado", "trio")  # variants that need one of them
IN_C = {"C-recv": "recv", "C-through": "through", "C-splice": "splice"}
PATIENCE = 900  # seconds for one call of the lab
COUNTED = (2, 4)  # frames in the runs that count: the second less the first
PROFILED = 2  # frames


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
    huge: bool = False

    @property
    def variant(self) -> str:
        """What its points are called beside their server's name."""
        return f"{self.who.part}, {self.how}"

    @property
    def how(self) -> str:
        """The shape and the pages in words."""
        return SHAPES[self.shape] + PAGES[self.huge]


OPTIONS = (  # --pythons is that of all labs
    number_option("--frame-size", 1, 10**10, SIZE, "bytes of a frame"),
    number_option("--frame-count", 1, 1000, FRAMES, "frames in a run"),
    ("--frame-variants", {
        "metavar": "LIST",
        "help": "only these variants of the lab, as in streams,splice",
    }),
    ("--no-libraries", {
        "action": "store_true",
        "help": f"leave out {LIBRARIES} ({start.VENV.name})",
    }),
)  # fmt: skip


def measure(session: Session) -> int:
    """Count, measure every case in turns, profile."""
    options = session.options
    people = choose(options.pythons, not options.no_libraries, session)
    names = variants(people[-1], options.frame_variants)
    for who in people:
        session.results.tools[who.part] = who.python.described
        session.say(f"[dim]- {who.part}: {who.python.described}")
    no_huge = why_no_huge_pages()
    if no_huge:
        session.say(f"[dim]- Without huge pages: {no_huge}")
    with tempfile.TemporaryDirectory() as made:
        bench = Bench(session, people, names, Path(made))
        bench.pages = (False,) if no_huge else (False, True)
        bench.count()
        repeats = session.repeats(REPEATS)
        for number in range(1, repeats + 1):
            for case in bench.cases():
                session.say(
                    f"[dim]round {number} of {repeats}: {case.variant}"
                )
                bench.measure(case)
        bench.profile()
    session.show(
        {"variant": title_of, "MB/s": spread("mb_per_second")},
        "medians, and below the slowest and fastest run; huge pages: what "
        "they do for the same variant",
        sorted(
            session.points,
            key=lambda p: (p.variant.partition(", ")[2], p.server),
        ),
    )
    return session.status()


# Who runs it --------------------------------------------------------------


def choose(words: str | None, libraries: bool, session: Session) -> list[Who]:
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
    people = [Who("oldest", found[0])] if len(found) > 1 else []
    people.append(Who("newest", found[-1]))
    if libraries:
        missing = start.missing(peers.select(LIBRARIES), session.say)
        for why in missing.values():
            session.say(f"[dim]- {why}")
        if len(missing) < len(LIBRARIES.split(",")):
            people.append(Who("libraries", identify(str(start.PYTHON))))
    return people


def variants(who: Who, words: str | None) -> list[str]:
    """The names of the lab's variants, or those of --frame-variants.

    Raises Refused with a sentence for a name that there is not.
    """
    said = said_by([who.python.program, LAB, "--list"], PATIENCE)
    lines = [line for line in said.splitlines() if line[:1].strip()]
    names = [line.split()[0] for line in lines]
    if words is None:
        return names
    try:
        return [*some_of(names, "variant")(words)]
    except argparse.ArgumentTypeError as error:
        raise Refused(f"--frame-variants: {error}") from None


def why_no_huge_pages() -> str:
    """Why malloc cannot be told to take huge pages; "" if it can."""
    library, version = platform.libc_ver()
    numbers = [int(n) for n in version.split(".")[:2] if n.isdecimal()]
    if library != "glibc" or numbers < [2, 35]:
        return "that needs the GNU C library from 2.35 on"
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not file.is_file():
        return "this kernel has none"
    off = "[never]" in file.read_text()
    return "they are switched off here" if off else ""


# Calling the lab ----------------------------------------------------------


class Bench:
    """All calls of the lab in one run of ``./bench.sh``."""

    def __init__(
        self, session: Session, people: list[Who], names: list[str],
        made: Path,
    ) -> None:
        """made: an empty folder for what is compiled."""
        self.session = session
        self.options = session.options
        self.people = people
        self.names = names
        self.made = made
        self.pages: tuple[bool, ...] = (False,)
        self.points: dict[tuple[str, str], Point] = {}
        self.counts: dict[tuple[str, str], dict[str, float]] = {}
        self.echo = self._compile(ECHO, "echo")
        self.counter = self._compile(
            COUNT, "count.so", "-shared", "-fPIC", "-fno-builtin"
        )

    def _compile(self, source: str, name: str, *how: str) -> str:
        """The path of what cc made of it, "" if it cannot."""
        path = str(self.made / name)
        try:
            said_by(["cc", "-O2", *how, "-o", path, source, "-ldl"], PATIENCE)
        except LabError as error:  # no cc, or no Linux
            self.session.say(f"[dim]- Without {source}: {error}")
            return ""
        return path

    def cases(self) -> Iterator[Case]:
        """All of them that have variants, in the order of a round."""
        for shape, huge, who in itertools.product(
            SHAPES, self.pages, self.people
        ):
            # One process, as in 2017, where the libraries are.
            wanted = shape == "two"
            if who.part == "libraries":
                wanted = shape == "one" or not huge
            if wanted and self.asked(who):
                yield Case(who, shape, huge)

    def asked(self, who: Who) -> list[str]:
        """Variants for an interpreter: libraries on one of them only."""
        if who.part == "libraries":
            return self.names
        return [name for name in self.names if not name.startswith(FOREIGN)]

    def lab(
        self, case: Case, frames: int, *words: str
    ) -> tuple[str, dict[str, Any]]:
        """Call the lab for a round; the command as shown, what it said.

        Raises LabError.
        """
        words = (
            LAB, "--size", str(self.options.frame_size), "--shape",
            case.shape, "--json", "--rounds", "1", "--frames", str(frames),
            *words,
        )
        more = HUGE if case.huge else {}
        call = [case.who.python.program, *words]
        text = said_by(call, PATIENCE, environment=more)
        try:
            said: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise LabError("the lab did not print its figures") from error
        shown = [f"{name}={value}" for name, value in more.items()]
        shown += [f"python{case.who.python.label}", *words]
        command = shlex.join(shown)
        if self.echo:
            command = command.replace(self.echo, "frames")
        return command, said

    def measure(self, case: Case) -> None:
        """Every variant of a case once."""
        names = self.asked(case.who)
        self._take(case, names, "--only", ",".join(names), "--no-counts")
        last = case.who is self.people[-1] and not case.huge
        if last and case.shape == "two" and self.echo:
            # Their client is the lab's, as for all.
            for name, how in IN_C.items():
                server = shlex.join([self.echo, how])
                self._take(case, [name], "--server", server)

    def _take(self, case: Case, names: list[str], *words: str) -> None:
        """Measure, and add a run to the point of each name."""
        frames = self.options.frame_count
        try:
            command, found = self.lab(case, frames, *words)
            rows = found["variants"]
            text = json.dumps(found)
            keep_raw(self.session.folder, case.variant, command, text)
        except LabError as error:
            self.session.say(escape(str(error)))
            failed = {"skipped": "", "error": str(error), "runs": []}
            command, rows = " ".join([LAB, *words]), [failed] * len(names)
        for name, row in zip(names, rows, strict=True):
            self._add(case, name, row, command)

    def _add(
        self, case: Case, name: str, row: dict[str, Any], command: str
    ) -> None:
        """A run of one variant to its point."""
        variant = f"C, {case.how}" if name in IN_C else case.variant
        fresh = Point(name, SUITE, 1, 0.0, variant=variant)
        point = self.points.setdefault((name, variant), fresh)
        if row["skipped"]:
            if not point.reason:
                self.session.skip(point, row["skipped"])
            return
        counts = {}
        if case.shape == "two":  # counted in servers of that shape
            counts = self.counts.get((name, case.who.part), {})
        one = Run(command, error=row["error"] or None)
        if row["runs"]:
            fill(one, row["runs"][0], self.options.frame_count, counts)
        self.session.keep(point, one)

    def count(self) -> None:
        """What each server copies and allocates for a frame."""
        for who in self.people if self.counter else ():
            for name in self.asked(who):
                self.session.say(f"[dim]counting: {who.part}, {name}")
                try:
                    self.counts[name, who.part] = self.copies(who, name)
                except LabError as error:
                    self.session.say(f"[dim]- not counted: {error}")

    def copies(self, who: Who, name: str) -> dict[str, float]:
        """For a frame: how many are copied and allocated.

        The difference of two runs, so that how the process begins and
        ends is not in it. Raises LabError.
        """
        few, many = (self._counted(who, name, n) for n in COUNTED)
        size = (COUNTED[1] - COUNTED[0]) * self.options.frame_size
        return {
            f"{what}_frames": round((many[what] - few[what]) / size, 3)
            for what in ("copied", "allocated")
        }

    def _counted(self, who: Who, name: str, frames: int) -> dict[str, int]:
        file = self.made / "count.json"
        file.unlink(missing_ok=True)
        server = shlex.join([
            "env", f"LD_PRELOAD={self.counter}", f"COUNT_FILE={file}",
            who.python.program, LAB, "--serve", name, "--size",
            str(self.options.frame_size),
        ])  # fmt: skip
        self.lab(Case(who, "two"), frames, "--server", server)
        try:
            # The last to end is Python; "env" may have counted itself.
            last = file.read_text().splitlines()[-1]
            found: dict[str, int] = json.loads(last)
        except (OSError, IndexError, ValueError) as error:
            raise LabError("nothing was counted") from error
        return found

    def profile(self) -> None:
        """The functions that take the time, into profile.json."""
        found: dict[str, dict[str, Any]] = {}
        for who in self.people:
            case = Case(who, "one")
            self.session.say(f"[dim]profile: {case.variant}")
            with contextlib.suppress(LabError):
                _, said = self.lab(
                    case, PROFILED, "--only", ",".join(self.asked(who)),
                    "--profile", "--no-counts",
                )
                found[case.variant] = {
                    row["name"]: row["runs"][0]["profile"]
                    for row in said["variants"]
                    if row["runs"]
                }
        save_json(self.session.folder / "profile.json", found)


def fill(
    one: Run, said: dict[str, float], frames: int, counts: dict[str, float]
) -> None:
    """What the lab said of a run, and what was counted, into a run."""
    user, system = said.get("user", 0.0), said.get("system", 0.0)
    one.requests, one.seconds = frames, round(said["seconds"], 6)
    one.cpu_user, one.cpu_system = round(user, 6), round(system, 6)
    one.extra = {
        "mb_per_second": round(said["mb_per_second"], 3),
        "faults_per_frame": round(said.get("faults", 0) / frames, 3),
        "user_ms": round(1000 * user / frames, 3),
        "system_ms": round(1000 * system / frames, 3),
        **counts,
    }
