"""Run the tests of an exercise on somebody's file.

The file is copied into a new folder with what it may import, and runs
in another one, where it may write. Everything that it starts bears a mark
in its environment, so that nothing of it is left behind.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tools.common.files import lay_out
from tools.common.launch import check_seen
from tools.learn.exercises import Exercise
from tools.learn.limited import KEPT
from tools.learn.source import check_source
from tools.servers import ROOT

MARK = "SEVEN_EXAMINED"  # in the environment of all that we start
READ, WRITTEN = "read", "place"  # folders of a submission
LONGEST = 300.0  # seconds for all tests of an exercise
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
    """What all tests of an exercise did.

    trouble: why they could not run, or not all of them; "" if they did.
    total: how many there are.
    """

    exercise: str
    outcomes: list[Outcome] = field(default_factory=list)
    total: int = 0
    trouble: str = ""

    @property
    def passed(self) -> bool:
        """Did every test pass?"""
        done = [o.passed for o in self.outcomes]
        return not self.trouble and bool(done) and all(done)

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


@dataclass
class Surroundings:
    """Where and how the tests and the student's file run.

    place: a folder with two empty ones, made if there is none: `read` for
    the copy, `place` for what the program writes; python: the words that
    run Python for the student's file; around: words before the command of
    the tests; mark: in the environment of all that is started.
    """

    place: Path | None = None
    python: Sequence[str] = ()
    around: Sequence[str] = ()
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)


def examine(
    exercise: Exercise,
    path: Path,
    *,
    first_only: bool = False,
    hardest_first: bool = False,
    seed: int | None = None,
    longest: float = LONGEST,
    here: bool = False,
    around: Surroundings | None = None,
) -> Report:
    """Run the tests of an exercise on the file at path.

    first_only: stop at the first test that fails; hardest_first: begin
    with those that the starter fails; seed: for tests that throw dice;
    longest: seconds for all tests; here: in this process, which is
    quicker and has no such limit, for files that we know. Raises
    UnseenError where this system shows no processes.
    """
    check_seen()
    around = around or Surroundings()
    report = Report(exercise.id)
    report.trouble = check_source(path, exercise.file)
    if report.trouble:
        return report
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        outer = around.place or Path(made)
        for name in (READ, WRITTEN):
            (outer / name).mkdir(exist_ok=True)
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
            "--outcomes", str(outcomes),
            "--python", json.dumps([*around.python]), str(exercise.tests),
        ]
        words += ["-x"] if first_only else []
        words += ["--hardest-first"] if hardest_first else []
        words += [] if seed is None else ["--seed", str(seed)]
        if here:
            os.environ[MARK] = around.mark  # for what it starts, not for us
            try:
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    status: int | None = pytest.main(words)
            finally:
                del os.environ[MARK]
                end_marked(around.mark)
            text = said.getvalue()
        else:
            status, text = run_apart(words, around, longest)
        with contextlib.suppress(OSError, ValueError):
            first, *lines = outcomes.read_text("utf-8").splitlines()
            report.total = int(first)
            report.outcomes = [Outcome(**json.loads(x)) for x in lines]
    if status is None:
        report.trouble = (
            f"the tests were ended after {longest:g} s: something waits for "
            "ever"
        )
    elif status not in (0, 1):
        last = text.strip().splitlines()[-1:]
        report.trouble = ": ".join(
            ["the tests did not run to their end", *last]
        )
    return report


def run_apart(
    words: list[str], around: Surroundings, longest: float
) -> tuple[int | None, str]:
    """Run pytest in a process; its status (None: ended by us), its words."""
    kept = dict(os.environ)
    if around.python:  # what starts a cage can be read from inside it
        kept = {k: v for k, v in kept.items() if k in (*KEPT, "TMPDIR")}
    environment = {
        **kept, MARK: around.mark, "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    with subprocess.Popen(
        [*around.around, sys.executable, "-m", "pytest", *words], cwd=ROOT,
        env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as examiner:
        try:
            said, _ = examiner.communicate(timeout=longest)
            return examiner.returncode, said
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            end_marked(around.mark)


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
