"""A student's desk: the folder my/, and what is noted there.

my/03.2/ holds the student's copy of an exercise, my/.progress.json what
was passed, tried and hinted. Nothing a student wrote is ever overwritten.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tools.common.files import save, save_json
from tools.learn import exercises
from tools.learn.exercises import Exercise
from tools.servers import ROOT

MY = Path(os.environ.get("SEVEN_MY", ROOT / "my"))


class DeskError(Exception):
    """What a student asked for cannot be done; the text says why."""


@dataclass
class Note:
    """What is known of one exercise.

    passed: when it was first passed, as in 2026-11-21 16:30, "" if not
    yet; tries: how often it was checked; hints: how many were shown;
    given_up: the solution was shown before it was passed.
    """

    passed: str = ""
    tries: int = 0
    hints: int = 0
    given_up: bool = False


def use(typed: Path) -> None:
    """Take the exercises of this folder, and its my/. Raises DeskError."""
    global MY
    folder = from_caller(typed).absolute()
    if not exercises.all_in(folder):
        raise DeskError(
            f"no exercises are in {typed}, as 02_mine/exercises/1_first/"
        )
    exercises.home, MY = folder, folder / "my"


def place(exercise: Exercise) -> Path:
    """The student's folder of an exercise."""
    return MY / exercise.id


def own_file(exercise: Exercise) -> Path:
    """The student's file. Raises DeskError if it is not there yet."""
    path = place(exercise) / exercise.file
    if not path.is_file():
        raise DeskError(
            f"there is no {shown(path)} yet: ./learn.sh start {exercise.id}"
        )
    return path


def shown(path: Path) -> str:
    """A path as a student would type it."""
    with contextlib.suppress(ValueError):
        return str(path.relative_to(ROOT))
    return str(path)


def from_caller(path: Path) -> Path:
    """A path that was typed, seen from where it was typed."""
    return Path(os.environ.get("SEVEN_CALLER", ""), path)


def write(typed: Path, text: str) -> None:
    """Write a file that was named. Raises DeskError."""
    try:
        save(from_caller(typed), text)
    except OSError as error:
        raise DeskError(f"cannot write {typed}: {error.strerror}") from None


def notes() -> dict[str, Note]:
    """What is known of the exercises, by id; {} if nothing is."""
    path = MY / ".progress.json"
    try:
        found = json.loads(path.read_text("utf-8"))
        return {k: Note(**v) for k, v in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError):
        raise DeskError(
            f"{shown(path)} cannot be read; remove it to begin anew (your "
            "files stay)"
        ) from None


def note(exercise: Exercise) -> Note:
    """What is known of one exercise."""
    return notes().get(exercise.id, Note())


def keep(exercise: Exercise, changed: Note) -> None:
    """Keep what is known of an exercise, the whole or not at all."""
    found = {**notes(), exercise.id: changed}
    text = {k: dataclasses.asdict(v) for k, v in sorted(found.items())}
    save_json(MY / ".progress.json", text)


def start(exercise: Exercise) -> bool:
    """Lay out the starter and what belongs to it; False if it was there.

    The student's own file is left alone, the others are put right.
    """
    folder = place(exercise)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in exercise.companions().items():
        (folder / name).write_text(text, "utf-8")
    task = f"# {exercise.id} {exercise.title}\n\n{exercise.task}\n"
    (folder / "task.md").write_text(task, "utf-8")
    own = folder / exercise.file
    if own.exists():
        return False
    shutil.copyfile(exercise.starter, own)
    return True


def changed(exercise: Exercise) -> list[str]:
    """The files beside the student's that are no longer what they were."""
    folder = place(exercise)
    return [
        name for name, text in exercise.companions().items()
        if not (folder / name).is_file()
        or (folder / name).read_bytes() != text.encode()
    ]


def reset(exercise: Exercise) -> Path:
    """The starter again; the student's file is kept. Its new path."""
    own = own_file(exercise)
    stem = f"{own.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (f"{stem}{n or ''}{own.suffix}" for n in itertools.count(0, -1))
    backup = next(
        path for path in map(own.with_name, names) if not path.exists()
    )
    own.rename(backup)
    start(exercise)
    return backup


def changed_at(exercise: Exercise) -> float:
    """When the student's file was saved last; 0 if there is none."""
    own = place(exercise) / exercise.file
    return own.stat().st_mtime if own.is_file() else 0
