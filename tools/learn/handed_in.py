"""Who handed in what: students' folders, and the one file of each exercise.

Folders are taken as they arrive: a student's own (``02.1/server.py``, also
as ``2.1``, in ``my``, or one folder further down), and what Moodle and
Canvas make of them. Of each student only the one file of an exercise is
read, as bytes. What is not understood is kept by name, for the teacher.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.common.files import open_theirs
from tools.learn import desk, exercises
from tools.learn.desk import DeskError
from tools.learn.examine import Report
from tools.learn.exercises import Exercise

SOURCE_BYTES = 256 * 1024  # nobody writes more for one exercise
# A folder or a file as Moodle names it: Anna Lee_17_assignsubmission_file_
MOODLE = re.compile(r"(.+?)_(\d+)_assignsubmission_file_(.*)", re.DOTALL)
# As Canvas does: leeanna_LATE_17_4711_server.py
CANVAS = re.compile(r"([^_]+)(?:_LATE)?_(\d+)_\d+_(.+)", re.DOTALL)
NUMBER = re.compile(r"(?<!\d)0?([1-7])\.([0-9])(?!\d)")  # 02.1, 2.1
# What might be a submission, wherever it lies.
HANDED_IN = re.compile(r".+\.(py|txt|zip|tar|gz|tgz|7z|rar|ipynb)", re.I)
# What has been given a program's name.
NO_PROGRAM = {
    "an archive": rb"PK\x03\x04|\x1f\x8b|7z\xbc\xaf|Rar!",
    "a notebook": rb"\s*\{(?s:.*)\"(?:cells|nbformat)\"",
}
BESIDE = re.compile(r"(__MACOSX|\.)")  # archives bring these along
Whose = tuple[str, str, str]  # a name, a number, what the file is called


@dataclass
class Student:
    """One student.

    number: Moodle's or Canvas's, "" if neither named it; files: where the
    file of an exercise should be, by id; unclear: what was not understood;
    results: of each exercise, by id.
    """

    name: str
    folder: Path
    number: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)
    results: dict[str, Report] = field(default_factory=dict)

    def question(self, graded: Sequence[Exercise]) -> str:
        """What was not understood, if one of these was not found."""
        if not self.unclear or all(e.id in self.files for e in graded):
            return ""
        return "not understood: " + ", ".join(self.unclear)


def find_students(
    folders: Sequence[Path], wanted: Sequence[Exercise]
) -> tuple[list[Student], list[str]]:
    """The students of these folders; what is wrong, in sentences.

    wanted: the exercises that are graded, if the teacher has named them. A
    file that does not say what it is can only be of the only one.
    """
    found: dict[object, Student] = {}
    wrong = []
    for typed in folders:
        path = Path(os.path.abspath(desk.from_caller(typed)))
        if path.is_symlink():
            wrong.append(f"{typed} is a link: name the folder itself")
        elif not path.is_dir():
            wrong.append(f"there is no folder {typed}")
        else:
            for entry in everybodys(path) if len(folders) == 1 else [path]:
                whose = named(entry.name)
                if entry != path and not whose:
                    wrong.append(f"whose is {entry.name}, in {typed}?")
                    continue
                name, number, rest = whose or (path.name, "", "")
                key = (name, number) if whose else path
                student = found.setdefault(key, Student(name, path, number))
                collect(student, entry, rest, wanted)
    students = list(found.values())
    names = [s.name for s in students]
    for student in students:
        if names.count(student.name) > 1 or not student.name:
            more = student.number or str(student.folder.parent).strip("/")
            student.name = f"{more}-{student.name}".replace("/", "-")
    return students, wrong


def everybodys(folder: Path) -> list[Path]:
    """What lies in a folder of many students; the folder if it is none.

    Never a student's: who lays a file with a neighbour's name in it would
    hand in for that one.
    """
    _, folders, files = next(os.walk(folder), ("", [], []))
    names = sorted(n for n in [*folders, *files] if not BESIDE.match(n))
    if named(folder.name) or not any(map(named, names)):
        return [folder]
    return [folder / name for name in names]


def named(name: str) -> Whose | None:
    """Whose this is by Moodle's or Canvas's name, and the file's name."""
    match = MOODLE.fullmatch(name) or CANVAS.fullmatch(name)
    return (match[1], match[2], match[3]) if match else None


