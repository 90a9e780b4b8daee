"""``./learn.sh grade``: many students' folders at once.

Our own tests run on each file, in a folder of its own and inside a `cage`.
What one submission does changes no other's result.
"""

import argparse
import functools
import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import psutil

from tools.learn import cage, desk, exercises, reports
from tools.learn.examine import LONGEST, LOOK_SECONDS, Report, examine
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
SHOWN_LINES = 40  # of a message


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
    add("--seconds", type=positive, metavar="N", default=int(LONGEST),
        help="for all tests of a submission (default: %(default)s)")
    add("--seed", type=int, metavar="N", default=random.randrange(1 << 30),
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
    for typed in filter(None, (options.csv, options.json)):
        desk.check_folder(typed)
    if not options.unprotected:
        cage.check()
    grade_all(students, chosen, options)
    found = reports.record(
        chosen, students, seed=options.seed,
        protection="none" if options.unprotected else "bubblewrap",
    )
    reports.show(students, found)
    if options.csv:
        desk.write(options.csv, reports.csv_text(found))
    if options.json:
        desk.write(options.json, json.dumps(found, indent=1) + "\n")
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


def grade_all(
    students: Sequence[Student], chosen: Sequence[Exercise],
    options: argparse.Namespace,
) -> None:
    """Grade these exercises of every student, many at a time."""
    stopping = threading.Event()
    grade = functools.partial(grade_one, options=options, stopping=stopping)
    with ThreadPoolExecutor(options.jobs) as pool:
        try:  # the first may run before the last is submitted
            todo = {
                pool.submit(grade, student, exercise): (student, exercise)
                for exercise in chosen for student in students
            }
            left, said = {*todo}, 0
            while left:
                # A signal that arrives just before a wait is seen after
                # it: so no wait is long.
                done, left = wait(left, LOOK_SECONDS, FIRST_COMPLETED)
                for each in done:
                    said += 1
                    student, exercise = todo[each]
                    print(
                        f"[{said}/{len(todo)}] {clean(student.name)} "
                        f"{exercise.id}: {each.result().state}",
                        file=sys.stderr, flush=True,
                    )
        except BaseException:
            stopping.set()
            raise
    for each, (student, exercise) in todo.items():
        student.results[exercise.id] = each.result()


def grade_one(
    student: Student, exercise: Exercise, options: argparse.Namespace,
    stopping: threading.Event,
) -> Report:
    """Grade one file of one student. Raises nothing: others go on."""

    def look(tests: psutil.Process) -> str:
        stopped = "the grading was interrupted" if stopping.is_set() else ""
        return stopped or cage.too_much(tests)

    report = Report(exercise.id, exercise.title)
    try:
        if stopping.is_set():
            return report
        source = take(student, exercise)
        with tempfile.NamedTemporaryFile() as given:
            given.write(source)
            given.flush()
            report = examine(
                exercise, Path(given.name), seed=options.seed,
                longest=options.seconds, look=look,
                caged=not options.unprotected, shuffled=True,
            )
    except RefusedError as error:
        report.trouble, report.state = str(error), error.state
    except Exception as error:  # the others are graded all the same
        report.trouble = f"the grading itself failed: {error!r}"
    return tidy(report)


def tidy(report: Report) -> Report:
    """The same, with what a submission has said fit to be shown."""
    report.trouble = clean(report.trouble)
    for outcome in report.outcomes:
        outcome.name, outcome.title = clean(outcome.name), clean(outcome.title)
        outcome.expected = clean(outcome.expected)
        outcome.story = [clean(s) for s in outcome.story[:SHOWN_LINES]]
        outcome.wrote = []  # for the student's eyes
        lines = outcome.came.splitlines()[:SHOWN_LINES]
        outcome.came = "\n".join(clean(line) for line in lines)
    return report
