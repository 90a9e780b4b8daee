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
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from tools.learn import (
    copies,
    desk,
    exercises,
    formats,
    protection,
    reports,
    watcher,
)
from tools.learn.desk import DeskError
from tools.learn.examine import LONGEST, Report, Surroundings, examine
from tools.learn.exercises import Exercise
from tools.learn.handed_in import (
    RefusedError,
    Result,
    Student,
    find_students,
    take,
    which_exercises,
)
from tools.learn.protection import PROTECTIONS, Protection
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
    add("--export", nargs=2, action="append", default=[],
        metavar=("FORMAT", "FILE"),
        help="for another program: " + ", ".join(formats.FORMATS))
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
    check_targets(options, students)
    seed = options.seed
    grading = Grading(
        chosen, students, random.randrange(1 << 30) if seed is None else seed
    )
    with protection.work_folder() as work:
        chosen_one = protection.choose(options.protection, work)
        grading.protection = chosen_one.name
        Grader(grading, chosen_one, work, options.seconds).run(options.jobs)
    grading.alike = [
        pair for e in chosen for pair in copies.find(
            e, {s.name: s.results[e.id].source for s in students}
        )
    ]
    reports.show(grading)
    if options.csv:
        desk.write(options.csv, formats.plain(grading))
    if options.json:
        desk.write(options.json, reports.json_text(grading))
    for name, typed in options.export:
        desk.write(Path(typed), formats.FORMATS[name](grading))
    if options.reports:
        names = reports.names([s.name for s in students])
        for student, name in zip(students, names, strict=True):
            text = reports.text(grading, student)
            desk.write(options.reports / name, text)
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


def check_targets(
    options: argparse.Namespace, students: Sequence[Student]
) -> None:
    """Raises DeskError now for what could not be written at the end."""
    for name, _ in options.export:
        if name not in formats.FORMATS:
            known = ", ".join(formats.FORMATS)
            raise DeskError(f"there is no format {name}, only {known}")
        if name in formats.OF_ONE:
            formats.only(students)
    exported = [Path(typed) for _, typed in options.export]
    for typed in (options.csv, options.json, *exported):
        if typed and not desk.from_caller(typed).absolute().parent.is_dir():
            raise DeskError(f"cannot write {typed}: there is no such folder")
    if options.reports:
        desk.write(options.reports / ".begun", "")
        (desk.from_caller(options.reports) / ".begun").unlink()


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
        """Grade all, so many at a time.

        What fails beside others is graded again alone, and that counts:
        a neighbour may have taken the processor, the memory or the disk.
        """
        with self.watcher:
            self.each(self.todo, jobs)
            again = [
                (s, e) for s, e in self.todo
                if s.results[e.id].state == "failed"
            ]
            if min(jobs, len(self.todo)) > 1 and again:
                print("What failed is graded again, alone:", file=sys.stderr)
                self.todo, self.done = again, 0
                self.each(again, 1)
        for student in self.grading.students:  # in order, not as done
            student.results = {
                e.id: student.results[e.id] for e in self.grading.exercises
            }

    def each(
        self, todo: Sequence[tuple[Student, Exercise]], jobs: int
    ) -> None:
        """Grade these, so many at a time."""
        with ThreadPoolExecutor(jobs) as pool:
            try:  # the first may run before the last is submitted
                futures = [pool.submit(self.one, *p) for p in todo]
                # A signal that arrives just before a wait is seen after
                # it: so no wait is long.
                while wait(futures, watcher.LOOK_SECONDS).not_done:
                    pass
                for future in futures:
                    future.result()
            except BaseException:
                self.watcher.stopping = True
                raise

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
            source = take(student, exercise)
        except RefusedError as error:
            report.trouble = clean(str(error))
            return Result("failed", report)
        if source is None:
            if question := student.question([exercise]):
                report.trouble = clean(question)
            return Result("unclear" if question else "missing", report)
        with self.protection.a_place(self.work) as place:
            given = place.outer / "given"
            given.touch(0o600)
            given.write_bytes(source)
            around = Surroundings(
                place.outer, self.protection.python(place),
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
        state = "passed" if report.passed else "failed"
        return Result(state, report, source.decode("utf-8", "replace"))


def tidy(report: Report) -> None:
    """Make what a submission has said fit to be shown."""
    report.trouble = clean(report.trouble)
    for outcome in report.outcomes:
        outcome.expected = clean(outcome.expected)
        outcome.story = [clean(s) for s in outcome.story[:SHOWN_LINES]]
        outcome.wrote = []  # for the student's eyes
        lines = outcome.came.splitlines()[:SHOWN_LINES]
        outcome.came = "\n".join(clean(line) for line in lines)
