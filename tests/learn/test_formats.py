"""What other programs read of a grading, by the rules of who reads it."""

import csv
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tools.learn import exercises, formats
from tools.learn.desk import DeskError
from tools.learn.examine import Outcome, Report
from tools.learn.handed_in import Result, Student
from tools.learn.reports import Grading
from tools.servers import ROOT

FILES = ROOT / "docs" / "teach" / "files"
GRADED = [exercises.by_id("02.1"), exercises.by_id("02.3")]
MINUTES = [e.minutes for e in GRADED]
RUNNER = {  # what Classroom 50's runner sets
    "CLASSROOM": "web", "ASSIGNMENT": "sockets", "USERNAME": "anna",
    "ASSIGNMENT_TYPE": "individual", "COMMIT_URL": "https://x/commit/1",
    "SUBMISSION_TAG": "submit/2026-11-22T10-00-00Z-a1b2c3d",
    "RELEASE_URL": "https://x/releases/tag/y",
}


def result(state: str, *passed: bool) -> Result:
    outcomes = [
        Outcome("test", f"Title {n} <b>", ok, 0.1, ["sent x"], "a", "b")
        for n, ok in enumerate(passed)
    ]
    return Result(state, Report("02.1", outcomes, len(passed)))


def grading(*students: tuple[str, str, str, str]) -> Grading:
    """Students with a name, a number, and a state of each exercise."""
    passed = {"passed": (True, True), "failed": (True, False)}
    return Grading(GRADED, [
        Student(name, Path(name), number, results={
            e.id: result(state, *passed.get(state, ()))
            for e, state in zip(GRADED, states, strict=True)
        })
        for name, number, *states in students
    ], 1)


CLASS = grading(
    ("Anna Lee", "7", "passed", "failed"), ("=ben", "", "failed", "missing"),
    ("cleo", "9", "passed", "unclear"),
)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def test_canvas_finds_its_columns() -> None:
    # As its importer does: GradebookImporter#header?, #process_pp and
    # #process_student in instructure/canvas-lms, lib/gradebook_importer.rb.
    head, possible, *students = rows(formats.canvas(CLASS))
    assert len(head) > 3 and "Student" in head[0] and "ID" in head[1]
    login = bool(re.search(r"SIS\s+Login\s+ID", head[2]))
    last = 3 + login
    assert "Section" in head[last - 1]
    titles = head[last:]
    assert [t[:4] for t in titles] == ["02.1", "02.3"]
    # A trailing "(17)" would be taken for the id of an assignment.
    assert not any(re.search(r"\(\d+\)$", t) for t in titles)
    assert "Points Possible" in possible[0]
    assert [int(x) for x in possible[last:]] == MINUTES
    found = {row[1] or row[2]: row[last:] for row in students}
    assert found == {
        "7": [str(MINUTES[0]), "0"], "'=ben": ["0", "0"],
        "9": [str(MINUTES[0]), ""],  # no points: somebody has to look
    }


def test_moodle_finds_its_columns() -> None:
    # As init() and next() of mod/assign/feedback/offline/
    # importgradeslib.php do, with the words of Moodle's English.
    head, *students = rows(formats.moodle(CLASS))
    number, grade, modified = (
        head.index(name)
        for name in ("Identifier", "Grade", "Last modified (grade)")
    )
    assert {row[modified] for row in students} == {"-"}
    found = {
        row[number][len("Participant "):]: row[grade] for row in students
    }
    assert found == {"7": str(MINUTES[0]), "": "0", "9": ""}
    assert head[-2:] == ["02.1", "02.3"]


def test_gradescope() -> None:
    # gradescope-autograders.readthedocs.io/en/latest/specs
    found = json.loads(formats.gradescope(
        grading(("submission", "", "passed", "failed"))
    ))
    assert set(found) <= {
        "score", "execution_time", "output", "output_format",
        "test_output_format", "test_name_format", "visibility",
        "stdout_visibility", "extra_data", "tests", "leaderboard",
    }
    for test, minutes, score in zip(
        found["tests"], MINUTES, (MINUTES[0], 0), strict=True
    ):
        assert set(test) <= {
            "score", "max_score", "status", "name", "name_format", "number",
            "output", "output_format", "tags", "visibility", "extra_data",
        }
        assert (test["score"], test["max_score"]) == (score, minutes)
        assert test["status"] == ("passed" if score else "failed")
        # A submission's words are shown as text, not as HTML or Markdown.
        assert test["output_format"] == "text"
    assert "sent x" in found["tests"][1]["output"]


