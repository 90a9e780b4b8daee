"""Run the tests of an exercise on somebody's file.

For each test the file is copied into a new folder with what it may import,
and runs in another one, where it may write. We never compile it: a few lines
can keep Python's compiler busy for hours. Everything that it starts bears a
mark in its environment, so that nothing of it is left behind.
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
from typing import Any

import psutil
import pytest

from tools.common.launch import check_seen
from tools.learn import cage
from tools.learn.exercises import Exercise
from tools.servers import ROOT

MARK = "SEVEN_EXAMINED"  # in the environment of all that we start
LONGEST = 300.0  # seconds for all tests of an exercise
LOOK_SECONDS = 0.25  # between two looks at them
NO_OUTCOME = (ValueError, TypeError, LookupError, AttributeError,
              RecursionError)
OUTCOMES_BYTES = 1 << 20  # of all that the tests say
SAID_BYTES = 4000  # of the end of what pytest prints
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
    why they could not run, or not all of them; "" if they did; look: what
    to look at in the file; key: says when the same would come out again.
    """

    exercise: str
    title: str
    state: str = "failed"
    outcomes: list[Outcome] = field(default_factory=list)
    total: int = 0
    trouble: str = ""
    look: list[str] = field(default_factory=list)
    key: str = ""

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
    shuffled: bool = False,
    look: Look = lambda tests: "",
) -> Report:
    """Run the tests of an exercise on the file at path.

    first_only: stop at the first test that fails; seed: for tests that
    throw dice; longest: seconds for all tests; here: in this process, which is
    quicker and has no such limit, for files that we know; caged: see
    `cage`; shuffled: the tests in another order; look: says now and then
    why the tests have to end, "" if they need not. Raises UnseenError
    where this system shows no processes.
    """
    check_seen()
    report = Report(exercise.id, exercise.title)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made,
        tempfile.TemporaryFile() as outcomes,
    ):
        given, place = Path(made, "given"), Path(made)
        given.write_bytes(path.read_bytes())
        given.chmod(0o444)
        before = [sys.executable]
        if caged:
            before = cage.around(given)
            given, place = cage.GIVEN, cage.PLACE
        words = [
            "-q", "-c", str(CONFIG), "--rootdir", str(exercise.folder),
            "-p", "no:cacheprovider", "-p", "tools.learn.plugin",
            "--student", str(given), "--place", str(place),
            "--outcomes", str(outcomes.fileno()), str(exercise.tests),
        ]
        for word, wanted in (
            ("-x", first_only), ("--caged", caged), ("--shuffle", shuffled),
        ):
            words += [word] * wanted
        words += [] if seed is None else ["--seed", str(seed)]
        ended = time.monotonic() + longest

        def look_again(tests: psutil.Process) -> str:
            return look(tests) or (
                f"the tests were ended after {longest:g} s: something waits "
                "for ever" if time.monotonic() > ended else ""
            )

        report.trouble = run_here(words) if here else run_apart(
            [*before, "-m", "pytest", *words], caged, outcomes.fileno(),
            look_again,
        )
        read_outcomes(report, outcomes.fileno())
    complete = len(report.outcomes) == report.total
    if report.outcomes and complete and not report.missing:
        report.state = "passed"
    return report


def read_outcomes(report: Report, descriptor: int) -> None:
    """What the plugin has written: a line with all names, one for each test.

    Who has got out of the inner cage can have written anything: it is read as
    data, and what is no outcome of a test is left out.
    """
    lines = os.pread(descriptor, OUTCOMES_BYTES, 0).splitlines()
    with contextlib.suppress(*NO_OUTCOME):
        names = [str(name) for name in json.loads(lines[0])] if lines else []
        report.total = len(names)
        found = {}
        for line in lines[1:]:
            with contextlib.suppress(*NO_OUTCOME):
                outcome = outcome_of(json.loads(line))
                found[outcome.name] = outcome
        report.outcomes = [found[name] for name in names if name in found]


def outcome_of(data: dict[str, Any]) -> Outcome:
    """An outcome from JSON. Raises one of `NO_OUTCOME` if it is none."""
    seconds = float(data["seconds"])
    if not 0 <= seconds < LONGEST * 100:  # NaN is no JSON for others
        raise ValueError(seconds)
    texts = {
        k: str(data.get(k, "")) for k in ("name", "title", "expected", "came")
    }
    lists = {k: [str(x) for x in data.get(k, [])] for k in ("story", "wrote")}
    return Outcome(
        passed=data["passed"] is True, seconds=seconds,
        **texts, **lists,  # type: ignore[arg-type]
    )


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


def run_apart(
    words: list[str], caged: bool, outcomes: int, look: Look
) -> str:
    """The same in a process of its own, which inherits a descriptor."""
    mark = uuid.uuid4().hex
    # What starts a cage can be read from inside it.
    kept = cage.environment() if caged else {
        **os.environ, "PYTHONPATH": str(ROOT)
    }
    environment = {
        **kept, MARK: mark, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    with tempfile.TemporaryFile() as said, subprocess.Popen(
        words, cwd=None if caged else ROOT, env=environment,
        stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        start_new_session=True, pass_fds=[outcomes],
    ) as tests:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = tests.wait(LOOK_SECONDS)
                    size = said.seek(0, os.SEEK_END)
                    said.seek(max(size - SAID_BYTES, 0))
                    text = said.read().decode(errors="replace")
                    return why_not(status, text)
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
