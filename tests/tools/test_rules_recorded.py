"""``--conformance FILE``: what is written after a run, and when nothing is.

Each test runs pytest in a folder of its own, with our conftest and two
servers, two rules and one lesson.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import FIXED, command
from tools.common.launch import eventually
from tools.data import rules_seen
from tools.data.rules_seen import Cell
from tools.servers import ROOT

CONFTEST = """
import tests.conformance
import tests.conftest
import tools.servers
from tests.conftest import *
from tools.rules import Rule
from tools.servers import Server

ONE = Server(
    "one", 1, "one.py", "", "", {"silent": "no"},
    exempt=(("strict", "it is as lenient as can be"),),
)
TWO = Server("two", 2, "two.py", "", "", {"silent": "up to the pool"})
for module in (tests.conftest, tests.conformance, tools.servers):
    module.SERVERS = (ONE, TWO)
    module.LESSONS = {"silent": "silent ones hold up nobody"}
for module in (tests.conftest, tests.conformance):
    module.RULES = {
        name: Rule("", "", "") for name in ("polite", "strict")
    }
import tools.data.rules_seen
tools.data.rules_seen.LESSONS = tests.conftest.LESSONS
"""
TESTS = """
import pytest

from tests.conftest import Server

@pytest.mark.rule("polite", range(1, 8))
@pytest.mark.parametrize("number", range(3))
def test_polite(server, number):
    if server.name == "two" and number:
        pytest.skip("too polite" if number == 1 else "much too polite")

@pytest.mark.rule("strict", range(1, 8))
def test_strict(server):
    assert server.name == "two"

@pytest.mark.lesson("silent")
def test_silent(server, side):
    assert side == "below"

def test_something_else():
    assert True
"""
INI = "[pytest]\ntestpaths = tests\naddopts = --strict-markers\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tests, which has a recording of before."""
    (tmp_path / "pytest.ini").write_text(INI)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / "test_all.py").write_text(TESTS)
    (tmp_path / "seen.json").write_text("old")
    return tmp_path


