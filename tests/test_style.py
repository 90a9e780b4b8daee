"""Style and types of everything that is Python here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.learn import exercises
from tools.servers import ROOT

# Files that run alone have the same names in many folders. Here they stand
# side by side under names of their own; what they import keeps its name.
# The folder is a part of the kept cache.
FLAT = ROOT / ".mypy_cache" / "flat"


def check(*command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": str(FLAT)},
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_ruff() -> None:
    check("ruff", "check", "--quiet", ".")


def flat() -> list[str]:
    """Servers and solutions (not the starters) as one folder."""
    found = {"links.py": (ROOT / "labs/frames/links.py").read_text("utf-8")}
    for path in ROOT.glob("0*_*/*.py"):
        if path.name == "sketch.py":  # to be typed in: without types
            continue
        if path.parent.name.startswith("07"):
            found[path.name] = path.read_text("utf-8")  # import each other
        else:
            found[f"step_{path.parent.name[:2]}_{path.name}"] = (
                path.read_text("utf-8")
            )
    for each in exercises.everything():
        found |= each.companions()
        for part in (each.solution, each.another, each.tests):
            if part and part.exists():  # not in a handout
                name = f"ex_{each.id.replace('.', '_')}_{part.name}"
                found[name] = part.read_text("utf-8")
    shutil.rmtree(FLAT, ignore_errors=True)
    FLAT.mkdir(parents=True)
    for name, text in found.items():
        Path(FLAT, name).write_text(text, "utf-8")
    return [str(FLAT / name) for name in found if name.endswith(".py")]


@pytest.mark.thorough
def test_types() -> None:
    check("mypy", "tools", "labs", "tests", *flat())
