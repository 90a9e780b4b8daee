"""``--conformance FILE``: what is written after a run, and when nothing is.

Each test runs pytest in a folder of its own, with our conftest and two
servers, two rules and one lesson.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tools.data.conformance import Cell

from tests.conformance import command
from tools.common.files import DataError
from tools.data import conformance
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
import tools.data.conformance
tools.data.conformance.LESSONS = tests.conftest.LESSONS
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
    assert {other}
"""
INI = "[pytest]\ntestpaths = tests\naddopts = --strict-markers\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of tests, which has no recording yet."""
    (tmp_path / "pytest.ini").write_text(INI)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    write(tmp_path)
    return tmp_path


def write(folder: Path, old: str = "", new: str = "") -> None:
    """The tests, with something changed; the file must show it."""
    text = TESTS.replace("{other}", "True")
    assert old in text
    text = text.replace(old, new, 1) if old else text
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
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def seen(folder: Path) -> conformance.Conformance:
    return conformance.load(folder / "seen.json")


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_whole_run_is_written(
    folder: Path, options: tuple[str, ...]
) -> None:
    status, output = run(folder, *options)
    assert status == 0, output
    assert "seen.json was written." in output
    found = seen(folder)
    assert found.rules == {
        "polite": {
            "one": Cell(passed=3),
            "two": Cell(
                passed=1, skipped=2, why=["much too polite", "too polite"]
            ),
        },
        "strict": {"one": Cell(expected=1), "two": Cell(passed=1)},
    }
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
    assert str(folder) not in (folder / "seen.json").read_text()


def test_failures_are_written(folder: Path) -> None:
    write(folder, 'assert server.name == "two"', "assert False")
    status, output = run(folder, "-n", "2")
    assert status == 1 and "seen.json was written." in output
    found = seen(folder)
    assert found.rules["strict"]["two"] == Cell(failed=1)
    assert found.rules["strict"]["one"] == Cell(expected=1)
    assert found.totals["failed"] == 1


def test_who_does_more_than_the_list_says_has_failed(folder: Path) -> None:
    write(folder, 'assert server.name == "two"', "assert server")
    status, output = run(folder)
    assert status == 1 and "seen.json was written." in output
    assert seen(folder).rules["strict"]["one"] == Cell(failed=1)
    assert seen(folder).rules["strict"]["one"].outcome == conformance.FAILED


def test_an_error_before_or_after_a_test_is_a_failure(folder: Path) -> None:
    fixture = (
        "@pytest.fixture(autouse=True)\n"
        "def broken(request):\n"
        "    name = request.node.name\n"
        "    assert name != 'test_polite[one-0]'\n"
        "    yield\n"
        "    assert name != 'test_polite[one-1]'\n\n"
    )
    write(folder, "@pytest", f"{fixture}@pytest")
    status, _ = run(folder)
    assert status == 1
    assert seen(folder).rules["polite"]["one"] == Cell(passed=1, failed=2)


def test_other_failures_count_in_the_totals_only(folder: Path) -> None:
    write(folder, "assert True", "assert False")
    status, output = run(folder)
    assert status == 1 and "seen.json was written." in output
    found = seen(folder)
    assert found.totals["failed"] == 1
    assert not any(
        cell.failed
        for cells in [*found.rules.values(), *found.lessons.values()]
        for cell in cells.values()
    )


