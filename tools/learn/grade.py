"""``./learn.sh grade``: many students' folders at once.

Of each student only the one file of each exercise is taken, as bytes. Our
own tests run on it, in a folder of its own, behind `cage`; a watcher ends
what uses too much. What one submission does changes no other's result.
"""

import argparse
import contextlib
import csv
import dataclasses
import json
import os
import pwd
import random
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unicodedata
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.learn import cage, desk, exercises
from tools.learn.cage import MEGA, Limits, Plan
from tools.learn.desk import DeskError
from tools.learn.examine import (
    LONGEST,
    Outcome,
    Report,
    examine,
    marked,
    told,
)
from tools.learn.exercises import Exercise
from tools.servers import ROOT

ABOUT = "check the folders of many students (for teachers)"
SOURCE_BYTES = 256 * 1024  # nobody writes more for one exercise
LOOK_SECONDS = 0.25  # between two looks of the watcher
TESTS_MEMORY = 1024 * MEGA  # bytes for the tests of a submission
USERS = range(30_000, 60_000)  # numbers that systems give to nobody
SHOWN_LINES, SHOWN_COLUMNS = 40, 500  # of a message
REPORT_COLUMNS, REASON_COLUMNS = 79, 80  # of a report, in the table
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
# What no submission needs to see: others' files, and in /run the sockets
# of services that would do something for us.
PRIVATE = (
    "/home", "/media", "/mnt", "/root", "/run", "/srv", "/tmp", "/var/tmp",
)

