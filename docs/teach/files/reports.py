"""Writes a report for each student: python reports.py graded.json

graded.json is what ./learn.sh grade --json has written. The reports are
in the folder reports, in Markdown, each named after the student.
"""

import json
import sys
from pathlib import Path

for student in json.loads(Path(sys.argv[1]).read_text())["students"]:
    lines = [
        f"# {student['name']}", "",
        f"{student['exercises_passed']} of {student['exercises']} exercises "
        f"passed, {student['tests_passed']} of {student['tests']} tests.",
    ]
    for result in student["results"]:
        state = f"{result['exercise']} {result['title']}: {result['state']}"
        said = [result["trouble"]]
        for test in result["outcomes"]:
            if test["passed"]:
                said.append(f"passed: {test['title']}")
                continue
            said += [f"FAILED: {test['title']}", *test["story"]]
            if test["expected"]:
                said.append(f"Expected: {test['expected']}")
            said.append(f"But:      {test['came']}")
        # Indented, it is a block of code: no Markdown of theirs works.
        block = [f"    {line}" for line in "\n".join(said).splitlines()]
        lines += ["", f"## {state}", "", *block]
    path = Path("reports", f"{student['name']}.md")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", "utf-8")
