"""Grades an assignment of Classroom 50: CLASSROOM/autograders/ASSIGNMENT/.

Name the assignment's exercises, and replace OWNER and the version by
wherever your copy of these exercises is. Classroom 50 runs this in the
student's folder and reads result.json.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

EXERCISES = ["02.1"]
SOURCE = os.environ.get(
    "SEVEN_SOURCE", "https://github.com/OWNER/seven-servers"
)
VERSION = "v1.0.0"

result = Path("result.json")
result.unlink(missing_ok=True)  # a student may have put one there
with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", "--branch", VERSION, SOURCE,
         folder],
        check=True,
    )
    named = [word for e in EXERCISES for word in ("--exercise", e)]
    # The status is 2 if something was not understood: the result says what.
    subprocess.run(
        [f"{folder}/learn.sh", "grade", "--unprotected", ".", *named,
         "--json", f"{folder}/graded.json"],
        check=False,
    )
    graded = json.loads(Path(folder, "graded.json").read_text())

# What its runner says, and what came of it, as its result-v1.schema.json.
found = {"schema": "classroom50/result/v1"}
for name in ("CLASSROOM", "ASSIGNMENT", "ASSIGNMENT_TYPE"):
    found[name.lower()] = os.environ[name]
found["owner"] = os.environ.get("OWNER") or os.environ["USERNAME"]
found["submission"] = os.environ["SUBMISSION_TAG"]
found["commit"] = os.environ["COMMIT_URL"]
found["release"] = os.environ["RELEASE_URL"]
found["review"] = os.environ.get("REVIEW_URL") or found["commit"]
found["datetime"] = subprocess.run(  # of the commit, not of this grading
    ["git", "log", "-1", "--format=%cd",
     "--date=format-local:%Y-%m-%dT%H:%M:%SZ"],
    env=os.environ | {"TZ": "UTC"}, stdout=subprocess.PIPE, text=True,
    check=True,
).stdout.strip()
tests = []
results = graded["students"][0]["results"]
for e, r in zip(graded["exercises"], results, strict=True):
    passed = r["state"] == "passed"
    most = 0 if r["state"] == "unclear" else e["minutes"]  # 0 of 0: no 0
    failed = [o["title"] for o in r["outcomes"] if not o["passed"]]
    tests.append({
        "test-name": f"{e['id']} {e['title']}", "passed": passed,
        "score": most * passed, "max-score": most,
        "output": "\n".join([r["trouble"], *failed]).strip(),
    })
for key in ("score", "max-score"):
    found[key] = sum(test[key] for test in tests)
result.write_text(json.dumps({**found, "tests": tests}, indent=1))