def write(folder: Path, *changes: tuple[str, str]) -> None:
    """Change something in the tests; the file must show it."""
    text = TESTS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "tests" / "test_all.py").write_text(text)


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take time
    }
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin",
         "-p", "no:cacheprovider", "--conformance=seen.json", *options],
        cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Exit status and output of pytest."""
    process = start(folder, *options)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def seen(folder: Path) -> rules_seen.Conformance:
    return rules_seen.load(folder / "seen.json")


AS_ALWAYS = {  # rule, server -> cell
    ("polite", "one"): Cell(passed=3),
    ("polite", "two"): Cell(
        passed=1, skipped=2, why=["much too polite", "too polite"]
    ),
    ("strict", "one"): Cell(expected=1),
    ("strict", "two"): Cell(passed=1),
}


def by_rule(cells: dict[tuple[str, str], Cell]) -> rules_seen.Table:
    return {
        rule: {name: cells[rule, name] for name in ("one", "two")}
        for rule in ("polite", "strict")
    }


def test_a_whole_run_is_written_and_can_be_read(folder: Path) -> None:
    status, output = run(folder, "-n", "2")
    assert status == 0, output
    assert "seen.json was written." in output
    found = seen(folder)
    assert found.rules == by_rule(AS_ALWAYS)
    assert found.lessons == {"silent": {
        "one": Cell(expected=1),
        "two above": Cell(expected=1),
        "two below": Cell(passed=1),
    }}
    assert list(found.rules["polite"]) == ["one", "two"]
    assert found.totals == {
        "passed": 7, "failed": 0, "expected": 3, "skipped": 2,
    }  # fmt: skip
    assert found.command.startswith("python -m pytest -p xdist.plugin")
    assert found.machine.cores >= 1 and found.machine.python
    assert re.fullmatch(r"(?:[0-9a-f]{12,}\+?)?", found.commit)
    file = folder / "seen.json"
    text = file.read_text()
    assert str(folder) not in text
    assert max(map(len, text.splitlines())) < 1000
    found.save(file)
    assert file.read_text() == text


FAILING = [
    # What is changed in the tests, and what is written then: rule,
    # server, cell; the others are as always.
    [('assert server.name == "two"', "assert False",
      {("strict", "two"): Cell(failed=1)}),
     # An error before or after a test is a failure.
     ("@pytest", "@pytest.fixture(autouse=True)\n"
      "def broken(request):\n"
      "    name = request.node.name\n"
      "    assert name != 'test_polite[one-0]'\n"
      "    yield\n"
      "    assert name != 'test_polite[one-1]'\n\n@pytest",
      {("polite", "one"): Cell(passed=1, failed=2)}),
     # Others count in the totals only.
     ("assert True", "assert False", {})],
    # Who does more than the list says has failed.
    [('assert server.name == "two"', "assert server",
      {("strict", "one"): Cell(failed=1)}),
     # A test without a server counts for its steps; this one passes.
     ("def test_something",
      '@pytest.mark.rule("polite", range(2, 3))\ndef test_something',
      {("polite", "two"): Cell(
          passed=2, skipped=2, why=["much too polite", "too polite"])})],
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("changes", FAILING, ids=["fails", "passes"])
def test_failures_are_written(
    folder: Path, changes: list[tuple[str, str, dict[Any, Cell]]]
) -> None:
    write(folder, *[(old, new) for old, new, _ in changes])
    status, output = run(folder)
    assert status == 1
    assert "seen.json was written." in output
    found = seen(folder)
    wanted = AS_ALWAYS | {k: c for row in changes for k, c in row[2].items()}
    assert found.rules == by_rule(wanted)
    others = "assert True" in str(changes)
    assert found.totals["failed"] == others + sum(
        cell.failed for cell in wanted.values()
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("options", "words"), [
    (("-k", "polite"), "leave out -k"),
    (("--deselect", "tests/test_all.py::test_strict"), "--deselect"),
    (("tests/test_all.py",), "name no tests"),
    (("--server=pytest.ini",), "leave out --server"),
    (("--conformance=nowhere/seen.json",), "its folder is not there"),
    (("--conformance=tests",), "cannot write tests: it is a folder"),
], ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_what_cannot_be_a_whole_run_does_not_begin(
    folder: Path, options: tuple[str, ...], words: str
) -> None:
    status, output = run(folder, *options)
    assert status == 4, output
    assert words in output and "passed" not in output
    assert (folder / "seen.json").read_text() == "old"


@pytest.mark.thorough
@pytest.mark.parametrize(("old", "new", "options", "words"), [
    ('== "below"', '== "above"', ("-x",),
     r"\d+ of 12 tests did not come to their end"),
    ('== "below"', '== "above"', ("-x", "-n", "2"),
     r"\d+ of 12 tests did not|the run was interrupted"),
    ('@pytest.mark.rule("strict", range(1, 8))', "", (),
     "the run has nothing about the rule 'strict'"),
    ("def test_silent", "def silent", (),
     "the run has nothing about the lesson 'silent' for one"),
    ("import pytest\n", "import nothing_of_this_name\n", (),
     "the run was interrupted|nothing about the rule"),
])
def test_what_was_not_a_whole_run_is_not_written(
    folder: Path, old: str, new: str, options: tuple[str, ...], words: str
) -> None:
    write(folder, (old, new))
    status, output = run(folder, *options)
    assert status != 0
    assert re.search(f"seen.json was not written: (?:{words})", output), (
        output
    )
    assert [p.name for p in folder.glob("seen*")] == ["seen.json"]
    assert (folder / "seen.json").read_text() == "old"


@pytest.mark.thorough
def test_an_interrupted_run_is_not_written(folder: Path) -> None:
    write(folder, (
        "assert True",
        "not __import__('pathlib').Path('begun').touch()\n"
        "    __import__('time').sleep(60)",
    ))
    process = start(folder, "-n", "2")
    assert eventually((folder / "begun").exists, 120)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "seen.json was not written: the run was interrupted." in output
    assert (folder / "seen.json").read_text() == "old"


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_file_that_cannot_be_written(folder: Path) -> None:
    status, output = run(folder, "--conformance=/proc/seen.json")
    assert status == 1
    assert "seen.json was not written: the system says: " in output


def test_the_command_is_as_typed_and_names_no_folder_of_ours() -> None:
    file = f"--conformance={ROOT}/docs/data/conformance.json"
    assert command((*FIXED, file)) == (
        "./test.sh --conformance docs/data/conformance.json"
    )
    assert command(("-n", "4", *FIXED[2:], "-x")) == "./test.sh -x"
    assert command((*FIXED, "-v", "--conformance=/home/me/x y.json")) == (
        "./test.sh -v --conformance 'x y.json'"
    )
    assert command((file,)) == (
        "python -m pytest --conformance docs/data/conformance.json"
    )


@pytest.mark.thorough
def test_test_sh_sees_paths_as_the_caller_does(tmp_path: Path) -> None:
    """The folder is not there, so that nothing runs."""
    file = f"{tmp_path}/nowhere/seen.json"
    no_folder = f"cannot write {file}: its folder is not there."
    for given, status, words in (
        (["--conformance", "nowhere/seen.json"], 4, no_folder),
        (["--conformance=nowhere/seen.json"], 4, no_folder),
        (["--conformance", file], 4, no_folder),
        (["--conformance"], 2, "--conformance needs a value"),
    ):
        done = subprocess.run(
            [ROOT / "test.sh", *given], cwd=tmp_path,
            capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == status, done.stdout + done.stderr
        assert words in done.stderr
