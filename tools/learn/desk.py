"""A student's desk: the folder my/, and what is noted there.

my/03.2/ holds the student's copy of an exercise, my/.progress.json what
was passed, tried and hinted. Nothing a student wrote is ever overwritten.
"""

import contextlib
import dataclasses
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path

from tools.common.files import save, save_json
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


def place(exercise: Exercise) -> Path:
    """The student's folder of an exercise."""
    return MY / exercise.id


def is_begun(exercise: Exercise) -> bool:
    """Has the student a file for it?"""
    return (place(exercise) / exercise.file).is_file()


def own_file(exercise: Exercise) -> Path:
    """The student's file. Raises DeskError if it is not there yet."""
    path = place(exercise) / exercise.file
    if not is_begun(exercise):
        raise DeskError(
            f"there is no {shown(path)} yet: ./learn.sh start {exercise.id}"
        )
    return path


def shown(path: Path) -> str:
    """A path as a student would type it."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def from_caller(path: Path) -> Path:
    """A path that was typed, seen from where it was typed."""
    return Path(os.environ.get("SEVEN_CALLER", ""), path)


def check_folder(typed: Path) -> None:
    """Raises DeskError if this file could not be written."""
    if not from_caller(typed).absolute().parent.is_dir():
        raise DeskError(f"cannot write {typed}: there is no such folder")


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


def ours(exercise: Exercise) -> dict[str, str]:
    """What lies in the student's folder at the start: name -> text."""
    task = f"# {exercise.id} {exercise.title}\n\n{exercise.task}\n"
    starter = exercise.starter.read_text("utf-8")
    return {
        exercise.file: starter, "task.md": task, **exercise.companions()
    }


def start(exercise: Exercise) -> list[str]:
    """Lay out the starter and what belongs to it, as far as it is missing.

    The names of the files that were there and have been changed.
    """
    folder = place(exercise)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ours(exercise).items():
        if not (folder / name).exists():
            (folder / name).write_text(text, "utf-8")
    return changed(exercise)


def changed(exercise: Exercise) -> list[str]:
    """The files that are no longer what they were at the start."""
    folder = place(exercise)
    return [
        name for name, text in ours(exercise).items()
        if not (folder / name).is_file()
        or (folder / name).read_bytes() != text.encode()
    ]


def reset(exercise: Exercise) -> Path:
    """All as at the start; the folder where all that was there is kept."""
    folder = own_file(exercise).parent
    had = [path for path in folder.iterdir() if path.is_file()]
    names = (folder / f"before-{number}" for number in itertools.count(1))
    kept = next(path for path in names if not path.exists())
    kept.mkdir()
    for path in had:
        path.rename(kept / path.name)
    start(exercise)
    return kept


def changed_at(exercise: Exercise) -> float:
    """When the student's file was saved last; 0 if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return (place(exercise) / exercise.file).stat().st_mtime
    return 0
