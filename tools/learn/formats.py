"""What other programs read: gradebooks, autograders, a page to project.

``--export NAME FILE`` of ``./learn.sh grade``. Points are the minutes of
the exercises that passed; what was not understood has none, not even 0.
"""

import csv
import html
import io
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tools.learn.desk import DeskError
from tools.learn.exercises import Exercise, section
from tools.learn.handed_in import Result, Student
from tools.learn.reports import Grading, clean, outcome_lines, totals

COMPUTED = re.compile(r"[=+@-].")  # by a spreadsheet


def plain(grading: Grading) -> str:
    """The table, a row a student: sums, and what came of each exercise."""
    sums = totals(grading, grading.students[0])
    return table([
        ["student", "number", *sums, *(e.id for e in grading.exercises)],
        *(
            [clean(s.name), s.number, *totals(grading, s).values(),
             *(s.results[e.id].state for e in grading.exercises)]
            for s in grading.students
        ),
    ])


def canvas(grading: Grading) -> str:
    """Canvas's gradebook: an assignment for each exercise.

    Read by lib/gradebook_importer.rb of instructure/canvas-lms: a student
    is found by ID, else by login, else by name.
    """
    graded = grading.exercises
    return table([
        ["Student", "ID", "SIS Login ID", "Section",
         *(f"{e.id} {e.title}" for e in graded)],
        ["    Points Possible", "", "", "", *(e.minutes for e in graded)],
        *(
            [clean(s.name), s.number, "" if s.number else clean(s.name), "",
             *(shown(points(e, s.results[e.id])) for e in graded)]
            for s in grading.students
        ),
    ])


def moodle(grading: Grading) -> str:
    """Moodle's grading worksheet, with a column more for each exercise.

    Read by mod/assign/feedback/offline/importgradeslib.php of
    moodle/moodle: by the number of the participant. Its gradebook lets you
    say which column is what.
    """
    graded = grading.exercises
    rows: list[Sequence[object]] = [[
        "Identifier", "Full name", "Grade", "Maximum Grade",
        "Last modified (grade)", *(e.id for e in graded),
    ]]
    for student in grading.students:
        each = [points(e, student.results[e.id]) for e in graded]
        total = None if None in each else sum(x or 0 for x in each)
        number = student.number and f"Participant {student.number}"
        rows.append([
            number, clean(student.name), shown(total),
            sum(e.minutes for e in graded), "-", *map(shown, each),
        ])
    return table(rows)


def gradescope(grading: Grading) -> str:
    """Gradescope's results.json, of one student.

    Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/
    """
    results = only(grading.students).results
    return json.dumps({
        "output": f"Graded {grading.date}. An exercise counts if all of its "
        "tests pass.",
        "tests": [
            {
                "name": f"{e.id} {e.title}",
                "number": e.id,
                "status": "passed" if results[e.id].passed else "failed",
                "score": points(e, results[e.id]) or 0,
                "max_score": e.minutes,
                "output": said(results[e.id]),
                "output_format": "text",
            }
            for e in grading.exercises
        ],
    }, indent=1) + "\n"


def classroom50(grading: Grading) -> str:
    """Classroom 50's result.json, of one student.

    Source: schemas/result-v1.schema.json of foundation50/classroom50. Its
    runner says in the environment what is graded. Raises DeskError if not.
    """
    results = only(grading.students).results
    names = {
        "classroom": "CLASSROOM", "assignment": "ASSIGNMENT",
        "assignment_type": "ASSIGNMENT_TYPE", "owner": "OWNER",
        "submission": "SUBMISSION_TAG", "commit": "COMMIT_URL",
        "release": "RELEASE_URL", "review": "REVIEW_URL",
    }
    instead = {"OWNER": "USERNAME", "REVIEW_URL": "COMMIT_URL"}
    found = {
        key: os.environ.get(name) or os.environ.get(instead.get(name, ""), "")
        for key, name in names.items()
    }
    if missing := [names[key] for key in found if not found[key]]:
        raise DeskError(
            f"Classroom 50's runner sets {', '.join(missing)}: not here"
        )
    tests = [
        {
            "test-name": f"{e.id} {e.title}",
            "passed": results[e.id].passed,
            "score": points(e, results[e.id]) or 0,
            "max-score": e.minutes,
            "output": said(results[e.id]),
        }
        for e in grading.exercises
    ]
    return json.dumps({
        "schema": "classroom50/result/v1", **found,
        "datetime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "score": sum(t["score"] for t in tests),
        "max-score": sum(t["max-score"] for t in tests),
        "tests": tests,
    }, indent=1) + "\n"


def glance(grading: Grading) -> str:
    """A page to project: which test failed how often, and what explains it."""
    rows = []
    for (exercise, title), failed, of in failures(grading):
        rows.append(
            f"<tr><td>{html.escape(exercise.id)} {html.escape(title)}"
            f"<td><meter max={of} value={failed}></meter> {failed} of {of}"
            f"<td>{html.escape(': '.join(section(exercise)))}"
        )
    few = "".join(rows) or "<tr><td colspan=3>Everything passed."
    return PAGE.replace("ROWS", few).replace("DATE", grading.date)


PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>The class at a glance</title>
<style>
body { font: 1.4rem/1.4 sans-serif; margin: 2rem; color-scheme: light dark }
table { border-collapse: collapse }
td, th { padding: .5rem 1.5rem .5rem 0; text-align: left;
  vertical-align: top; border-bottom: 1px solid }
td:nth-child(2) { white-space: nowrap }
</style>
<h1>The class at a glance</h1>
<p>DATE. Of those who handed it in, so many failed this test.</p>
<table>
<tr><th>What was to be seen<th>Failed<th>Where it is explained
ROWS
</table>
</html>
"""

FORMATS: dict[str, Callable[[Grading], str]] = {
    "canvas": canvas, "moodle": moodle, "gradescope": gradescope,
    "classroom50": classroom50, "glance": glance,
}


OF_ONE = ("gradescope", "classroom50")  # student


def points(exercise: Exercise, result: Result) -> int | None:
    """The minutes of an exercise that passed; None: somebody has to look."""
    if result.state == "unclear":
        return None
    return exercise.minutes if result.passed else 0


def said(result: Result) -> str:
    """What a student reads of one exercise."""
    trouble = [result.report.trouble] if result.report.trouble else []
    return "\n".join([*trouble, *outcome_lines(result.report)])


def shown(number: int | None) -> str:
    """A number of points for a spreadsheet."""
    return "" if number is None else str(number)


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV that a spreadsheet opens and does not compute."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in rows:
        each = [str(cell) for cell in row]
        writer.writerow(f"'{x}" if COMPUTED.match(x) else x for x in each)
    return file.getvalue()


def only(students: Sequence[Student]) -> Student:
    """The one student of a grading. Raises DeskError if there are more."""
    if len(students) != 1:
        raise DeskError("this format is for one student's folder")
    return students[0]


def failures(
    grading: Grading
) -> list[tuple[tuple[Exercise, str], int, int]]:
    """Each test that somebody failed: how many did, of how many."""
    failed: Counter[tuple[str, str]] = Counter()
    tried: Counter[tuple[str, str]] = Counter()
    known = {e.id: e for e in grading.exercises}
    for student in grading.students:
        for key, result in student.results.items():
            for outcome in result.report.outcomes:
                tried[key, outcome.title] += 1
                failed[key, outcome.title] += not outcome.passed
    return [
        ((known[test[0]], test[1]), count, tried[test])
        for test, count in failed.most_common() if count
    ]
