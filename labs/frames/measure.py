"""``./bench.sh labs frames``: lab.py beside this file, in all its forms.

The oldest and the newest interpreter run every variant that needs only
the standard library, the one of ``.venv-peers`` those on uvloop, Tornado
and trio too, and beside them stands the same echo in C. Both shapes, with
and without huge pages, in turns.

Runs of their own, not on the clock, count what each server copies and
allocates, with count.c between it and the C library. Others are profiled;
their functions go to profile.json.
"""

import contextlib
import itertools
import json
import platform
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
PROFILED = 2  # frames

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
    people = choose(session)
    for part, python in people.items():
        session.results.tools[part] = python.described
        session.say(f"[dim]- {part}: {python.described}")
    no_huge = why_no_huge_pages()
    if no_huge:
        session.say(f"[dim]- Without huge pages: {no_huge}")
    with tempfile.TemporaryDirectory() as made:
        rig = Rig(session, Path(made))
        work: list[Work] = []
        for case in cases(people, not no_huge):
            work += rig.work(case)
        session.rounds(
            work, REPEATS, lambda one: f"{one.extra['mb_per_second']:,.0f} "
            "MB/s",
        )
        rig.profile([Case(*who, "one") for who in people.items()])
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


def choose(session: Session) -> dict[str, Interpreter]:
    """The oldest, the newest, and the one with the libraries.

    Raises InterpreterError if none can run the lab.
    """
    found = [
        python
        for python in interpreters.choose(session.options.pythons)
        if not python.free and interpreters.numbers(python)[:2] >= OLDEST
    ]
    if not found:
        raise InterpreterError(
            "the lab frames needs an interpreter from Python 3.8 on, "
            "with a GIL"
        )
    people = {"oldest": found[0]} if len(found) > 1 else {}
    people["newest"] = found[-1]
    if not session.options.no_libraries:
        missing = start.missing(peers.select(LIBRARIES), session.say)
        for why in missing.values():
            session.say(f"[dim]- {why}")
        if len(missing) < len(LIBRARIES.split(",")):
            people["libraries"] = identify(str(start.PYTHON))
    return people


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


def cases(people: dict[str, Interpreter], huge: bool) -> list[Case]:
    """One process, as in 2017, where the libraries are; else two."""
    pages = (False, True)[:1 + huge]
    every = itertools.product(SHAPES, pages, people.items())
    return [
        Case(part, python, shape, large) for shape, large, (part, python)
        in every if (shape == "two") != (part == "libraries")
        or (shape == "two" and not large)
    ]


# Calling the lab ----------------------------------------------------------


class Rig:
    """What calls the lab, with what is compiled for it."""

    def __init__(self, session: Session, made: Path) -> None:
        """made: an empty folder for what is compiled."""
        self.session, self.options = session, session.options
        self.made = made
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
        """Call the lab for a round; the command as shown, and its rows.

        Raises LabError.
        """
        words = (
            LAB, "--size", str(self.options.frame_size), "--shape",
            case.shape, "--json", "--rounds", "1", "--frames", str(frames),
            *words,
        )
        more = HUGE if case.huge else {}
        text = said_by(
            [case.python.program, *words], PATIENCE, environment=more
        )
        shown = [f"{name}={value}" for name, value in more.items()]
        shown += [f"python{case.python.label}", *words]
        command = shlex.join(shown)
        if self.echo:
            command = command.replace(self.echo, "frames")
        try:
            rows: list[dict[str, Any]] = json.loads(text)["variants"]
        except (ValueError, LookupError) as error:
            raise LabError("the lab did not print its figures") from error
        return command, rows

    def asked(self, case: Case) -> list[str]:
        """Variants for an interpreter: libraries on one of them only."""
        foreign = LIBRARIES.split(",")
        return [
            name for name in self.options.frame_variants
            if case.part == "libraries"
            or VARIANTS[name].needs not in foreign
        ]

    def work(self, case: Case) -> list[Work]:
        """What is measured of a case; what cannot be is skipped.

        First, frames of a byte show which variants there are.
        """
        names = self.asked(case)
        if not names:
            return []
        words = ["--only", ",".join(names), "--size", "1"]
        _, rows = self.call(case, 1, *words)
        work: list[Work] = []
        for name, row in zip(names, rows, strict=True):
            point = Point(name, SUITE, 1, 0.0, variant=case.variant)
            if row["skipped"]:
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
        command, (row,) = self.call(case, frames, *words)
        text = json.dumps(row)
        keep_raw(self.session.folder, case.variant, command, text)
        one = Run(command, error=row["error"] or None)
        for said in row["runs"]:
            user, system = said.get("user", 0.0), said.get("system", 0.0)
            one.requests, one.seconds = frames, round(said["seconds"], 6)
            one.cpu_user, one.cpu_system = round(user, 6), round(system, 6)
            faults = said.get("faults", 0)
            one.extra = {
                "mb_per_second": round(said["mb_per_second"], 3),
                "faults_per_frame": round(faults / frames, 3),
                "user_ms": round(1000 * user / frames, 3),
                "system_ms": round(1000 * system / frames, 3),
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
        try:
            few, many = (self._counted(case, name, n) for n in COUNTED)
        except LabError as error:
            self.session.say(f"[dim]- not counted: {error}")
            return {}
        size = (COUNTED[1] - COUNTED[0]) * self.options.frame_size
        return {
            f"{what}_frames": round((many[what] - few[what]) / size, 3)
            for what in ("copied", "allocated")
        }

    def _counted(
        self, case: Case, name: str, frames: int
    ) -> dict[str, int]:
        file = self.made / "count.json"
        file.unlink(missing_ok=True)
        server = shlex.join([
            "env", f"LD_PRELOAD={self.counter}", f"COUNT_FILE={file}",
            case.python.program, LAB, "--serve", name, "--size",
            str(self.options.frame_size),
        ])  # fmt: skip
        _, rows = self.call(case, frames, "--server", server)
        for row in rows:
            if why := row["error"] or row["skipped"]:
                raise LabError(why)
        try:
            # The last to end is Python; "env" may have counted itself.
            last = file.read_text().splitlines()[-1]
            found: dict[str, int] = json.loads(last)
        except (OSError, IndexError, ValueError) as error:
            raise LabError("nothing was counted") from error
        return found

    def profile(self, every: list[Case]) -> None:
        """The functions that take the time, into profile.json."""
        found = {}
        for case in every:
            self.session.say(f"[dim]profile: {case.variant}")
            with contextlib.suppress(LabError):
                names = ",".join(self.asked(case))
                _, rows = self.call(
                    case, PROFILED, "--only", names, "--profile"
                )
                found[case.variant] = {
                    row["name"]: row["runs"][0]["profile"]
                    for row in rows if row["runs"]
                }
        save_json(self.session.folder / "profile.json", found)
