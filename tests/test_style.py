"""Style and types of everything that is Python here."""

import shutil
import subprocess
import sys
from pathlib import Path

from tools.learn import exercises
from tools.servers import ROOT


def check(*command: str, where: Path = ROOT) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=where, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_ruff() -> None:
    check("ruff", "check", "--quiet", ".")


def test_types_of_tools_and_tests() -> None:
    check("mypy", "tools", "tests")


def test_types_of_servers() -> None:
    # One by one, as they run: most of them have the same name.
    config = ("--config-file", str(ROOT / "pyproject.toml"))
    cache = ("--cache-dir", str(ROOT / ".mypy_cache" / "servers"))
    for path in sorted(ROOT.glob("0[1-7]_*/*.py")):
        check("mypy", *config, *cache, path.name, where=path.parent)


def test_types_of_exercises(tmp_path: Path) -> None:
    # In one go, under names of their own, beside what they import. Not
    # the starters: types may be what is wrong with one.
    for each in exercises.everything():
        for name, text in each.companions().items():
            (tmp_path / name).write_text(text)
        for path in (each.solution, each.another, each.tests):
            if path:
                name = f"ex_{each.id.replace('.', '_')}_{path.name}"
                shutil.copyfile(path, tmp_path / name)
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    config = ("--config-file", str(ROOT / "pyproject.toml"))
    cache = ("--cache-dir", str(ROOT / ".mypy_cache" / "exercises"))
    names = sorted(path.name for path in tmp_path.glob("ex_*.py"))
    check("mypy", *config, *cache, *names, where=tmp_path)