LIMITS = Limits()
PROTECTIONS = {
    "full": "Each submission runs as a user of its own, with files, "
    "processes and a network of its own.",
    "namespaces": "Each submission runs with files, processes and a network "
    "of its own.",
    "user": "Each submission runs as a user of its own. Not protected: it "
    "can read what everybody may read on this machine, and connect to "
    "others' servers.",
    "limits": "Only limits protect this machine: a submission that means "
    "harm can read and change what you can, end your programs, and change "
    "the others' results.",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add("folders", nargs="+", metavar="DIR", type=Path,
        help="a student's folder, with 03.2/server.py or my/03.2/server.py")
    add("--exercise", action="append", metavar="ID", default=[],
        help="grade this one (may be repeated; default: each that anybody "
        "has handed in)")
    add("--jobs", type=positive, metavar="N", default=os.cpu_count() or 1,
        help="submissions at the same time (default: one per core)")
    add("--csv", type=Path, metavar="FILE", help="the table, a row a student")
    add("--json", type=Path, metavar="FILE", help="everything, as JSON")
    add("--reports", type=Path, metavar="FOLDER",
        help="a report for each student, in Markdown")
    add("--seconds", type=positive, metavar="N", default=int(LONGEST),
        help="for all tests of a submission (default: %(default)s)")
    add("--seed", type=int, metavar="N",
        help="for the tests' dice, to repeat a grading exactly")
    add("--protection", choices=PROTECTIONS, metavar="WHICH",
        help="one of " + ", ".join(PROTECTIONS)
        + " (default: the first that works here)")
    add("--must-pass", action="store_true",
        help="exit with status 1 unless everybody passes everything")


def positive(word: str) -> int:
    """A whole number above zero, for argparse."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{word} is not above zero")
    return number


def run(options: argparse.Namespace) -> int:
    """Grade them; the exit status.

    0: graded; 1: not all passed, and they had to, or the tests were
    tampered with; 2: a folder is missing, the others were graded. Raises
    DeskError if nothing can be graded.
    """
    students, wrong = find_students(options.folders)
    for line in wrong:
        print(f"learn.sh: {line}", file=sys.stderr)
    chosen = which_exercises(students, options.exercise)
    for student in students:
        if not any(places(student.folder, e) for e in chosen):
            print(f"learn.sh: nothing found in {clean(str(student.folder))}",
                  file=sys.stderr)
    check_targets(options)
    grading = Grading(
        chosen, students, options.seed
        if options.seed is not None else random.randrange(1 << 30),
        options.seconds,
    )
    # Students' files are compiled here, in threads.
    warnings.simplefilter("ignore", SyntaxWarning)
    before = fingerprint(chosen)
    with work_folder() as work:
        grading.protection = choose_protection(options.protection, work)
        print(PROTECTIONS[grading.protection.name], file=sys.stderr)
        grade_all(grading, work, options.jobs)
    if grading.protection.name == "limits" and fingerprint(chosen) != before:
        grading.warning = (
            "Files of this repository changed meanwhile: these results "
            "cannot be trusted."
        )
    show(grading)
    if options.csv:
        write(options.csv, csv_text(grading))
    if options.json:
        write(options.json, json_text(grading))
    if options.reports:
        names = report_names([s.name for s in students])
        for student, name in zip(students, names, strict=True):
            write(options.reports / name, report_text(grading, student))
    if wrong:
        return 2
    failed = options.must_pass and not all(
        result.passed for s in students for result in s.results.values()
    )
    return 1 if failed or grading.warning else 0


# Who handed in what ---------------------------------------------------------


@dataclass
class Result:
    """What came of one student's exercise.

    state: passed, failed or missing (not handed in); report: see there.
    """

    state: str
    report: Report

    @property
    def passed(self) -> bool:
        """Did every test pass?"""
        return self.state == "passed"

    @property
    def tests(self) -> int:
        """How many tests passed."""
        return sum(o.passed for o in self.report.outcomes)


@dataclass
class Student:
    """One student: a name, a folder, and a result for each exercise."""

    name: str
    folder: Path
    results: dict[str, Result] = field(default_factory=dict)

    @property
    def passed(self) -> list[str]:
        """The ids of the exercises that passed."""
        return [k for k, result in self.results.items() if result.passed]


def find_students(folders: Sequence[Path]) -> tuple[list[Student], list[str]]:
    """The students of these folders; what is wrong, in sentences."""
    found: dict[Path, Student] = {}
    wrong = []
    for typed in folders:
        path = Path(os.path.abspath(desk.from_caller(typed)))
        if not path.exists():
            wrong.append(f"there is no folder {typed}")
        elif not path.is_dir():
            wrong.append(f"{typed} is not a folder")
        else:
            found[path] = Student(path.name, path)
    names = [s.name for s in found.values()]
    for student in found.values():
        if names.count(student.name) > 1 or not student.name:
            student.name = str(student.folder).strip("/").replace("/", "-")
    return list(found.values()), wrong


def which_exercises(
    students: Sequence[Student], wanted: Sequence[str]
) -> list[Exercise]:
    """The exercises that are graded. Raises DeskError if there is none."""
    if not students:
        raise DeskError("there is nobody to grade")
    if wanted:
        ids = {exercises.by_id(word).id for word in wanted}
        return [e for e in exercises.everything() if e.id in ids]
    found = [
        e for e in exercises.everything()
        if any(places(s.folder, e) for s in students)
    ]
    if found:
        return found
    inner = {p.parent for s in students for p in s.folder.glob("*/my")} | {
        p.parent for s in students for p in s.folder.glob("*/0[1-7].[0-9]")
    }
    raise DeskError(
        "no exercise was found: each folder is one student's, with "
        "02.1/server.py or my/02.1/server.py in it"
        + (f". Did you mean {students[0].folder}/* ?" if inner else "")
    )


def places(folder: Path, exercise: Exercise) -> list[Path]:
    """Where a student has a folder of this exercise."""
    each = (folder / exercise.id, folder / "my" / exercise.id)
    return [p for p in each if os.path.lexists(p)]


class RefusedError(Exception):
    """A file that is not examined; the text says why."""


def take(folder: Path, exercise: Exercise) -> bytes | None:
    """A student's file, as bytes; None if there is no folder for it.

    Raises RefusedError for whatever is not an ordinary file of theirs: a
    link would be followed with our rights.
    """
    found = places(folder, exercise)
    if not found:
        return None
    named = [p / exercise.file for p in found]
    path = next((p for p in named if os.path.lexists(p)), named[0])
    name = path.relative_to(folder)
    for part in (path.parent.parent, path.parent, path):
        if part != folder and part.is_symlink():
            raise RefusedError(
                f"{part.relative_to(folder)} is a link: hand in the file "
                "itself"
            )
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise RefusedError(f"there is no {name}") from None
    except OSError as error:
        raise RefusedError(
            f"{name} cannot be read: {error.strerror}"
        ) from None
    try:
        look = os.fstat(opened)
        if not stat.S_ISREG(look.st_mode):
            raise RefusedError(f"{name} is not a file")
        if look.st_size > SOURCE_BYTES:
            raise RefusedError(
                f"{name} is larger than {SOURCE_BYTES // 1024} KB"
            )
        return os.read(opened, SOURCE_BYTES)
    finally:
        os.close(opened)


# How it is protected --------------------------------------------------------


@dataclass
class Protection:
    """What stands between a submission and the rest.

    name: a key of PROTECTIONS; python: the interpreter for submissions;
    hidden: folders that no submission shall see.
    """

    name: str
    python: str
    hidden: list[str] = field(default_factory=list)

    @property
    def user(self) -> bool:
        """Has each submission a user of its own?"""
        return self.name in ("full", "user")

    @property
    def apart(self) -> bool:
        """Has each submission namespaces of its own?"""
        return self.name in ("full", "namespaces")

    def plan(self, place: Path, uid: int) -> Plan:
        """How the program in this place is run."""
        return Plan(
            str(place), self.python, sys.executable, uid, apart=self.apart,
            hidden=self.hidden if self.apart else [], limits=LIMITS,
        )

    def around_tests(self) -> list[str]:
        """Words to put before the tests: their memory, their network."""
        limits = dataclasses.replace(LIMITS, memory=TESTS_MEMORY)
        plan = Plan(
            "", sys.executable, tests=True, network=self.apart, limits=limits
        )
        return plan.words()


def choose_protection(wanted: str | None, work: Path) -> Protection:
    """The best that works here. Raises DeskError if none does."""
    root = os.getuid() == 0
    names = ("full", "user") if root else ("namespaces", "limits")
    if wanted and wanted not in names:
        raise DeskError(
            f"--protection {wanted} is for "
            + ("ordinary users; you are root" if root else "root")
        )
    for name in [wanted] if wanted else names:
        for python in pythons():
            protection = Protection(name, python)
            if works(protection, work):
                return protection
    raise DeskError(
        f"--protection {wanted} does not work here" if wanted
        else "as root, submissions need a user of their own, and no Python "
        "was found that another user may run: grade as an ordinary user"
    )


def pythons() -> list[str]:
    """Interpreters for submissions: ours without its packages, or any."""
    own = getattr(sys, "_base_executable", "") or sys.executable
    each = [own, shutil.which("python3", path="/usr/bin:/usr/local/bin")]
    return list(dict.fromkeys(os.path.realpath(p) for p in each if p))


def works(protection: Protection, work: Path) -> bool:
    """Try it: is a program protected as it says?"""
    home = os.path.expanduser("~")
    private = {os.path.realpath(p) for p in (*PRIVATE, home, work, ROOT)}
    protection.hidden = sorted(private - {"/"})
    look = (
        "import os, sys; print(sys.version_info >= (3, 11), os.getuid(),"
        f" os.path.exists({str(ROOT / 'tools')!r}), os.getppid() == 1)"
    )
    with a_place(protection, work) as (place, uid):
        done = subprocess.run(
            [
                *protection.around_tests(), *protection.plan(place, uid)
                .words(), sys.executable, "-c", look,
            ],
            cwd=place, capture_output=True, text=True, check=False,
        )
    apart = protection.apart
    return done.stdout.split() == [
        "True", str(uid or os.getuid()), str(not apart), str(apart)
    ]


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for all submissions, that others can pass but not list."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="seven-grade-")))
    path.chmod(0o711)
    try:
        yield path
    finally:
        remove(path)


@contextlib.contextmanager
def a_place(
    protection: Protection, work: Path
) -> Iterator[tuple[Path, int]]:
    """A new folder for one submission, and its user (0: ours).

    At the end its processes are killed and its files removed.
    """
    outer = Path(tempfile.mkdtemp(dir=work))
    outer.chmod(0o711)
    place = outer / "place"
    place.mkdir(mode=0o700)
    with contextlib.ExitStack() as stack:
        stack.callback(remove, outer)
        uid = 0
        if protection.user:
            uid = stack.enter_context(a_user())
            os.chown(place, uid, uid)
            stack.callback(clear_user, uid)
        yield place, uid


@contextlib.contextmanager
def a_user() -> Iterator[int]:
    """The number of a user that does not exist, ours for a while."""
    known = {entry.pw_uid for entry in pwd.getpwall()}
    busy = {look.uid for look in processes()}
    for uid in random.SystemRandom().sample(USERS, 1000):
        if uid in known or uid in busy:
            continue
        with socket.socket(socket.AF_UNIX) as claim:
            if sys.platform == "linux":
                try:  # of two gradings that choose it, one gets it
                    claim.bind(f"\0seven-grade-{uid}")
                except OSError:
                    continue
            yield uid
            return
    raise DeskError("no number is free for the user of a submission")


def clear_user(uid: int) -> None:
    """End all processes of a user, remove its files elsewhere."""
    subprocess.run(
        [sys.executable, "-IS", cage.__file__, "--end-user", str(uid)],
        check=False,
    )
    for folder in TEMPORARY:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == uid:
                        remove(Path(entry.path))


def remove(path: Path) -> None:
    """Remove a file or a folder, however deep it is."""
    if path.is_dir() and not path.is_symlink():
        with contextlib.suppress(RecursionError):
            shutil.rmtree(path, ignore_errors=True)
        if path.exists():
            subprocess.run(["rm", "-rf", "--", path], check=False)
    else:
        path.unlink(missing_ok=True)


def fingerprint(graded: Sequence[Exercise]) -> dict[str, tuple[int, int]]:
    """Size and time of the files that the results depend on."""
    folders = [ROOT / "tools" / "learn", *(e.folder for e in graded)]
    paths = [p for folder in folders for p in folder.glob("*.*")]
    paths += [exercises.COMMON, ROOT / "tests" / "client.py"]
    looks = {str(p): p.stat() for p in paths}
    return {k: (v.st_size, v.st_mtime_ns) for k, v in looks.items()}


# The watcher ----------------------------------------------------------------


@dataclass
class Look:
    """What was seen of a process. memory: resident, in bytes."""

    process: psutil.Process
    parent: int
    uid: int
    memory: int


def processes() -> list[Look]:
    """All processes."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            found.append(Look(
                process, process.ppid(), process.uids().real,
                process.memory_info().rss,
            ))
    return found


