"""``./bench.sh labs frames``: lab.py beside this file, in all its forms.

The oldest and the newest interpreter run every variant that needs only
the standard library, the one of ``.venv-peers`` those on uvloop, Tornado
and trio too, and beside them stands the same echo in C. Both shapes, with
and without huge pages, in turns.

Runs of their own, not on the clock, count what each server copies and
allocates, with count.c between it and the C library. Others are profiled;
their functions go to profile.json.
"""

import json
import platform
import pstats
import re
import shlex
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labs.frames.links import VARIANTS
from tools import peers
from tools.bench import interpreters
from tools.bench.experiments.lab import LabError, said_by
from tools.bench.interpreters import Interpreter, InterpreterError, identify
from tools.bench.outcome import keep_raw
from tools.bench.peers import start
from tools.bench.session import Session, Work, number_option, some_of
from tools.bench.table import spread, title_of
from tools.common.files import save_json
from tools.data.results import Point, Run

HELP = (
    "an echo of 100 MB frames in every variant, beside one in C (about 20 "
    "minutes)"
)
SUITE = "labs-frames"
LAB = "labs/frames/lab.py"
ECHO = "labs/frames/echo.c"
COUNT = "labs/frames/count.c"
OLDEST = [3, 8]  # asyncio.BufferedProtocol is from 3.7, asyncio.run too
REPEATS = 7  # fewer cannot show that a variant has two speeds
SIZE, FRAMES = 100_000_000, 5
SHAPES = {"one": "one process", "two": "two processes"}
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
LIBRARIES = "uvloop,tornado,trio"  # peers that are measured here too
IN_C = {"C-recv": "recv", "C-through": "through", "C-splice": "splice"}
PATIENCE = 900  # seconds for one call of the lab
COUNTED = (2, 4)  # frames in the runs that count: the second less the first
PROFILED, SHOWN = 2, 3  # frames, and the functions that took most
FIGURES = {  # figure of the results: the lab's, and its unit for a frame
    "faults_per_frame": ("faults", 1), "user_ms": ("user", 1000),
    "system_ms": ("system", 1000),
}

