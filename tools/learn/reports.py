"""What a grading says: one record, and what is written of it."""

import csv
import dataclasses
import io
import re
import time
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape

from tools.common.terminal import a_table
from tools.learn.examine import Report, told
from tools.learn.exercises import Exercise
from tools.learn.handed_in import Student

SHOWN_COLUMNS = 500  # of a message
COMPUTED = re.compile(r"[=+@-].")  # by a spreadsheet
REASON_COLUMNS = 80  # in the table


def clean(text: str) -> str:
    """A line without what could steer a terminal, and not too long."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    few = shown[:SHOWN_COLUMNS]
    return few + " ..." if len(few) < len(shown) else few


def record(
    exercises: Sequence[Exercise], students: Sequence[Student], **how: object
) -> dict[str, Any]:
    """All that is known of a grading, as it stands in the JSON.

    how: what is noted beside it, as the seed.
    """
    most = {  # who cannot be read has no total
        e.id: max([1, *(s.results[e.id].total for s in students)])
        for e in exercises
    }
    found = []
    for student in students:
        results = [student.results[e.id] for e in exercises]
        passed = [
            e for e, r in zip(exercises, results, strict=True) if r.passed
        ]
        found.append({
            "name": student.name, "number": student.number,
            "folder": str(student.folder),
            "exercises_passed": len(passed), "exercises": len(exercises),
            "tests_passed": sum(r.tests for r in results),
            "tests": sum(most.values()),
            "minutes_passed": sum(e.minutes for e in passed),
            "minutes": sum(e.minutes for e in exercises),
            "results": [dataclasses.asdict(r) for r in results],
        })
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"), **how,
        "exercises": [
            {"id": e.id, "title": e.title, "minutes": e.minutes}
            for e in exercises
        ],
        "students": found,
    }


def show(students: Sequence[Student], found: dict[str, Any]) -> None:
    """The table, on the screen."""
    rows = []
    for student, each in zip(students, found["students"], strict=True):
        rows.append([
            escape(clean(student.name)),
            *(f"{each[f'{key}_passed']}/{each[key]}"
              for key in ("exercises", "tests", "minutes")),
            escape(", ".join(
                f"{report.exercise} ({in_short(report)})"
                for report in student.results.values() if not report.passed
            )),
            escape(look_at(each)),
        ])
    titles = ["Student", "Exercises>", "Tests>", "Minutes>", "Not passed",
              "Look at"]
    if not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    Console(highlight=False).print(a_table(titles, rows))


def look_at(student: dict[str, Any]) -> str:
    """What to look at in the files of one student of a record."""
    return ", ".join(f"{result['exercise']}: {' '.join(result['look'])}"
                     for result in student["results"] if result["look"])


def in_short(report: Report) -> str:
    """Why it did not pass, in a few words."""
    if report.trouble:
        return report.trouble
    reason = ""
    if not report.tests and len({o.came for o in report.failures}) == 1:
        reason = f": {report.failures[0].came}".partition("\n")[0]
    if len(reason) > REASON_COLUMNS:
        reason = reason[: REASON_COLUMNS - 4].rstrip() + " ..."
    return f"{report.tests} of {report.total} tests{reason}"


def csv_text(found: dict[str, Any]) -> str:
    """The table for a spreadsheet, which computes nothing of it."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    sums = [
        "exercises_passed", "exercises", "tests_passed", "tests",
        "minutes_passed", "minutes",
    ]
    ids = [exercise["id"] for exercise in found["exercises"]]
    writer.writerow(["student", "number", *sums, *ids, "look at"])
    for student in found["students"]:
        name = clean(student["name"])
        if any(r["state"] == "unclear" for r in student["results"]):
            # Whoever imports it gives no 0 for what nobody has looked at.
            student = student | {k: "" for k in sums if k.endswith("passed")}
        writer.writerow([
            f"'{name}" if COMPUTED.match(name) else name, student["number"],
            *(student[key] for key in sums),
            *(result["state"] for result in student["results"]),
            look_at(student),
        ])
    return file.getvalue()


def junit_text(found: Sequence[Report]) -> str:
    """The reports of exercises as JUnit XML."""
    root = ElementTree.Element("testsuites")
    for report in found:
        suite = ElementTree.SubElement(
            root, "testsuite", name=f"{report.exercise} {report.title}",
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
                suite, "testcase", classname=report.exercise, name=title,
                time=str(seconds),
            )
            if kind:
                made = ElementTree.SubElement(case, kind, message=message)
                made.text = "\n".join(lines)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'
