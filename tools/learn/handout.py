"""``./learn.sh handout``: the repository for students.

All files that git knows, as they are now, but for what gives the exercises
and the exam away, and for the history, which has had it all.
"""

import argparse
import os
import shutil
import subprocess
from pathlib import Path

from tools.learn import desk
from tools.learn.desk import DeskError
from tools.servers import ROOT

ABOUT = "a copy without solutions, to give to students (for teachers)"
ANSWERS = "docs/teach/exam-answers.md"
TESTS = ("learn/test_exercises.py", "learn/test_grade.py",
         "learn/test_learn.py", "site/test_teach.py",  # need what is left out
         "learn/wrong.toml")  # quotes the solutions
HIDDEN = ("0*_*/exercises/*/solution.py", "0*_*/exercises/*/another.py",
          ANSWERS, *(f"tests/{name}" for name in TESTS))
INSTEAD = """\
---
title: Answers
description: The answers to the exam, which are not part of this copy.
search:
  exclude: true
---

# Answers

They are not part of this copy: ask your teacher.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("folder", metavar="DIR", type=Path,
                        help="a new folder, which this makes")


def run(options: argparse.Namespace) -> int:
    """Make it. Raises DeskError if it cannot be made."""
    folder = desk.from_caller(options.folder).absolute()
    if folder.exists():
        raise DeskError(f"{options.folder} is there already: name a new one")
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True,
            capture_output=True, text=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        raise DeskError(
            "git does not know this folder: make the handout where you have "
            "cloned it"
        ) from None
    names = [Path(name) for name in listed.split("\0") if name]
    given = [n for n in names if not any(map(n.match, HIDDEN))]
    try:
        for name in given:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(ROOT / name):  # not if it is being deleted
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        (folder / ANSWERS).write_text(INSTEAD, "utf-8")
    except OSError as error:
        raise DeskError(
            f"cannot write {options.folder}: {error.strerror}"
        ) from None
    print(f"{len(given)} files are in {options.folder}, without "
          f"{len(names) - len(given)} that you keep. Look at it, then make "
          "a repository of it: git init")
    return 0