def test_a_test_without_a_server_counts_for_its_steps(folder: Path) -> None:
    write(
        folder, "def test_something",
        '@pytest.mark.rule("polite", range(2, 3))\ndef test_something',
    )
    status, output = run(folder)
    assert status == 0, output
    assert seen(folder).rules["polite"]["one"].passed == 3
    assert seen(folder).rules["polite"]["two"].passed == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-k", "polite"), "leave out -k"),
        (("-m", "rule"), "leave out -m"),
        (("--deselect", "tests/test_all.py::test_strict"), "--deselect"),
        (("--ignore", "tests/test_all.py"), "leave out --ignore"),
        (("--collect-only",), "leave out --collect-only"),
        (("tests/test_all.py",), "name no tests"),
        (("--server=pytest.ini",), "leave out --server"),
        (("--conformance=nowhere/seen.json",), "its folder is not there"),
        (("--conformance=tests",), "cannot write tests: it is a folder"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_a_whole_run_does_not_begin(
    folder: Path, options: tuple[str, ...], words: str
) -> None:
    (folder / "seen.json").write_text("old")
    status, output = run(folder, *options)
    assert status == 4, output
    assert words in output and "passed" not in output
    assert (folder / "seen.json").read_text() == "old"


@pytest.mark.parametrize(
    ("old", "new", "options", "words"),
    [
        ('== "below"', '== "above"', ("-x",),
         r"\d+ of 12 tests did not come to their end"),
        ('== "below"', '== "above"', ("-x", "-n", "2"),
         r"\d+ of 12 tests did not|the run was interrupted"),
        ('@pytest.mark.rule("strict", range(1, 8))', "", (),
         "the run has nothing about the rule 'strict'"),
        ("def test_polite(", "def polite(", (),
         "the run has nothing about the rule 'polite'"),
        ("def test_silent", "def silent", (),
         "the run has nothing about the lesson 'silent' for one"),
        ("import pytest\n", "import nothing_of_this_name\n", (),
         "the run was interrupted|nothing about the rule"),
    ],
)  # fmt: skip
def test_what_was_not_a_whole_run_is_not_written(
    folder: Path, old: str, new: str, options: tuple[str, ...], words: str
) -> None:
    (folder / "seen.json").write_text("old")
    write(folder, old, new)
    status, output = run(folder, *options)
    assert status != 0
    assert re.search(f"seen.json was not written: (?:{words})", output), (
        output
    )
    assert [p.name for p in folder.glob("seen*")] == ["seen.json"]
    assert (folder / "seen.json").read_text() == "old"


def test_an_interrupted_run_is_not_written(folder: Path) -> None:
    (folder / "seen.json").write_text("old")
    write(
        folder, "assert True",
        "not __import__('pathlib').Path('begun').touch()\n"
        "    __import__('time').sleep(60)",
    )
    process = start(folder, "-n", "2")
    until = time.monotonic() + 60
    while not (folder / "begun").exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "seen.json was not written: the run was interrupted." in output
    assert (folder / "seen.json").read_text() == "old"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o500)
    status, output = run(folder, "--conformance=closed/seen.json")
    assert status == 1
    assert "was not written: the system says: Permission denied." in output


def test_the_command_is_as_typed_and_names_no_folder_of_ours() -> None:
    begin = ("-n", "4", "--no-loadscope-reorder")
    file = f"--conformance={ROOT}/docs/data/conformance.json"
    assert command((*begin, file)) == (
        "./test.sh --conformance docs/data/conformance.json"
    )
    assert command((*begin, "-v", "--conformance=/home/me/x y.json")) == (
        "./test.sh -v --conformance 'x y.json'"
    )
    assert command((file,)) == (
        "python -m pytest --conformance docs/data/conformance.json"
    )


def test_test_sh_sees_paths_as_the_caller_does(tmp_path: Path) -> None:
    """The folder is not there, so that nothing runs."""
    for given in (
        ["--conformance", "nowhere/seen.json"],
        ["--conformance=nowhere/seen.json"],
        ["--conformance", f"{tmp_path}/nowhere/seen.json"],
    ):
        done = subprocess.run(
            [ROOT / "test.sh", *given], cwd=tmp_path,
            capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == 4, done.stdout + done.stderr
        assert (
            f"cannot write {tmp_path}/nowhere/seen.json: its folder is not "
            "there." in done.stderr
        )
    done = subprocess.run(
        [ROOT / "test.sh", "--conformance"], cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 2
    assert "--conformance needs a value" in done.stderr


def test_a_file_can_be_read_again(folder: Path) -> None:
    run(folder)
    found = seen(folder)
    text = (folder / "seen.json").read_text()
    assert conformance.to_json(found) == text
    assert max(map(len, text.splitlines())) < 1000
    data: dict[str, Any] = json.loads(text)
    data["schema"] = 0
    (folder / "seen.json").write_text(json.dumps(data))
    with pytest.raises(DataError, match="schema 0, this version reads"):
        seen(folder)
    for broken in ("", "[]", '{"schema": 1, "rules": 3}'):
        (folder / "seen.json").write_text(broken)
        with pytest.raises(DataError, match="not a recorded test run"):
            seen(folder)
    (folder / "seen.json").unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        seen(folder)