@dataclass
class Watched:
    """A submission that is being examined.

    mark: in the environment of all that belongs to it; reason: why it was
    ended, "" as long as it was not.
    """

    mark: str
    uid: int
    place: Path
    disk: bool
    reason: str = ""

    def of_it(self, seen: Sequence[Look]) -> list[Look]:
        """The processes that belong to it, the tests' own as well."""
        own = {p.pid for p in marked(self.mark)}
        size = -1
        while size != len(own):  # children of children
            size = len(own)
            own |= {x.process.pid for x in seen if x.parent in own}
        return [
            x for x in seen
            if x.process.pid in own or (self.uid and x.uid == self.uid)
        ]

    def check(self, seen: Sequence[Look]) -> None:
        """End it if it uses too much."""
        own = self.of_it(seen)
        if sum(x.memory for x in own) > LIMITS.resident:
            self.reason = (
                f"it was ended: it used more than {LIMITS.resident // MEGA} "
                "MB of memory"
            )
        elif len(own) > LIMITS.processes:
            self.reason = (
                f"it was ended: it had more than {LIMITS.processes} processes"
            )
        elif self.disk and too_much(self.place):
            self.reason = (
                f"it was ended: it wrote more than {LIMITS.disk // MEGA} MB "
                f"or {LIMITS.files} files"
            )
        if self.reason:
            self.end(own)

    def end(self, own: Sequence[Look]) -> None:
        """Kill all of it."""
        for look in own:
            with contextlib.suppress(psutil.Error):
                look.process.kill()