def collect(
    student: Student, path: Path, rest: str, wanted: Sequence[Exercise]
) -> None:
    """Take what is understood of a file or a folder, note what is not."""
    found: dict[str, list[Path]] = {}
    for entry in [path] if os.path.isfile(path) else walk(path):
        name = rest if entry == path else entry.name
        match = NUMBER.search(name)
        if os.path.isfile(entry) and not name.lower().endswith(".py"):
            match = None  # no program, whatever it is called
        if match:
            found.setdefault(f"0{match[1]}.{match[2]}", []).append(entry)
        elif len(wanted) == 1 and os.path.isfile(entry) and (
            re.sub(r"-\d+(?=\.)", "", name) == wanted[0].file
        ):  # Canvas counts
            found.setdefault(wanted[0].id, []).append(entry)
        elif os.path.islink(entry) or HANDED_IN.fullmatch(name):
            student.unclear.append(shown(student, entry))
    known = {e.id: e for e in exercises.everything()}
    for key, places in found.items():
        if key not in known or key in student.files or len(places) > 1:
            student.unclear += [shown(student, place) for place in places]
            continue
        (file,) = places
        if os.path.isdir(file):
            file /= known[key].file
        if os.path.lexists(file):
            student.files[key] = file
        else:
            student.unclear.append(
                f"{shown(student, file.parent)} (no {file.name} in it)"
            )


def walk(folder: Path) -> Iterator[Path]:
    """What could be handed in: all files, and the folders of exercises.

    Neither links nor folders of exercises are entered.
    """
    for here, folders, files in os.walk(folder):
        inner = {
            name for name in folders
            if not NUMBER.search(name) and not os.path.islink(f"{here}/{name}")
        }
        for name in sorted({*folders, *files} - inner):
            if not BESIDE.match(name):
                yield Path(here, name)
        folders[:] = sorted(n for n in inner if not BESIDE.match(n))


def shown(student: Student, path: Path) -> str:
    """A path as the teacher knows it."""
    return os.path.relpath(path, student.folder)


def which_exercises(
    students: Sequence[Student], wanted: Sequence[Exercise]
) -> list[Exercise]:
    """The exercises that are graded. Raises DeskError if there is none."""
    if not students:
        raise DeskError("there is nobody to grade")
    found = list(wanted) or [
        e for e in exercises.everything()
        if any(e.id in s.files for s in students)
    ]
    if found:
        return found
    raise DeskError(
        "no exercise was found: each folder is one student's, with "
        "02.1/server.py or my/02.1/server.py in it"
        + (f". Did you mean {students[0].folder}/* ?"
           if any(s.unclear for s in students) else "")
    )


class RefusedError(Exception):
    """A file that is not examined; the text says why.

    state: what becomes of it, see `Report`.
    """

    def __init__(self, why: str, state: str = "failed") -> None:
        super().__init__(why)
        self.state = state


def take(student: Student, exercise: Exercise) -> bytes:
    """A student's file, as bytes.

    Raises RefusedError for whatever is not an ordinary file of theirs: a
    link would be followed with our rights.
    """
    path = student.files.get(exercise.id)
    if path is None:
        if question := student.question([exercise]):
            raise RefusedError(question, "unclear")
        raise RefusedError("not handed in", "missing")
    name = shown(student, path)
    for part in (path, *path.parents):
        if part == student.folder:
            break
        if part.is_symlink():
            raise RefusedError(
                f"{shown(student, part)} is a link: hand in the file itself"
            )
    try:
        with open_theirs(path) as file:
            source = file.read(SOURCE_BYTES + 1)
    except OSError as error:
        raise RefusedError(f"{name}: {error.strerror}") from None
    if len(source) > SOURCE_BYTES:
        raise RefusedError(f"{name} is larger than {SOURCE_BYTES // 1024} KB")
    for what, pattern in NO_PROGRAM.items():
        if re.match(pattern, source):
            raise RefusedError(f"not understood: {name} is {what}", "unclear")
    return source