OPTIONS = (  # --pythons is that of all labs
    number_option("--frame-size", 1, 10**9, SIZE, "bytes of a frame"),
    number_option("--frame-count", 1, 1000, FRAMES, "frames in a run"),
    ("--frame-variants", {
        "metavar": "LIST", "default": tuple(VARIANTS),
        "type": some_of([*VARIANTS], "variant"),
        "help": "only these variants of the lab, as in streams,splice",
    }),
    ("--no-libraries", {
        "action": "store_true",
        "help": f"leave out {LIBRARIES} ({start.VENV.name})",
    }),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One way to call the lab; part: oldest, newest or libraries."""

    part: str
    python: Interpreter
    shape: str
    huge: bool = False

    @property
    def how(self) -> str:
        """The shape and the pages in words."""
        return SHAPES[self.shape] + ", huge pages" * self.huge

    @property
    def variant(self) -> str:
        """What its points are called beside their server's name."""
        return f"{self.part}, {self.how}"


def measure(session: Session) -> int:
    """Count, measure every variant of every case in turns, profile."""
    pythons = interpreters.choose(session.options.pythons)
    people = oldest_and_newest(pythons)
    if not session.options.no_libraries:
        missing = start.missing(peers.select(LIBRARIES), session.say)
        for why in missing.values():
            session.say(f"[dim]- {why}")
        if len(missing) < len(LIBRARIES.split(",")):
            people["libraries"] = identify(str(start.PYTHON))
    for part, python in people.items():
        session.results.tools[part] = python.described
        session.say(f"[dim]- {part}: {python.described}")
    if not (huge := has_huge_pages()):
        session.say("[dim]- Without huge pages: they need the GNU C library "
                    "from 2.35 on, and a kernel where they are on")
    with tempfile.TemporaryDirectory() as made:
        rig = Rig(session, Path(made))
        work = [one for case in cases(people, huge) for one in rig.work(case)]
        session.rounds(
            work, REPEATS,
            lambda one: f"{one.extra['mb_per_second']:,.0f} MB/s",
        )
        newest = Case("newest", people["newest"], "one")
        save_json(session.folder / "profile.json",
                  {newest.variant: rig.profile(newest)})
    session.points.sort(
        key=lambda p: (p.variant.partition(", ")[2], p.server)
    )
    session.show(
        {"variant": title_of, "MB/s": spread("mb_per_second")},
        "medians, and below the slowest and fastest run",
    )
    return session.status()


def oldest_and_newest(
    pythons: list[Interpreter]
) -> dict[str, Interpreter]:
    """Those of the interpreters that can run the lab, or the one that can.

    Raises InterpreterError if none can.
    """
    found = [
        python for python in pythons
        if not python.free and interpreters.numbers(python)[:2] >= OLDEST
    ]
    if not found:
        raise InterpreterError(
            "the lab frames needs an interpreter from Python 3.8 on, "
            "with a GIL"
        )
    oldest = {"oldest": found[0]} if len(found) > 1 else {}
    return {**oldest, "newest": found[-1]}


def has_huge_pages() -> bool:
    """Can malloc be told to take huge pages?"""
    library, version = platform.libc_ver()
    numbers = [int(n) for n in version.split(".")[:2] if n.isdecimal()]
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return (
        library == "glibc" and numbers >= [2, 35]
        and file.is_file() and "[never]" not in file.read_text()
    )


def cases(people: dict[str, Interpreter], huge: bool) -> list[Case]:
    """One process, as in 2017, where the libraries are; else two."""
    found = []
    for part, python in people.items():
        shape = "one" if part == "libraries" else "two"
        if shape == "one":  # counted there as well
            found.append(Case(part, python, "two"))
        found += [Case(part, python, shape, each)
                  for each in (False, True)[:1 + huge]]
    return found


# Calling the lab ----------------------------------------------------------


class Rig:
    """What calls the lab, with what is compiled for it."""

    def __init__(self, session: Session, made: Path) -> None:
        """made: an empty folder for what is compiled."""
        self.session, self.options, self.made = session, session.options, made
        self.counts: dict[tuple[str, str], dict[str, float]] = {}
        self.echo = self._compiled(ECHO)
        self.counter = self._compiled(
            COUNT, "-shared", "-fPIC", "-fno-builtin"
        )

    def _compiled(self, source: str, *how: str) -> str:
        """The path of what cc made of it, "" if it cannot."""
        path = str(self.made / Path(source).stem)
        try:
            said_by(["cc", "-O2", *how, "-o", path, source, "-ldl"], PATIENCE)
        except LabError as error:  # no cc, or no Linux
            self.session.say(f"[dim]- Without {source}: {error}")
            return ""
        return path

    def call(
        self, case: Case, frames: int, *words: str
    ) -> tuple[str, list[dict[str, Any]]]:
        """Call the lab; the command as shown, and what it said of each run.

        Raises LabError.
        """
        words = (LAB, "--size", str(self.options.frame_size), "--shape",
                 case.shape, "--json", "--frames", str(frames), *words)
        how = HUGE if case.huge else {}
        text = said_by(
            [case.python.program, *words], PATIENCE, environment=how
        )
        command = shlex.join([f"python{case.python.label}", *words])
        for name, value in how.items():
            command = f"{name}={value} {command}"
        return command.replace(self.echo or "\0", "frames"), read(text)

    def asked(self, case: Case) -> list[str]:
        """Variants for an interpreter: libraries on one of them only."""
        foreign = LIBRARIES.split(",")
        return [
            name for name in self.options.frame_variants
            if case.part == "libraries" or VARIANTS[name].needs not in foreign
        ]

    def work(self, case: Case) -> list[Work]:
        """What is measured of a case; what cannot be is skipped.

        First, frames of a byte show which variants there are.
        """
        names = self.asked(case)
        work: list[Work] = []
        words = "--only", ",".join(names), "--size", "1"
        for row in self.call(case, 1, *words)[1] if names else ():
            name = row["name"]
            point = Point(name, SUITE, 1, 0.0, variant=case.variant)
            if "skipped" in row:
                self.session.skip(point, row["skipped"])
                continue
            work.append((point, partial(self.once, case, "--only", name)))
            if case.shape == "two" and not case.huge:
                self.counts[case.part, name] = self.copies(case, name)
        # C, beside the newest, with the lab's client as for all.
        if self.echo and case == Case("newest", case.python, "two"):
            for name, how in IN_C.items():
                point = Point(name, SUITE, 1, 0.0, variant=f"C, {case.how}")
                server = shlex.join([self.echo, how])
                work.append(
                    (point, partial(self.once, case, "--server", server))
                )
        return work

    def once(self, case: Case, *words: str) -> Run:
        """One run of one variant. Raises LabError."""
        frames = self.options.frame_count
        command, (said,) = self.call(case, frames, *words)
        keep_raw(
            self.session.folder, case.variant, command, json.dumps(said)
        )
        one = Run(command, error=said.get("error"))
        if one.error:
            return one
        one.requests, one.seconds = frames, round(said["seconds"], 6)
        one.cpu_user = round(said.get("user", 0.0), 6)
        one.cpu_system = round(said.get("system", 0.0), 6)
        one.extra = {"mb_per_second": round(said["mb_per_second"], 3)} | {
            name: round(unit * said.get(what, 0) / frames, 3)
            for name, (what, unit) in FIGURES.items()
        }
        if case.shape == "two":  # counted in servers of that shape
            one.extra |= self.counts.get((case.part, words[1]), {})
        return one

    def copies(self, case: Case, name: str) -> dict[str, float]:
        """For a frame: how many are copied and allocated, if known.

        The difference of two runs, so that how the process begins and
        ends is not in it.
        """
        if not self.counter:
            return {}
        self.session.say(f"[dim]counting: {case.part}, {name}")
        size, file = self.options.frame_size, self.made / "count.json"
        server = shlex.join([
            "env", f"LD_PRELOAD={self.counter}", f"COUNT_FILE={file}",
            case.python.program, LAB, "--serve", name, "--size", str(size),
        ])  # fmt: skip
        totals = []
        try:
            for frames in COUNTED:
                file.unlink(missing_ok=True)
                self.call(case, frames, "--server", server)
                # The last to end is Python; "env" may have counted itself.
                last = file.read_text().splitlines()[-1]
                totals.append(json.loads(last))
        except (LabError, OSError, IndexError, ValueError) as error:
            self.session.say(f"[dim]- not counted: {error}")
            return {}
        few, many = totals
        size *= COUNTED[1] - COUNTED[0]
        return {
            f"{what}_frames": round((many[what] - few[what]) / size, 3)
            for what in ("copied", "allocated")
        }

    def profile(self, case: Case) -> dict[str, list[tuple[str, float]]]:
        """The functions that take the time of each variant."""
        found, file = {}, self.made / "profile"
        for name in self.asked(case):
            self.session.say(f"[dim]profile: {case.variant}, {name}")
            words = ["--alone", name, "--profile", str(file),
                     "--size", str(self.options.frame_size)]
            try:
                said_by([case.python.program, LAB, "--frames", str(PROFILED),
                         *words], PATIENCE)  # fmt: skip
                found[name] = top(file)
            except LabError as error:  # it cannot run here
                self.session.say(f"[dim]- not profiled: {error}")
        return found


def read(text: str) -> list[dict[str, Any]]:
    """What the lab prints with --json: a line for each run.

    Raises LabError if it is something else.
    """
    try:
        rows = [dict(json.loads(line)) for line in text.splitlines()]
    except (ValueError, TypeError):
        rows = []
    if not rows:
        raise LabError("the lab did not print its figures")
    return rows


def top(file: Path) -> list[tuple[str, float]]:
    """The functions of a profile that took most: name, share of the time."""
    rows = pstats.Stats(str(file)).stats  # type: ignore[attr-defined]
    whole = sum(row[2] for row in rows.values()) or 1.0
    most = sorted(rows.items(), key=lambda item: -item[1][2])
    return [
        (called(*where), round(row[2] / whole, 4))
        for where, row in most[:SHOWN]
    ]


def called(file: str, line: int, name: str) -> str:
    """A function as the profile names it, in words, as socket.recv."""
    if match := re.match(r"<method '(\w+)' of '([\w.]+)' objects>", name):
        return f"{match[2].rpartition('.')[2]}.{match[1]}"
    if match := re.match(r"<built-in method (.*)>", name):
        return match[1]
    return f"{name} ({Path(file).name})"
