"""``--conformance FILE``: what is written after a run, and when nothing is.

Each test runs pytest in a folder of its own, with our conftest.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.data import rules_seen
from tools.data.rules_seen import Cell
from tools.servers import ROOT

TESTS = """
import pytest

from tools.servers import YES

@pytest.fixture
def broken_before(server):
    assert server.name != "01"

@pytest.fixture
def broken_after(server):
    yield
    assert server.name != "01"

@pytest.mark.rule("help", range(1, 3))
@pytest.mark.parametrize("number", range(3))
def test_help(server, number):
    if server.name == "02" and number:
        pytest.skip("too polite" if number == 1 else "much too polite")

@pytest.mark.rule("nul", range(1, 3))  # 01 is exempt
def test_exempt(server):
    assert server.name not in ("01", "02-sketch")

@pytest.mark.rule("bare-lf", range(1, 3))  # and here it passes
def test_passes_although_exempt(server):
    pass

@pytest.mark.rule("usage", range(1, 3))
def test_setup(server, broken_before):
    pass

@pytest.mark.rule("usage", range(1, 3))
def test_teardown(server, broken_after):
    pass

@pytest.mark.rule("work", range(1, 3))
def test_of_a_program():
    pass

@pytest.mark.lesson("silent")
def test_silent(server, side):
    assert server.lessons["silent"] == YES or side == "below"

def test_something_else():
    pass
"""
RULES_SEEN = {
    "help": {
        "01": Cell(passed=3),
        "02": Cell(passed=1, skipped=2, why=["much too polite", "too polite"]),
    },
    "usage": {"01": Cell(failed=2), "02": Cell(passed=2)},
    "work": {"01": Cell(passed=1), "02": Cell(passed=1)},
    "nul": {"01": Cell(expected=1), "02": Cell(passed=1)},
    "bare-lf": {"01": Cell(failed=1), "02": Cell(passed=1)},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tests, which has a recording of before."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nxfail_strict = true\n")
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_all.py").write_text(TESTS)
    (tmp_path / "seen.json").write_text("old")
    return tmp_path


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Exit status and output of pytest."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin",
         "-p", "no:cacheprovider", *options],
        cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT),
             "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # they take time
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_a_whole_run_is_written_and_can_be_read(folder: Path) -> None:
    """Also one with failures: an error before or after a test is one."""
    status, output = run(folder, "-n", "2", "--conformance=seen.json")
    assert status == 1, output
    assert "seen.json was written." in output
    file = folder / "seen.json"
    found = rules_seen.load(file)
    assert found.rules == RULES_SEEN
    assert list(found.rules["help"]) == ["01", "02"]
    silent = found.lessons["silent"]
    assert silent["01"] == silent["03-pool above"] == Cell(expected=1)
    assert silent["03"] == silent["03-pool below"] == Cell(passed=1)
    totals = {"failed": 3, "expected": 1, "passed": 10, "skipped": 2}
    for cell in silent.values():
        totals["passed"] += cell.passed
        totals["expected"] += cell.expected
    assert found.totals == totals
    text = file.read_text()
    assert str(folder) not in text
    found.save(file)
    assert file.read_text() == text


def test_of_a_sketch_the_tests_that_failed_are_named(folder: Path) -> None:
    status, output = run(folder, "--sketches=seen.json")
    assert status == 0, output
    found = rules_seen.load(folder / "seen.json")
    assert found.rules["nul"] == {
        "01-sketch": Cell(passed=1),
        "02-sketch": Cell(expected=1, why=["test_exempt"]),
    }
    assert rules_seen.broken(found, "02-sketch") == ["nul"]
    assert not rules_seen.broken(found, "01-sketch")


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "words"), [
    (("-k", "help"), "leave out what chooses or stops tests"),
    (("-x",), "leave out what chooses or stops tests"),
    (("test_all.py",), "leave out what chooses or stops tests"),
    (("--conformance=nowhere/seen.json",), "its folder is not there"),
], ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_what_cannot_be_a_whole_run_does_not_begin(
    folder: Path, options: tuple[str, ...], words: str
) -> None:
    status, output = run(folder, "--conformance=seen.json", *options)
    assert status == pytest.ExitCode.USAGE_ERROR, output
    assert words in output and "passed" not in output
    assert (folder / "seen.json").read_text() == "old"


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one", "xdist"])
@pytest.mark.parametrize("broken", ["def test_it(): pytest.exit('enough')",
                                    "import nothing_of_this_name"])
def test_what_was_not_a_whole_run_is_not_written(
    folder: Path, broken: str, options: tuple[str, ...]
) -> None:
    (folder / "test_broken.py").write_text(f"import pytest\n{broken}\n")
    status, output = run(folder, "--conformance=seen.json", *options)
    assert status != 0
    assert "seen.json was not written: the run was interrupted." in output
    assert (folder / "seen.json").read_text() == "old"
