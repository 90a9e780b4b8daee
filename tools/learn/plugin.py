"""The pytest plugin that runs the tests of an exercise.

Options: --student PATH, the student's file; --place PATH, where each test
makes a folder for it; --caged: it runs in a `cage`; --shuffle: the tests in
another order; --seed NUMBER, for the dice; --outcomes NUMBER, the descriptor
that gets a line of JSON for each test, with what a student should read if it
failed.
"""

import json
import os
import random
import re
import shutil
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools.common.files import lay_out
from tools.common.raw_client import NoResponse
from tools.learn import cage, exercises, student
from tools.learn.student import Program, Serving, Wrong

Start = Callable[..., Serving]
STORIES = 3  # of so many clients, or one more, in a message
# A traceback up to its last line: Python writes it line by line.
WHOLE = re.compile(r"^Traceback \(most.*\n(?: .*\n)+\S.*\n", re.M)
TRACEBACK_SECONDS = 0.3  # for a server to say why it hung up


def pytest_addoption(parser: pytest.Parser) -> None:
    """Whose file, run how, and where to write."""
    group = parser.getgroup("exercise")
    group.addoption("--student", type=Path, required=True)
    group.addoption("--place", type=Path, required=True)
    group.addoption("--caged", action="store_true")
    group.addoption("--shuffle", action="store_true")
    group.addoption("--seed", type=int)
    group.addoption("--outcomes", type=int, required=True)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """The first line of the outcomes: the tests by name, in our order."""
    tell(config, [item.name for item in items])
    if config.getoption("--shuffle"):  # a submission could count its starts
        random.Random(config.getoption("--seed")).shuffle(items)


def tell(config: pytest.Config, what: object) -> None:
    """Write a line of JSON."""
    os.write(config.getoption("--outcomes"), f"{json.dumps(what)}\n".encode())


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    """The student's file, not started yet, in folders of this test alone."""
    student.visitors.clear()
    option = request.config.getoption
    exercise = exercises.read(request.config.rootpath)
    outer = cage.lay_out_place(option("--place"))
    home = outer / cage.WRITTEN
    beside = {k: v.encode() for k, v in exercise.companions().items()}
    folder = lay_out(
        outer / cage.READ,
        {**beside, exercise.file: option("--student").read_bytes()},
        [home / name for name in exercise.writes],
    )
    python = cage.python(outer) if option("--caged") else ()
    found = Program(folder / exercise.file, python, home)
    yield found
    found.end()
    shutil.rmtree(home, ignore_errors=True)  # what fills the disk


@pytest.fixture
def start(program: Program) -> Start:
    """Start it with options; every server is ended after the test."""
    return program.start


@pytest.fixture
def server(program: Program) -> Serving:
    """The student's server with ``--delay 0.05``, ready."""
    return program.start()


@pytest.fixture
def values(program: Program) -> dict[str, Any]:
    """The names in capitals that a file of answers sets."""
    return program.values()


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Chance: other numbers in each run, so that none can be built in."""
    return random.Random(request.config.getoption("--seed"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """A test has passed only if its servers came through it as well."""
    result = yield
    for serving in student.servers:
        serving.expect_alive()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write what the student reads."""
    report = yield
    if report.when == "call" or (report.when == "setup" and report.failed):
        line: dict[str, object] = {
            "name": item.name,
            "title": title(item),
            "passed": report.passed,
            "seconds": round(report.duration, 2),
        }
        if call.excinfo is not None:
            line |= explain(call.excinfo.value)
            line["came"] = on_terminals(str(line["came"]))
            line["wrote"] = student.wrote()
        tell(item.config, line)
    return report


def title(item: pytest.Item) -> str:
    """The first line of the test's docstring: what it wants to see."""
    function = getattr(item, "function", None)
    text = (getattr(function, "__doc__", None) or item.name).strip()
    return " ".join(text.split("\n\n")[0].split()).rstrip(".")


def explain(error: BaseException) -> dict[str, object]:
    """An error as a student should read it."""
    story, expected, came = stories(), "", str(error)
    if isinstance(error, Wrong):
        story = error.story or story
        expected, came = error.expected, error.came
    elif isinstance(error, psutil.Error):
        expected, came = "a server that goes on serving", "it ended"
    elif not isinstance(error, NoResponse | AssertionError):
        came = "The test itself failed: " + "".join(
            traceback.format_exception(error)[-3:]
        )
    return {"story": story, "expected": expected, "came": came}


def on_terminals(came: str) -> str:
    """What came, and the traceback that a server wrote meanwhile.

    Nothing says so well what is wrong as the student's own error. It may
    come a moment after the connection has been closed.
    """

    def said() -> list[str]:
        texts = [serving.complaints for serving in student.servers]
        return [text for text in texts if WHOLE.search(text)]

    student.eventually(said, TRACEBACK_SECONDS)
    errors = {student.last_error(text) for text in said()}
    more = [e for e in sorted(errors) if e not in came]
    return came + "".join(f". On its terminal: {error}" for error in more)


def stories() -> list[str]:
    """What the last clients did, a line each."""
    shown = [v for v in student.visitors if v.story]
    few = shown if len(shown) <= STORIES + 1 else shown[-STORIES:]
    before = len(shown) - len(few)
    lines = [f"({before} clients before)"] if before else []
    for number, visitor in enumerate(few, before + 1):
        name = f"client {number}" if len(few) > 1 else "We"
        lines.append(f"{name} " + ", ".join(visitor.story))
    return lines