def too_much(folder: Path) -> bool:
    """Has a folder more bytes or files than a submission may have?"""
    size = files = 0
    stack = [str(folder)]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    look = entry.stat(follow_symlinks=False)
                    size += look.st_blocks * 512
                    files += 1
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    if size > LIMITS.disk or files > LIMITS.files:
                        return True
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except OSError:  # too deep, or closed to us
            return True
    return False


class Watcher:
    """Looks after all submissions, in a thread."""

    def __init__(self) -> None:
        self.watched: list[Watched] = []
        self.changing = threading.Lock()
        self.over = threading.Event()
        self.stopping = False  # interrupted: nothing new is begun
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> "Watcher":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def watch(self) -> None:
        """Look again and again."""
        while not self.over.wait(LOOK_SECONDS):
            with self.changing:
                now = [
                    w for w in self.watched if self.stopping or not w.reason
                ]
            seen = processes() if now else []
            for one in now:
                with contextlib.suppress(psutil.Error, OSError):
                    if self.stopping:
                        one.reason = "the grading was interrupted"
                        one.end(one.of_it(seen))
                    else:
                        one.check(seen)

    @contextlib.contextmanager
    def watching(self, one: Watched) -> Iterator[None]:
        """Look after this one for a while."""
        with self.changing:
            self.watched.append(one)
        try:
            yield
        finally:
            with self.changing:
                self.watched.remove(one)

    def stop(self) -> None:
        """From now on end everything, also what begins at this moment."""
        self.stopping = True


