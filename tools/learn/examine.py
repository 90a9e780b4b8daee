"""Run the tests of an exercise on somebody's file.

The file is copied into a new folder with what it may import, and runs
in another one, where it may write. We never compile it: a few lines can
keep Python's compiler busy for hours. Everything that it starts bears a mark
in its environment, so that nothing of it is left behind.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tools.common.files import lay_out
from tools.common.launch import check_seen
from tools.learn import cage
from tools.learn.cage import READ, WRITTEN
from tools.learn.exercises import Exercise
from tools.servers import ROOT

MARK = "SEVEN_EXAMINED"  # in the environment of all that we start
LONGEST = 300.0  # seconds for all tests of an exercise
LOOK_SECONDS = 0.25  # between two looks at them
Look = Callable[[psutil.Process], str]
CONFIG = Path(__file__).with_name("pytest.ini")


@dataclass
class Outcome:
    """What one test did.

    title: what it wants to see; story: what its clients did; expected
    and came: in words, if it failed; wrote: what the student's program
    wrote meanwhile, its last lines.
    """

    name: str
    title: str
    passed: bool
    seconds: float
    story: list[str] = field(default_factory=list)
    expected: str = ""
    came: str = ""
    wrote: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What all tests of an exercise did: the one record of a submission.

    state: passed or failed; of what was handed in also missing, or unclear
    where it was not understood; total: how many tests there are; trouble:
    why they could not run, or not all of them; "" if they did.
    """

    exercise: str
    title: str
    state: str = "failed"
    outcomes: list[Outcome] = field(default_factory=list)
    total: int = 0
    trouble: str = ""

    @property
    def passed(self) -> bool:
        """Did every test pass?"""
        return self.state == "passed"

    @property
    def tests(self) -> int:
        """How many tests passed."""
        return sum(o.passed for o in self.outcomes)

    @property
    def failures(self) -> list[Outcome]:
        """The tests that failed."""
        return [o for o in self.outcomes if not o.passed]

    @property
    def missing(self) -> str:
        """Why it has not passed, in a line."""
        return self.trouble or "; ".join(o.title for o in self.failures)


def told(outcome: Outcome) -> list[str]:
    """A failure in lines."""
    lines = list(outcome.story)
    if outcome.expected:
        lines.append(f"Expected: {outcome.expected}")
        lines.append(f"But:      {outcome.came}")
    else:
        lines += outcome.came.splitlines()
    return lines


def examine(
    exercise: Exercise,
    path: Path,
    *,
    first_only: bool = False,
    seed: int | None = None,
    longest: float = LONGEST,
    here: bool = False,
    caged: bool = False,
    look: Look = lambda tests: "",
) -> Report:
    """Run the tests of an exercise on the file at path.

    first_only: stop at the first test that fails; seed: for tests that
    throw dice; longest: seconds for all tests; here: in this process, which is
    quicker and has no such limit, for files that we know; caged: see
    `cage`; look: says now and then why the tests have to end, "" if they
    need not. Raises UnseenError where this system shows no processes.
    """
    check_seen()
    report = Report(exercise.id, exercise.title)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        outer = cage.lay_out_place(Path(made))
        beside = {k: v.encode() for k, v in exercise.companions().items()}
        copy = lay_out(
            outer / READ, {**beside, exercise.file: path.read_bytes()},
            [outer / WRITTEN / name for name in exercise.writes],
        ) / exercise.file
        outcomes = Path(made, "outcomes")
        words = [
            "-q", "-c", str(CONFIG), "--rootdir", str(exercise.folder),
            "-p", "no:cacheprovider", "-p", "tools.learn.plugin",
            "--student", str(copy), "--home", str(outer / WRITTEN),
            "--outcomes", str(outcomes), str(exercise.tests),
        ]
        words += ["-x"] if first_only else []
        words += [] if seed is None else ["--seed", str(seed)]
        words += ["--python", json.dumps(cage.python(outer))] * caged
        ended = time.monotonic() + longest

        def look_again(tests: psutil.Process) -> str:
            return look(tests) or (
                f"the tests were ended after {longest:g} s: something waits "
                "for ever" if time.monotonic() > ended else ""
            )

        report.trouble = run_here(words) if here else run_apart(
            words, cage.around(outer) if caged else [], look_again
        )
        with contextlib.suppress(OSError, ValueError):
            first, *lines = outcomes.read_text("utf-8").splitlines()
            report.total = int(first)
            report.outcomes = [Outcome(**json.loads(x)) for x in lines]
    if report.outcomes and not report.missing:
        report.state = "passed"
    return report


def run_here(words: list[str]) -> str:
    """Run pytest in this process; why it did not run to its end, or ""."""
    mark = os.environ[MARK] = uuid.uuid4().hex  # for what it starts, not us
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = pytest.main(words)
    finally:
        del os.environ[MARK]
        end_marked(mark)
    return why_not(status, said.getvalue())


def run_apart(words: list[str], before: list[str], look: Look) -> str:
    """The same in a process of its own; before: words before its command."""
    kept = dict(os.environ)
    if before:  # what starts a cage can be read from inside it
        kept = {k: v for k, v in kept.items() if k in (*cage.KEPT, "TMPDIR")}
    mark = uuid.uuid4().hex
    environment = {
        **kept, MARK: mark, "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    with subprocess.Popen(
        [*before, sys.executable, "-m", "pytest", *words], cwd=ROOT,
        env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as tests:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said, _ = tests.communicate(timeout=LOOK_SECONDS)
                    return why_not(tests.returncode, said)
                if why := look(psutil.Process(tests.pid)):
                    return why
        finally:
            tests.kill()  # with a cage, all that is in it
            end_marked(mark)


def why_not(status: int, said: str) -> str:
    """Why pytest did not run to its end, from its last line; "" if it did."""
    if status in (0, 1):
        return ""
    last = said.strip().splitlines()[-1:]
    return ": ".join(["the tests did not run to their end", *last])


def end_marked(mark: str) -> None:
    """Kill what bears a mark, also what was started while we looked."""
    for _ in range(3):
        found = processes(lambda p: p.environ().get(MARK) == mark)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not found:
            break
        psutil.wait_procs(found, timeout=2)


def processes(
    wanted: Callable[[psutil.Process], bool]
) -> list[psutil.Process]:
    """All processes of which this is true, as far as we may look at them.

    Raises UnseenError.
    """
    check_seen()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if wanted(process):
                found.append(process)
    return found
