"""Style and types of everything that is Python here."""

import subprocess
import sys
from pathlib import Path

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