# Grading --------------------------------------------------------------------


@dataclass
class Grading:
    """A grading: who, what, how, and a warning if it went wrong."""

    exercises: list[Exercise]
    students: list[Student]
    seed: int
    seconds: int
    protection: Protection = field(
        default_factory=lambda: Protection("limits", sys.executable)
    )
    date: str = field(
        default_factory=lambda: time.strftime("%Y-%m-%d %H:%M")
    )
    warning: str = ""


def grade_all(grading: Grading, work: Path, jobs: int) -> None:
    """Grade every exercise of every student, so many at a time."""
    if grading.protection.apart:
        folders = {str(s.folder.resolve()) for s in grading.students}
        grading.protection.hidden += sorted(folders - {"/"})
    todo = [(s, e) for e in grading.exercises for s in grading.students]
    done = 0
    said = threading.Lock()

    def one(student: Student, exercise: Exercise) -> None:
        nonlocal done
        if watcher.stopping:
            return
        try:
            result = grade_one(grading, student, exercise, work, watcher)
        except Exception as error:  # the others are graded all the same
            trouble = f"the grading itself failed: {clean(repr(error))}"
            result = Result("failed", Report(exercise.id, trouble=trouble))
        with said:
            student.results[exercise.id] = result
            done += 1
            print(
                f"[{done}/{len(todo)}] {clean(student.name)} {exercise.id}: "
                f"{result.state}", file=sys.stderr, flush=True,
            )

    with Watcher() as watcher, ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(one, *pair) for pair in todo]
        try:
            for future in running:
                future.result()
        except BaseException:
            watcher.stop()
            raise
    for student in grading.students:  # as the exercises are, not as done
        student.results = {
            e.id: student.results[e.id] for e in grading.exercises
        }


def grade_one(
    grading: Grading, student: Student, exercise: Exercise, work: Path,
    watcher: Watcher,
) -> Result:
    """Examine one file of one student."""
    report = Report(exercise.id)
    try:
        source = take(student.folder, exercise)
    except RefusedError as error:
        report.trouble = clean(str(error))
        return Result("failed", report)
    if source is None:
        report.trouble = "not handed in"
        return Result("missing", report)
    protection = grading.protection
    with a_place(protection, work) as (place, uid):
        given = place.parent / "given"
        given.write_bytes(source)
        given.chmod(0o600)
        watched = Watched(
            uuid.uuid4().hex, uid, place, disk=not protection.apart
        )
        with watcher.watching(watched):
            report = examine(
                exercise, given, place=place, seed=grading.seed,
                longest=grading.seconds, mark=watched.mark,
                cage=protection.plan(place, uid).words(),
                around=protection.around_tests(),
            )
    report.trouble = watched.reason or report.trouble
    tidy(report)
    return Result("passed" if report.passed else "failed", report)


def tidy(report: Report) -> None:
    """Make what a submission has said fit to be shown."""
    report.trouble = clean(report.trouble)
    for outcome in report.outcomes:
        outcome.expected = clean(outcome.expected)
        outcome.story = [clean(s) for s in outcome.story[:SHOWN_LINES]]
        lines = outcome.came.splitlines()[:SHOWN_LINES]
        outcome.came = "\n".join(clean(line) for line in lines)


