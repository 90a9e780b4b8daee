"""Who handed in what: students' folders, and the one file of each exercise.

Of each student only that file is taken, as bytes.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.learn import desk, exercises
from tools.learn.desk import DeskError
from tools.learn.examine import Report
from tools.learn.exercises import Exercise

SOURCE_BYTES = 256 * 1024  # nobody writes more for one exercise


@dataclass
class Result:
    """What came of one student's exercise.

    state: passed, failed or missing (not handed in); report: see there.
    """

    state: str
    report: Report

    @property
    def passed(self) -> bool:
        """Did every test pass?"""
        return self.state == "passed"

    @property
    def tests(self) -> int:
        """How many tests passed."""
        return sum(o.passed for o in self.report.outcomes)


@dataclass
class Student:
    """One student: a name, a folder, and a result for each exercise."""

    name: str
    folder: Path
    results: dict[str, Result] = field(default_factory=dict)

    @property
    def passed(self) -> list[str]:
        """The ids of the exercises that passed."""
        return [k for k, result in self.results.items() if result.passed]


def find_students(folders: Sequence[Path]) -> tuple[list[Student], list[str]]:
    """The students of these folders; what is wrong, in sentences."""
    found: dict[Path, Student] = {}
    wrong = []
    for typed in folders:
        path = Path(os.path.abspath(desk.from_caller(typed)))
        if path.is_dir():
            found[path] = Student(path.name, path)
        else:
            wrong.append(f"there is no folder {typed}")
    names = [s.name for s in found.values()]
    for student in found.values():
        if names.count(student.name) > 1 or not student.name:
            student.name = str(student.folder).strip("/").replace("/", "-")
    return list(found.values()), wrong


def which_exercises(
    students: Sequence[Student], wanted: Sequence[str]
) -> list[Exercise]:
    """The exercises that are graded. Raises DeskError if there is none."""
    if not students:
        raise DeskError("there is nobody to grade")
    ids = {exercises.by_id(word).id for word in wanted}
    found = [
        e for e in exercises.everything()
        if e.id in ids
        or (not wanted and any(places(s.folder, e) for s in students))
    ]
    if found:
        return found
    inner = [
        path for s in students for name in ("*/my", "*/0[1-7].[0-9]")
        for path in s.folder.glob(name)
    ]
    raise DeskError(
        "no exercise was found: each folder is one student's, with "
        "02.1/server.py or my/02.1/server.py in it"
        + (f". Did you mean {students[0].folder}/* ?" if inner else "")
    )


def places(folder: Path, exercise: Exercise) -> list[Path]:
    """Where a student has a folder of this exercise."""
    each = (folder / exercise.id, folder / "my" / exercise.id)
    return [p for p in each if os.path.lexists(p)]


class RefusedError(Exception):
    """A file that is not examined; the text says why."""


def take(folder: Path, exercise: Exercise) -> bytes | None:
    """A student's file, as bytes; None if there is no folder for it.

    Raises RefusedError for whatever is not an ordinary file of theirs: a
    link would be followed with our rights.
    """
    named = [p / exercise.file for p in places(folder, exercise)]
    if not named:
        return None
    path = next((p for p in named if os.path.lexists(p)), named[0])
    name = path.relative_to(folder)
    for part in (path.parent.parent, path.parent, path):
        if part != folder and part.is_symlink():
            raise RefusedError(
                f"{part.relative_to(folder)} is a link: hand in the file "
                "itself"
            )
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise RefusedError(f"there is no {name}") from None
    except OSError as error:
        raise RefusedError(
            f"{name} cannot be read: {error.strerror}"
        ) from None
    try:
        look = os.fstat(opened)
        if not stat.S_ISREG(look.st_mode):
            raise RefusedError(f"{name} is not a file")
        if look.st_size > SOURCE_BYTES:
            raise RefusedError(
                f"{name} is larger than {SOURCE_BYTES // 1024} KB"
            )
        return os.read(opened, SOURCE_BYTES)
    finally:
        os.close(opened)
