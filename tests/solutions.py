"""The exercises' solutions as servers: they keep the contract, too.

Each with a few rules of everything, and with those (and the lessons) that
its exercise is about. ``./test.sh --server`` tries all of them.
"""

import atexit
import functools
import shutil
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

from tools.learn import exercises
from tools.learn.exercises import Exercise
from tools.servers import Server, by_name

COMMON = (
    "page", "head", "not-found", "not-allowed", "pieces", "half-close",
    "no-host", "stop", "stop-finishes", "reset",
)  # fmt: skip
KEEPING = ("keep-11", "close-11", "keep-10", "close-10", "pipelining")
# What a later exercise is about: 01.2 knows other paths and methods, and
# 06.5 lets those who are being served have their response at the end.
SPARED = {
    "01.1": ("head", "not-found", "not-allowed", "pieces", "half-close"),
    **dict.fromkeys(("06.1", "06.2", "06.3", "06.4"), ("stop-finishes",)),
}
TOUCHED = {
    "01.2": ("not-implemented", "errors", "options"),
    "02.1": ("bytewise", "empty-line", "pipelining"),
    "02.2": ("many-fields", "limit-at-once"),
    "02.3": ("never-mixed", "close-11"),
    "02.4": ("body", "expect", "whole-refusal", "drain-ends"),
    "03.1": (*KEEPING, "keep_alive"),
    "03.2": ("silent", "overlap", "threads"),
    "03.3": ("overlap", "threads"),  # silent: the newest do not wait
    "03.4": ("never-mixed", "overlap"),
    "03.5": (*KEEPING, "silent", "overlap"),
    "03.6": (*KEEPING, "silent", "overlap"),
    "04.1": ("pipelining", "whole-refusal", "silent"),
    "04.3": ("never-mixed", "silent"),
    "05.1": ("never-mixed", "overlap"),
    "05.2": ("work", "overlap", "threads"),
    "05.3": (*KEEPING, "stop-open", "overlap"),
    "06.1": ("work", "overlap"),
    "06.2": ("work", "overlap"),
    "06.3": ("keep-11", "silent"),
    "06.4": ("pipelining", "never-mixed", "whole-refusal"),
    "06.5": ("stop-open", "stop-refuses", "stop-twice"),
    "06.6": ("work", "overlap", "threads"),
    "06.7": ("never-mixed", "stop-open", "overlap"),
    "07.1": ("ready-line", "port-in-use", "never-mixed"),
    "07.2": ("never-mixed", "stop-open", "stop-twice", "restart"),
    "07.3": (*KEEPING, "body", "never-mixed", "overlap", "silent"),
}


@dataclass(frozen=True)
class Solution(Server):
    """A solution, laid out with what it imports when it is first run."""

    exercise: Exercise | None = None

    @property
    def path(self) -> Path:
        """The copy of the solution's file."""
        assert self.exercise
        return laid_out(self.exercise)

    def keeps(self, name: str) -> bool:
        """Is this rule or lesson tried?"""
        if name in SPARED.get(self.name, ()):
            return False
        return name in COMMON or name in TOUCHED.get(self.name, ())


@functools.cache
def laid_out(exercise: Exercise) -> Path:
    """The solution in a folder of its own, which goes when we end."""
    folder = Path(tempfile.mkdtemp(prefix="solution-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in exercise.companions().items():
        (folder / name).write_text(text, "utf-8")
    return Path(shutil.copyfile(exercise.solution, folder / exercise.file))


@functools.cache
def solutions() -> tuple[Solution, ...]:
    """All solutions that are servers."""
    found = []
    for each in exercises.everything():
        if each.like and each.solution.exists():  # not in a handout
            like = by_name(each.like)
            same = {f.name: getattr(like, f.name) for f in fields(like)}
            same |= {"name": each.id, "title": f"solution of {each.title}",
                     "file": str(each.solution)}  # fmt: skip
            found.append(Solution(**same, exercise=each))
    return tuple(found)
