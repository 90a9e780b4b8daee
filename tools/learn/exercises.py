"""The exercises on disk: NN_name/exercises/N_name/.

Each folder has a task.md, whose head (YAML between two lines of ``---``)
says what it is called and how long it takes, a starter.py, a solution.py
and a test_NAME.py. A task ends with its hints, each below a heading
``## Hint``.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tools.servers import ROOT

# What a step's servers share. Beside an exercise that is a server stands
# the first, and of the others what a file of the exercise imports.
WEB, *FAMILIES = ("web.py", "accepting.py", "clients.py", "lifecycle.py")
HINT = re.compile(r"^## Hint\b.*\n", re.MULTILINE)
KEYS = {"title", "minutes", "read", "file", "beside", "writes", "like"}


class ExerciseError(Exception):
    """An exercise that does not exist or is not complete."""


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    id: what students type, as in 02.1; folder: where it is; title: a few
    words; minutes: a student needs about so long; read: page of the site
    and section that explain it, as in ``steps/02_sockets.md#blocking``;
    file: what the student's copy of the starter is called; beside: files
    of the exercise, of the folder of exercises or of its step that are put
    beside it; writes: files that it writes beside itself; like: the server
    of `tools.servers` whose contract and lessons the solution keeps, "" if
    it is no server; task: its text in Markdown; hints: likewise.
    """

    id: str
    folder: Path
    title: str
    minutes: int
    read: str
    file: str
    beside: tuple[str, ...]
    writes: tuple[str, ...]
    like: str
    task: str
    hints: tuple[str, ...]

    @property
    def step(self) -> int:
        """The number of the step it belongs to."""
        return int(self.id.partition(".")[0])

    @property
    def name(self) -> str:
        """The folder's name without its number."""
        return self.folder.name.partition("_")[2]

    @property
    def starter(self) -> Path:
        """What a student begins with."""
        return self.folder / "starter.py"

    @property
    def solution(self) -> Path:
        """One way to do it."""
        return self.folder / "solution.py"

    @property
    def another(self) -> Path | None:
        """Another way to do it, if there is one."""
        path = self.folder / "another.py"
        return path if path.exists() else None

    @property
    def tests(self) -> Path:
        """What the student's file has to pass."""
        return self.folder / f"test_{self.name}.py"

    @property
    def messages(self) -> Path:
        """What the tests say about the starter, as recorded."""
        return self.folder / "messages.txt"

    def companions(self) -> dict[str, str]:
        """The files that a student's file may import: name -> text."""
        (step,) = ROOT.glob(f"{self.step:02}_*")
        found = {}
        for name in self.beside:
            near = (self.folder / name, self.folder.parent / name, step / name)
            path = next((p for p in near if p.exists()), near[0])
            found[name] = path.read_text("utf-8")
        if not self.like:
            return found
        ours = (self.starter, self.solution, self.another)
        texts = [p.read_text("utf-8") for p in ours if p and p.exists()]
        texts += found.values()
        if not self.solution.exists():  # a handout: it may import any
            texts += [f"import {f.removesuffix('.py')}" for f in FAMILIES
                      if (step / f).exists()]
        shared = [WEB, *(f for f in FAMILIES if imports(f, texts))]
        return {f: (step / f).read_text("utf-8") for f in shared} | found


def imports(file: str, texts: list[str]) -> bool:
    """Does one of these texts import this file?"""
    module = re.escape(file.removesuffix(".py"))
    found = re.compile(rf"^(?:from|import) {module}\b", re.MULTILINE)
    return any(map(found.search, texts))


@functools.cache
def everything() -> tuple[Exercise, ...]:
    """All exercises, in the order of their ids.

    Raises ExerciseError for a folder that is not complete.
    """
    tasks = ROOT.glob("0*_*/exercises/[0-9]_*/task.md")
    return tuple(read(task.parent) for task in sorted(tasks))


def read(folder: Path) -> Exercise:
    """The exercise in a folder. Raises ExerciseError."""
    path = folder / "task.md"
    try:
        _, head, text = path.read_text("utf-8").split("---\n", 2)
    except (OSError, ValueError):
        raise ExerciseError(f"{path} has no head") from None
    found: dict[str, Any] = yaml.safe_load(head) or {}
    if unknown := set(found) - KEYS:
        raise ExerciseError(f"{path}: what is {sorted(unknown)}?")
    task, *hints = HINT.split(text)
    step = folder.parent.parent.name[:2]
    try:
        return Exercise(
            id=f"{step}.{folder.name.partition('_')[0]}",
            folder=folder,
            title=str(found["title"]),
            minutes=int(found["minutes"]),
            read=str(found["read"]),
            file=str(found.get("file", "server.py")),
            beside=tuple(found.get("beside", ())),
            writes=tuple(found.get("writes", ())),
            like=str(found.get("like", "")),
            task=task.strip(),
            hints=tuple(hint.strip() for hint in hints),
        )
    except KeyError as error:
        raise ExerciseError(f"{path} does not say its {error}") from None


def by_id(word: str) -> Exercise:
    """The exercise with this id; 2.1 and the name will do as well.

    Raises ExerciseError with a sentence if there is none.
    """
    wanted = word.strip().rstrip("/").rpartition("/")[2]
    if re.fullmatch(r"[0-9]\.[0-9]", wanted):
        wanted = f"0{wanted}"
    for exercise in everything():
        if wanted in (exercise.id, exercise.name):
            return exercise
    raise ExerciseError(
        f"there is no exercise {word!r}; ./learn.sh list names them"
    )