def clean(text: str) -> str:
    """A line without what could steer a terminal, and not too long."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    few = shown[:SHOWN_COLUMNS]
    return few + " ..." if len(few) < len(shown) else few


# What is shown and written --------------------------------------------------


def show(grading: Grading) -> None:
    """The table, on the screen."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Student")
    table.add_column("Exercises", justify="right", no_wrap=True)
    table.add_column("Tests", justify="right", no_wrap=True)
    table.add_column("Minutes", justify="right", no_wrap=True)
    table.add_column("Not passed")
    for student in grading.students:
        sums = totals(grading, student)
        table.add_row(
            escape(clean(student.name)),
            f"{sums['exercises_passed']}/{sums['exercises']}",
            f"{sums['tests_passed']}/{sums['tests']}",
            f"{sums['minutes_passed']}/{sums['minutes']}",
            escape(", ".join(
                f"{k} ({in_short(result)})"
                for k, result in student.results.items() if not result.passed
            )),
        )
    console.print(table)
    if grading.warning:
        console.print(f"[bold red]{grading.warning}[/]")


def in_short(result: Result) -> str:
    """Why it did not pass, in a few words."""
    report = result.report
    if report.trouble:
        return report.trouble
    reason = ""
    if not result.tests and alike(report.failures):
        lines = report.failures[0].came.splitlines()
        reason = f": {lines[0]}" if lines else ""
    if len(reason) > REASON_COLUMNS:
        reason = reason[: REASON_COLUMNS - 4].rstrip() + " ..."
    return f"{result.tests} of {report.total} tests{reason}"


def alike(failures: Sequence[Outcome]) -> bool:
    """Do all say the same, whatever their clients did before?"""
    return len({(o.expected, o.came) for o in failures}) == 1


def totals(grading: Grading, student: Student) -> dict[str, int]:
    """What a student reached, and what could be reached."""
    tests = {e.id: 1 for e in grading.exercises}
    for other in grading.students:  # who cannot be read has no total
        for k, result in other.results.items():
            tests[k] = max(tests[k], result.report.total)
    return {
        "exercises_passed": len(student.passed),
        "exercises": len(grading.exercises),
        "tests_passed": sum(r.tests for r in student.results.values()),
        "tests": sum(tests.values()),
        "minutes_passed": sum(
            e.minutes for e in grading.exercises if e.id in student.passed
        ),
        "minutes": sum(e.minutes for e in grading.exercises),
    }


def csv_text(grading: Grading) -> str:
    """A row a student; opens in a spreadsheet."""
    with tempfile.TemporaryFile("w+", newline="", encoding="utf-8") as file:
        ids = [e.id for e in grading.exercises]
        writer = csv.writer(file, lineterminator="\n")
        for student in grading.students:
            sums = totals(grading, student)
            if file.tell() == 0:
                writer.writerow(["student", *sums, *ids])
            name = clean(student.name)
            if name[0] in "=+-@":  # a spreadsheet would compute it
                name = f"'{name}"
            states = [student.results[k].state for k in ids]
            writer.writerow([name, *sums.values(), *states])
        file.seek(0)
        return file.read()


def json_text(grading: Grading) -> str:
    """Everything that is known."""
    found = {
        "date": grading.date,
        "seed": grading.seed,
        "protection": grading.protection.name,
        "warning": grading.warning,
        "exercises": [
            {"id": e.id, "title": e.title, "minutes": e.minutes}
            for e in grading.exercises
        ],
        "students": [
            {
                "name": s.name, "folder": str(s.folder),
                **totals(grading, s),
                "results": [
                    {"state": result.state,
                     **dataclasses.asdict(result.report)}
                    for result in s.results.values()
                ],
            }
            for s in grading.students
        ],
    }
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


