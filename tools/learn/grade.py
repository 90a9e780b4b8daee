"""``./learn.sh grade``: many students' folders at once.

Our own tests run on each file, in a folder of its own and inside a `cage`.
What one submission does changes no other's result.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import psutil

from tools.learn import cage, desk, exercises, reports
from tools.learn.desk import DeskError
from tools.learn.examine import LONGEST, LOOK_SECONDS, Report, examine
from tools.learn.exercises import Exercise
from tools.learn.handed_in import (
    RefusedError,
    Result,
    Student,
    find_students,
    take,
    which_exercises,
)
from tools.learn.reports import Grading, clean

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
    add("--reports", type=Path, metavar="FOLDER",
        help="a report for each student, in Markdown")
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
    check_targets(options)
    if not options.unprotected:
        cage.check()
    seed = options.seed
    grading = Grading(
        chosen, students,
        random.randrange(1 << 30) if seed is None else seed,
        "none" if options.unprotected else "bubblewrap",
    )
    Grader(grading, options.seconds).run(options.jobs)
    reports.show(grading)
    if options.csv:
        desk.write(options.csv, reports.csv_text(grading))
    if options.json:
        desk.write(options.json, reports.json_text(grading))
    if options.reports:
        names = reports.names([s.name for s in students])
        for student in students:
            text = reports.text(grading, student)
            desk.write(options.reports / names[student.name], text)
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
        print(f"learn.sh: {clean(line)}", file=sys.stderr)


def check_targets(options: argparse.Namespace) -> None:
    """Raises DeskError now for what could not be written at the end."""
    for typed in filter(None, (options.csv, options.json)):
        if not desk.from_caller(typed).absolute().parent.is_dir():
            raise DeskError(f"cannot write {typed}: there is no such folder")
    if options.reports:
        desk.write(options.reports / ".begun", "")
        (desk.from_caller(options.reports) / ".begun").unlink()


class Grader:
    """Grades every exercise of every student, many at a time."""

    def __init__(self, grading: Grading, seconds: float) -> None:
        self.grading = grading
        self.seconds = seconds
        self.todo = [
            (s, e) for e in grading.exercises for s in grading.students
        ]
        self.done = 0
        self.saying = threading.Lock()
        self.stopping = False  # interrupted: what runs is ended

    def run(self, jobs: int) -> None:
        """Grade all, so many at a time."""
        with ThreadPoolExecutor(jobs) as pool:
            try:  # the first may run before the last is submitted
                futures = [pool.submit(self.one, *p) for p in self.todo]
                # A signal that arrives just before a wait is seen after
                # it: so no wait is long.
                while wait(futures, LOOK_SECONDS).not_done:
                    pass
                for future in futures:
                    future.result()
            except BaseException:
                self.stopping = True
                raise
        for student in self.grading.students:  # in order, not as done
            student.results = {
                e.id: student.results[e.id] for e in self.grading.exercises
            }

    def one(self, student: Student, exercise: Exercise) -> None:
        """Grade one file, keep its result, and say so."""
        if self.stopping:
            return
        try:
            result = self.result(student, exercise)
        except Exception as error:  # the others are graded all the same
            trouble = f"the grading itself failed: {clean(repr(error))}"
            result = Result("failed", Report(exercise.id, trouble=trouble))
        with self.saying:
            student.results[exercise.id] = result
            self.done += 1
            print(
                f"[{self.done}/{len(self.todo)}] {clean(student.name)} "
                f"{exercise.id}: {result.state}", file=sys.stderr, flush=True,
            )

    def result(self, student: Student, exercise: Exercise) -> Result:
        """Examine one file of one student."""
        report = Report(exercise.id, trouble="not handed in")
        try:
            source = take(student, exercise)
        except RefusedError as error:
            report.trouble = clean(str(error))
            return Result("failed", report)
        if source is None:
            if question := student.question([exercise]):
                report.trouble = clean(question)
            return Result("unclear" if question else "missing", report)
        with tempfile.NamedTemporaryFile() as given:
            given.write(source)
            given.flush()
            report = examine(
                exercise, Path(given.name), seed=self.grading.seed,
                longest=self.seconds, look=self.look,
                caged=self.grading.protection == "bubblewrap",
            )
        tidy(report)
        return Result("passed" if report.passed else "failed", report)

    def look(self, tests: psutil.Process) -> str:
        """Why a submission has to end, "" if it need not."""
        if self.stopping:
            return "the grading was interrupted"
        return cage.too_much(tests)


def tidy(report: Report) -> None:
    """Make what a submission has said fit to be shown."""
    report.trouble = clean(report.trouble)
    for outcome in report.outcomes:
        outcome.expected = clean(outcome.expected)
        outcome.story = [clean(s) for s in outcome.story[:SHOWN_LINES]]
        outcome.wrote = []  # for the student's eyes
        lines = outcome.came.splitlines()[:SHOWN_LINES]
        outcome.came = "\n".join(clean(line) for line in lines)
