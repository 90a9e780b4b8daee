"""``./learn.sh grade``: many students' folders at once.

Our own tests run on each file, in a folder of its own, behind a
`protection`; a `watcher` ends what uses too much. What one submission does
changes no other's result.
"""

import argparse
import os
import random
import sys
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.learn import desk, exercises, protection, reports, watcher
from tools.learn.desk import DeskError
from tools.learn.examine import LONGEST, Report, Surroundings, examine
from tools.learn.exercises import Exercise
from tools.learn.handed_in import (
    RefusedError,
    Result,
    Student,
    find_students,
    places,
    take,
    which_exercises,
)
from tools.learn.protection import PROTECTIONS, Protection
from tools.learn.reports import Grading, clean
from tools.servers import ROOT

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
    seed = options.seed
    grading = Grading(
        chosen, students, random.randrange(1 << 30) if seed is None else seed
    )
    # Students' files are compiled here, in threads.
    warnings.simplefilter("ignore", SyntaxWarning)
    before = fingerprint(chosen)
    with protection.work_folder() as work:
        chosen_one = protection.choose(options.protection, work)
        grading.protection = chosen_one.name
        Grader(grading, chosen_one, work, options.seconds).run(options.jobs)
    if grading.protection == "limits" and fingerprint(chosen) != before:
        grading.warning = (
            "Files of this repository changed meanwhile: these results "
            "cannot be trusted."
        )
    reports.show(grading)
    if options.csv:
        desk.write(options.csv, reports.csv_text(grading))
    if options.json:
        desk.write(options.json, reports.json_text(grading))
    if options.reports:
        names = reports.names([s.name for s in students])
        for student, name in zip(students, names, strict=True):
            text = reports.text(grading, student)
            desk.write(options.reports / name, text)
    if wrong:
        return 2
    failed = options.must_pass and not all(
        result.passed for s in students for result in s.results.values()
    )
    return 1 if failed or grading.warning else 0


def check_targets(options: argparse.Namespace) -> None:
    """Raises DeskError now for what could not be written at the end."""
    for typed in (options.csv, options.json):
        if typed and not desk.from_caller(typed).absolute().parent.is_dir():
            raise DeskError(f"cannot write {typed}: there is no such folder")
    if options.reports:
        desk.write(options.reports / ".begun", "")
        (desk.from_caller(options.reports) / ".begun").unlink()


def fingerprint(graded: Sequence[Exercise]) -> dict[str, tuple[int, int]]:
    """Size and time of the files that the results depend on."""
    tools = ROOT / "tools"
    folders = [tools / "learn", tools / "common", *(e.folder for e in graded)]
    paths = [p for folder in folders for p in folder.glob("*.*")]
    paths += [exercises.BLOCKING, exercises.LOOP]
    looks = {str(p): p.stat() for p in paths}
    return {k: (v.st_size, v.st_mtime_ns) for k, v in looks.items()}


class Grader:
    """Grades every exercise of every student, many at a time."""

    def __init__(
        self, grading: Grading, protection: Protection, work: Path,
        seconds: float,
    ) -> None:
        self.grading = grading
        self.protection = protection
        self.work = work
        self.seconds = seconds
        self.watcher = watcher.Watcher()
        self.todo = [
            (s, e) for e in grading.exercises for s in grading.students
        ]
        self.done = 0
        self.saying = threading.Lock()

    def run(self, jobs: int) -> None:
        """Grade all, so many at a time."""
        with self.watcher, ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(self.one, *pair) for pair in self.todo]
            try:
                for future in running:
                    future.result()
            except BaseException:
                self.watcher.stop()
                raise
        for student in self.grading.students:  # in order, not as done
            student.results = {
                e.id: student.results[e.id] for e in self.grading.exercises
            }

    def one(self, student: Student, exercise: Exercise) -> None:
        """Grade one file, keep its result, and say so."""
        if self.watcher.stopping:
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
            source = take(student.folder, exercise)
        except RefusedError as error:
            report.trouble = clean(str(error))
            return Result("failed", report)
        if source is None:
            return Result("missing", report)
        with self.protection.a_place(self.work) as place:
            given = place.outer / "given"
            given.touch(0o600)
            given.write_bytes(source)
            around = Surroundings(
                place.home, self.protection.python(place),
                self.protection.around_tests(),
            )
            watched = watcher.Watched(place.uid, place.outer, around)
            with self.watcher.watching(watched):
                report = examine(
                    exercise, given, seed=self.grading.seed,
                    longest=self.seconds, around=around,
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
