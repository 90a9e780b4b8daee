"""``./learn.sh grade``: many students' folders at once.

Our own tests run on each file, in a folder of its own and inside a `cage`.
What one submission does changes no other's result.
"""

import argparse
import dataclasses
import functools
import hashlib
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools.common import files
from tools.learn import cage, desk, exercises, reports
from tools.learn.desk import DeskError
from tools.learn.examine import (
    LONGEST,
    LOOK_SECONDS,
    Report,
    examine,
    outcome_of,
)
from tools.learn.exercises import Exercise
from tools.learn.handed_in import (
    RefusedError,
    Student,
    find_students,
    take,
    which_exercises,
)
from tools.learn.reports import clean

ABOUT = "check the folders of many students (for teachers)"
KEEP_SECONDS = 2.0  # between two writings of the results so far
NOT_YET = "not graded yet"
NEVER_RUNS = re.compile(r"(Syntax|Indentation|Tab|ModuleNotFound)Error: ")
MISSING = re.compile(r"No module named '(\w+)'")
NO_MORE = "nothing that lies beside it"
# What an exercise has no use for, unless its starter has it.
LOOK_AT = re.compile(rb"\b(exec|eval|ctypes|subprocess|base64|fork)\b")
PROCESSES = 7  # the step that has processes
SHOWN_LINES = 40  # of a message


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = parser.add_argument
    add("folders", nargs="+", metavar="DIR", type=Path,
        help="a student's folder, with 03.2/server.py or my/03.2/server.py")
    add("--exercise", action="append", metavar="ID", default=[],
        help="grade this one (may be repeated; default: each that anybody "
        "has handed in)")
    add("--jobs", type=positive, metavar="N",
        default=4 * (os.cpu_count() or 1),  # they wait most of the time
        help="submissions at the same time (default: four per core)")
    add("--csv", type=Path, metavar="FILE", help="the table, a row a student")
    add("--json", type=Path, metavar="FILE", help="everything, as JSON")
    add("--junit", type=Path, metavar="FILE", help="everything, as JUnit XML")
    add("--resume", action="store_true",
        help="take from the file of --json what would be the same again")
    add("--seconds", type=positive, metavar="N", default=int(LONGEST),
        help="for all tests of a submission (default: %(default)s)")
    add("--seed", type=int, metavar="N",
        help="for the tests' dice, to repeat a grading exactly")
    add("--unprotected", action="store_true",
        help="without bubblewrap: submissions can do whatever you can")
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

    0: graded; 1: not all passed, and they had to; 2: something was not
    understood, the rest was graded. Raises DeskError if nothing can be
    graded.
    """
    wanted = sorted(
        {exercises.by_id(word) for word in options.exercise},
        key=lambda e: e.id,
    )
    students, wrong = find_students(options.folders, wanted)
    say(wrong)
    chosen = which_exercises(students, wanted)
    unclear = [
        f"{student.name}: {question}" for student in students
        if (question := student.question(chosen))
    ]
    say(unclear)
    say(f"nothing found in {s.folder}" for s in students
        if not s.unclear and not any(e.id in s.files for e in chosen))
    for typed in filter(None, (options.csv, options.json, options.junit)):
        desk.check_folder(typed)
    if not options.unprotected:
        cage.check()
    known = earlier(options)

    def recorded() -> dict[str, Any]:
        """What is known so far; kept, if it has a file."""
        found = reports.record(
            chosen, students, seed=options.seed,
            protection="none" if options.unprotected else "bubblewrap",
        )
        if options.json:
            desk.write(options.json, json.dumps(found, indent=1) + "\n")
        return found

    try:
        grade_all(students, chosen, options, known, recorded)
    finally:
        found = recorded()
    reports.show(students, found)
    if options.csv:
        desk.write(options.csv, reports.csv_text(found))
    if options.junit:
        desk.write(options.junit, reports.junit_text([
            dataclasses.replace(r, exercise=f"{clean(s.name)}: {r.exercise}")
            for s in students for r in s.results.values()
        ]))
    unclear += [
        f"{student.name}: {result.trouble}" for student in students
        for result in student.results.values()
        if result.state == "unclear" and not student.question(chosen)
    ]
    say(wrong + unclear)
    if wrong or unclear:
        return 2
    failed = options.must_pass and not all(
        result.passed for s in students for result in s.results.values()
    )
    return 1 if failed else 0


def say(lines: Iterable[str]) -> None:
    """Lines for the teacher, on stderr."""
    for line in lines:
        print(f"learn.sh: {clean(line)}", file=sys.stderr, flush=True)


def earlier(options: argparse.Namespace) -> dict[str, Report]:
    """What an earlier grading found, by key; sets the seed. Raises DeskError.

    Only what cannot come out otherwise: what has passed, or fails before any
    test begins. Anything else is graded again.
    """
    found: dict[str, Report] = {}
    seed = random.randrange(1 << 30)
    if options.resume:
        if not options.json:
            raise DeskError("--resume needs --json FILE, the results to keep")
        try:
            text = desk.from_caller(options.json).read_text("utf-8")
            data = json.loads(text)
            seed = int(data["seed"])
            for each in (r for s in data["students"] for r in s["results"]):
                each["outcomes"] = [*map(outcome_of, each["outcomes"])]
                report = Report(**each)
                if report.key and (report.passed or never_runs(report)):
                    found[report.key] = report
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError):
            raise DeskError(
                f"{options.json} is no result of a grading with this version: "
                "without --resume it is written anew"
            ) from None
    options.seed = seed if options.seed is None else options.seed
    return found


def never_runs(report: Report) -> bool:
    """Does it fail before any test begins, whatever the tests do?"""
    return bool(report.failures) and not report.trouble and all(
        NEVER_RUNS.search(o.came) for o in report.outcomes
    )


@functools.cache
def versions(exercise: Exercise, caged: bool) -> bytes:
    """What a result depends on besides the file."""
    ours = Path(__file__).parent, Path(files.__file__).parent
    texts = [path.read_bytes() for folder in ours
             for path in sorted(folder.glob("*.py"))]
    beside = exercise.companions()
    said = [sys.version, pytest.__version__, psutil.__version__, caged, beside]
    return b"\0".join([
        repr(said).encode(), exercise.tests.read_bytes(), *texts
    ])


def grade_all(
    students: Sequence[Student], chosen: Sequence[Exercise],
    options: argparse.Namespace, known: Mapping[str, Report],
    keep: Callable[[], object],
) -> None:
    """Grade these exercises of every student, many at a time.

    known: see `earlier`; keep: called now and then, as results come.
    """
    stopping = threading.Event()
    grade = functools.partial(
        grade_one, options=options, stopping=stopping, known=known
    )
    kept = time.monotonic()
    for student in students:
        student.results = {
            e.id: Report(e.id, e.title, "unclear", trouble=NOT_YET)
            for e in chosen
        }
    todo: dict[Future[Report], tuple[Student, Exercise]] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        try:  # the first may run before the last is submitted
            for exercise in chosen:
                for student in students:
                    future = pool.submit(grade, student, exercise)
                    todo[future] = student, exercise
            left, said = {*todo}, 0
            while left:
                # A signal that arrives just before a wait is seen after
                # it: so no wait is long.
                done, left = wait(left, LOOK_SECONDS, FIRST_COMPLETED)
                for each in done:
                    said += 1
                    student, exercise = todo[each]
                    student.results[exercise.id] = each.result()
                    print(
                        f"[{said}/{len(todo)}] {clean(student.name)} "
                        f"{exercise.id}: {each.result().state}",
                        file=sys.stderr, flush=True,
                    )
                if done and time.monotonic() > kept + KEEP_SECONDS:
                    keep()
                    kept = time.monotonic()
        except BaseException:
            for each, (student, exercise) in todo.items():
                if each.done() and not each.exception():
                    student.results[exercise.id] = each.result()
            stopping.set()
            raise


def grade_one(
    student: Student, exercise: Exercise, options: argparse.Namespace,
    stopping: threading.Event, known: Mapping[str, Report],
) -> Report:
    """Grade one file of one student. Raises nothing: others go on."""

    def look(tests: psutil.Process) -> str:
        stopped = "the grading was interrupted" if stopping.is_set() else ""
        return stopped or cage.too_much(tests)

    report = Report(exercise.id, exercise.title, "unclear", trouble=NOT_YET)
    try:
        if stopping.is_set():
            return report
        source = take(student, exercise)
        caged = not options.unprotected
        key = hashlib.sha256(versions(exercise, caged) + source).hexdigest()
        if key in known:
            return known[key]
        with tempfile.NamedTemporaryFile() as given:
            given.write(source)
            given.flush()
            report = examine(
                exercise, Path(given.name), seed=options.seed,
                longest=options.seconds, look=look, caged=caged, shuffled=True,
            )
        report.key, report.look = key, suspicious(exercise, source)
    except RefusedError as error:
        report.trouble, report.state = str(error), error.state
    except Exception as error:  # the others are graded all the same
        report.trouble = f"the grading itself failed: {error!r}"
    return tidy(report)


def suspicious(exercise: Exercise, source: bytes) -> list[str]:
    """What a teacher should look at in a file: it proves nothing."""
    beside = "".join(exercise.companions().values())
    usual = {*LOOK_AT.findall(exercise.starter.read_bytes() + beside.encode())}
    usual |= {b"fork"} if exercise.step == PROCESSES else set()
    found = sorted({w.decode() for w in LOOK_AT.findall(source)}
                   - {w.decode() for w in usual})
    shipped = (path for e in exercises.everything()
               for path in (e.solution, e.another) if path and path.exists())
    if source.split() in (path.read_bytes().split() for path in shipped):
        found.append("the same as a solution")
    return found


def tidy(report: Report) -> Report:
    """The same, with what a submission has said fit to be shown."""
    report.trouble = clean(report.trouble)
    for outcome in report.outcomes:
        outcome.name, outcome.title = clean(outcome.name), clean(outcome.title)
        outcome.expected = clean(outcome.expected)
        outcome.story = [clean(s) for s in outcome.story[:SHOWN_LINES]]
        outcome.wrote = []  # for the student's eyes
        missing = MISSING.search(outcome.came)
        if missing and missing[1] not in sys.stdlib_module_names:
            outcome.came += f"; only the file itself is graded, {NO_MORE}"
        lines = outcome.came.splitlines()[:SHOWN_LINES]
        outcome.came = "\n".join(clean(line) for line in lines)
    return report