def valid_result(found: dict[str, Any]) -> None:
    """By schemas/result-v1.schema.json of foundation50/classroom50."""
    texts = {
        "schema", "classroom", "assignment", "assignment_type", "owner",
        "submission", "commit", "release", "review", "datetime",
    }
    assert set(found) == texts | {"score", "max-score", "tests"}
    assert all(isinstance(found[x], str) and found[x] for x in texts)
    assert found["schema"] == "classroom50/result/v1"
    assert found["assignment_type"] in ("individual", "group", "team")
    assert found["submission"].startswith("submit/")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["datetime"]
    )
    for each in [found, *found["tests"]]:
        assert type(each["score"]) is type(each["max-score"]) is int
        assert 0 <= each["score"] <= each["max-score"]
    for test in found["tests"]:
        assert test["test-name"] and type(test["passed"]) is bool


def test_classroom_50(monkeypatch: pytest.MonkeyPatch) -> None:
    one = grading(("work", "", "passed", "unclear"))
    with pytest.raises(DeskError, match="CLASSROOM, ASSIGNMENT"):
        formats.classroom50(one)
    for name, value in RUNNER.items():
        monkeypatch.setenv(name, value)
    found = json.loads(formats.classroom50(one))
    valid_result(found)
    assert (found["score"], found["max-score"]) == (MINUTES[0], sum(MINUTES))
    assert [test["passed"] for test in found["tests"]] == [True, False]
    assert found["owner"] == "anna"
    with pytest.raises(DeskError, match="one student"):
        formats.classroom50(CLASS)


def test_a_glance_at_the_class() -> None:
    page = formats.glance(CLASS)
    assert "<b>" not in page and "Title 1 &lt;b&gt;" in page
    assert "1 of 3" in page and "1 of 1" in page  # of those handed in
    assert "Title 0" not in page  # nobody failed it
    assert "02 Sockets: One recv is not a request" in page
    assert "Everything passed" in formats.glance(grading())


def test_each_section_is_found() -> None:
    for exercise in exercises.everything():
        page, *headings = exercises.section(exercise)
        assert page and ".md" not in page
        assert len(headings) == ("#" in exercise.read), exercise.id


# What is put elsewhere -----------------------------------------------------


def test_the_workflow() -> None:
    text = (FILES / "classroom.yml").read_text()
    (job,) = yaml.safe_load(text)["jobs"].values()
    used = {s["uses"].partition("@")[0] for s in job["steps"] if "uses" in s}
    assert used == {"actions/checkout", "actions/setup-python"}  # no service
    runs = [s.get("run", "") for s in job["steps"]]
    (graded,) = [run for run in runs if " grade " in run]
    assert "--must-pass" in graded and "sudo" in graded
    for wanted in re.findall(r"--exercise (\S+)", graded):
        exercises.by_id(wanted)
    assert "$GITHUB_STEP_SUMMARY" in runs[-1]
    page = (ROOT / "docs" / "teach" / "grading.md").read_text()
    for name in ("classroom.yml", "gradescope/setup.sh",
                 "gradescope/run_autograder", "classroom50/autograder.py"):
        assert f"files/{name}" in page and (FILES / name).is_file()


def test_gradescope_s_folder() -> None:
    # Both at the root of the archive, one of them to be run.
    names = {p.name: p for p in (FILES / "gradescope").iterdir()}
    assert set(names) == {"setup.sh", "run_autograder"}
    assert names["run_autograder"].stat().st_mode & stat.S_IXUSR
    for path in names.values():
        assert path.read_text().startswith("#!/usr/bin/env bash\n")
        subprocess.run(["bash", "-n", path], check=True)
    run = names["run_autograder"].read_text()
    assert "/autograder/submission" in run
    assert "gradescope /autograder/results/results.json" in run


@pytest.mark.thorough
def test_classroom_50_s_autograder(tmp_path: Path) -> None:
    # As its runner runs it: in the student's folder, which may have
    # anything in it; the status is 0 whatever the student did.
    (tmp_path / "result.json").write_text("mine")
    fake = tmp_path / "source"
    fake.mkdir()
    learn = fake / "learn.sh"
    learn.write_text(
        f'#!/bin/sh\ncd {shlex.quote(str(ROOT))}\nSEVEN_CALLER=$OLDPWD exec '
        f'{shlex.quote(sys.executable)} -m tools.learn "$@"\n'
    )
    learn.chmod(0o755)
    named = ["-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"],
                  ["tag", "v1.0.0"]):
        subprocess.run(["git", *named, *words], cwd=fake, check=True)
    (tmp_path / "02.1").mkdir()
    (tmp_path / "02.1" / "server.py").write_text("import sys; sys.exit(1)\n")
    done = subprocess.run(
        [sys.executable, FILES / "classroom50" / "autograder.py"],
        cwd=tmp_path, env={**os.environ, **RUNNER,
                           "SEVEN_SOURCE": f"file://{fake}"},
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "result.json").read_text())
    valid_result(found)
    assert found["score"] == 0 and not found["tests"][0]["passed"]