def report_text(grading: Grading, student: Student) -> str:
    """What a student reads, in Markdown."""
    sums = totals(grading, student)
    lines = [
        f"# {clean(student.name)}", "",
        f"{sums['exercises_passed']} of {sums['exercises']} exercises "
        f"passed, {sums['tests_passed']} of {sums['tests']} tests. "
        f"Graded {grading.date}.",
    ]
    for exercise in grading.exercises:
        result = student.results[exercise.id]
        lines += ["", f"## {exercise.id} {exercise.title}: {result.state}"]
        if result.report.trouble:
            lines += ["", *in_code([result.report.trouble], 4)]
        lines += outcome_lines(result.report)
        if not result.passed:
            lines += ["", *wrapped(f"Read {page(exercise)}")]
    return "\n".join(lines) + "\n"


def outcome_lines(report: Report) -> list[str]:
    """The tests in Markdown; what all failures say is said once."""
    failures = report.failures
    once = len(failures) > 1 and alike(failures)
    same_story = len({tuple(o.story) for o in failures}) == 1
    lines = []
    for outcome in report.outcomes:
        mark = "✓" if outcome.passed else "✗"
        lines += ["", *wrapped(f"- {mark} {outcome.title}", "  ")]
        if outcome.passed:
            continue
        said = told(outcome)
        if once:
            said = [] if same_story else outcome.story
        if said:
            lines += ["", *in_code(said, 8)]
    if once:
        first = failures[0]
        common = dataclasses.replace(
            first, story=first.story if same_story else []
        )
        lines += ["", f"✗ The {len(failures)} that failed say the same:"]
        lines += ["", *in_code(told(common), 4)]
    return lines


def in_code(said: Sequence[str], columns: int) -> list[str]:
    """Lines of a code block: no Markdown of a submission works in it."""
    lines = []
    for line in "\n".join(said).splitlines():
        words = line.lstrip()
        before = " " * (columns + len(line) - len(words))
        after = " " * 10 if re.match("(Expected|But): ", line) else "  "
        lines += wrapped(before + words, before + after)
    return lines


def wrapped(line: str, after: str = "") -> list[str]:
    """A line, or more if it is too long; after: put before the others."""
    return textwrap.wrap(
        line, REPORT_COLUMNS, subsequent_indent=after,
        break_on_hyphens=False,
    ) if len(line) > REPORT_COLUMNS else [line]


def page(exercise: Exercise) -> str:
    """The page that explains it: its name on the site, and its file."""
    path = exercise.read.partition("#")[0]
    text = (ROOT / "docs" / path).read_text("utf-8")
    found = re.search("^title: (.+)$", text, re.MULTILINE)
    name = found[1].strip("\"' ") if found else path
    return f'the page "{name}" on the site, docs/{exercise.read}'


def report_names(names: Sequence[str]) -> list[str]:
    """A file for the report of each student, no two the same.

    Nor the same where A and a are, or two spellings of an umlaut. Names
    that need no change are given first.
    """
    plain = [re.sub(r"[^\w.-]+", "_", name) for name in names]
    files = [""] * len(names)
    taken: set[str] = set()
    for number, name in enumerate(names):
        key = alike_on_disk(name)
        if plain[number] == name and key not in taken:
            files[number] = f"{name}.md"
            taken.add(key)
    for number, name in enumerate(plain):
        new, count = name, 1
        while not files[number]:
            if alike_on_disk(new) not in taken:
                files[number] = f"{new}.md"
                taken.add(alike_on_disk(new))
            count += 1
            new = f"{name}-{count}"
    return files


def alike_on_disk(name: str) -> str:
    """The same for two names that some system takes for one."""
    return unicodedata.normalize("NFKC", name).casefold()


def check_targets(options: argparse.Namespace) -> None:
    """Raises DeskError now for what could not be written at the end."""
    for typed in (options.csv, options.json):
        if typed and not desk.from_caller(typed).absolute().parent.is_dir():
            raise DeskError(f"cannot write {typed}: there is no such folder")
    if options.reports:
        try:
            desk.from_caller(options.reports).mkdir(
                parents=True, exist_ok=True
            )
        except OSError as error:
            raise DeskError(
                f"cannot make {options.reports}: {error.strerror}"
            ) from None


def write(typed: Path, text: str) -> None:
    """Write a file that was named. Raises DeskError."""
    try:
        desk.from_caller(typed).write_text(text, "utf-8")
    except OSError as error:
        raise DeskError(f"cannot write {typed}: {error.strerror}") from None
