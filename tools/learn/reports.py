"""What a grading says: a table, JSON, a report for each student."""

import csv
import dataclasses
import io
import itertools
import json
import re
import textwrap
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape

from tools.common.terminal import a_table
from tools.learn.examine import Report, told
from tools.learn.exercises import Exercise
from tools.learn.handed_in import Result, Student

SHOWN_COLUMNS = 500  # of a message
COMPUTED = re.compile(r"[=+@-].")  # by a spreadsheet
REPORT_COLUMNS, REASON_COLUMNS = 79, 80  # of a report, in the table


@dataclass
class Grading:
    """A grading: who, what and how."""

    exercises: list[Exercise]
    students: list[Student]
    seed: int
    protection: str = "none"
    date: str = field(
        default_factory=lambda: time.strftime("%Y-%m-%d %H:%M")
    )


def clean(text: str) -> str:
    """A line without what could steer a terminal, and not too long."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    few = shown[:SHOWN_COLUMNS]
    return few + " ..." if len(few) < len(shown) else few


def show(grading: Grading) -> None:
    """The table, on the screen."""
    rows = []
    for student in grading.students:
        sums = totals(grading, student)
        rows.append([
            escape(clean(student.name)),
            f"{sums['exercises_passed']}/{sums['exercises']}",
            f"{sums['tests_passed']}/{sums['tests']}",
            f"{sums['minutes_passed']}/{sums['minutes']}",
            escape(", ".join(
                f"{k} ({in_short(result)})"
                for k, result in student.results.items() if not result.passed
            )),
        ])
    Console(highlight=False).print(a_table(
        ["Student", "Exercises>", "Tests>", "Minutes>", "Not passed"], rows
    ))


def in_short(result: Result) -> str:
    """Why it did not pass, in a few words."""
    report = result.report
    if report.trouble:
        return report.trouble
    reason = ""
    if not result.tests and len({o.came for o in report.failures}) == 1:
        reason = f": {report.failures[0].came}".partition("\n")[0]
    if len(reason) > REASON_COLUMNS:
        reason = reason[: REASON_COLUMNS - 4].rstrip() + " ..."
    return f"{result.tests} of {report.total} tests{reason}"


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
    """The table for a spreadsheet, which computes nothing of it."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    sums = totals(grading, grading.students[0])
    writer.writerow(["student", "number", *sums, *(
        e.id for e in grading.exercises
    )])
    for s in grading.students:
        name = clean(s.name)
        states = [s.results[e.id].state for e in grading.exercises]
        writer.writerow([
            f"'{name}" if COMPUTED.match(name) else name, s.number,
            *totals(grading, s).values(), *states,
        ])
    return file.getvalue()


def json_text(grading: Grading) -> str:
    """Everything that is known."""
    found = {
        "date": grading.date,
        "seed": grading.seed,
        "protection": grading.protection,
        "exercises": [
            {"id": e.id, "title": e.title, "minutes": e.minutes}
            for e in grading.exercises
        ],
        "students": [
            {
                "name": s.name, "number": s.number, "folder": str(s.folder),
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


def junit_text(found: Sequence[tuple[Exercise, Report]]) -> str:
    """The reports of exercises as JUnit XML."""
    root = ElementTree.Element("testsuites")
    for exercise, report in found:
        suite = ElementTree.SubElement(
            root, "testsuite", name=f"{exercise.id} {exercise.title}",
            tests=str(max(report.total, 1)),
            failures=str(len(report.failures)),
            errors=str(int(bool(report.trouble))),
        )
        cases = [
            (o.title, o.seconds, "" if o.passed else "failure",
             o.came or o.expected, told(o)) for o in report.outcomes
        ]
        if report.trouble:
            cases.append(("runs", 0.0, "error", report.trouble, []))
        for title, seconds, kind, message, lines in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname=exercise.id, name=title,
                time=str(seconds),
            )
            if kind:
                made = ElementTree.SubElement(case, kind, message=message)
                made.text = "\n".join(lines)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def text(grading: Grading, student: Student) -> str:
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
            lines += ["", f"    {result.report.trouble}"]
        lines += outcome_lines(result.report)
        if not result.passed:
            lines += ["", f"Read: docs/{exercise.read}"]
    return "\n".join(lines) + "\n"


def outcome_lines(report: Report) -> list[str]:
    """The tests in Markdown; what several failures say is said once.

    It stands in blocks of code: no Markdown of a submission works there.
    """
    lines, before = [], set()
    for outcome in report.outcomes:
        mark = "✓" if outcome.passed else "✗"
        lines += ["", f"- {mark} {outcome.title}"]
        if outcome.passed:
            continue
        said = told(outcome)
        if (outcome.expected, outcome.came) in before:
            said = [*outcome.story, "The same as above."]
        before.add((outcome.expected, outcome.came))
        each = "\n".join(said).splitlines()
        lines += ["", *(textwrap.fill(
            line, REPORT_COLUMNS, initial_indent=" " * 8,
            subsequent_indent=" " * 18, break_on_hyphens=False,
            break_long_words=False,
        ) for line in each)]
    return lines


def names(students: Sequence[str]) -> dict[str, str]:
    """A file for the report of each student, no two the same.

    Nor the same where A and a are, or two spellings of an umlaut. Names
    that need no change come first.
    """
    plain = {name: re.sub(r"[^\w.-]+", "_", name) for name in students}
    found, taken = {}, set()
    for name in sorted(plain, key=lambda name: plain[name] != name):
        unique = plain[name]
        for number in itertools.count(2):
            key = unicodedata.normalize("NFKC", unique).casefold()
            if key not in taken:
                break
            unique = f"{plain[name]}-{number}"
        taken.add(key)
        found[name] = f"{unique}.md"
    return found
