"""``--conformance FILE``: writes what each rule did on each server.

``--sketches FILE`` tries the sketches instead, and writes the same of them.

Tests say by their user properties which rules and lessons they prove, and
where; their reports carry them to the process that writes, also from the
workers of pytest-xdist. Only a complete run is written: every test that
was collected came to its end, and no rule, lesson or server is missing.
"""

import importlib.metadata
import resource
import shlex
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tools.bench import preflight
from tools.data import rules_seen as conformance
from tools.data import sketches_seen
from tools.data.rules_seen import (
    EXPECTED,
    FAILED,
    OUTCOMES,
    PASSED,
    SKIPPED,
    Cell,
    Conformance,
)
from tools.rules import RULES
from tools.servers import LESSONS, ROOT, SERVERS, SKETCHES, Server

# What leaves tests out, so that the run is not a whole one.
CHOOSING = {
    "server": "--server", "keyword": "-k", "markexpr": "-m",
    "deselect": "--deselect", "ignore": "--ignore",
    "ignore_glob": "--ignore-glob", "lf": "--last-failed",
    "stepwise": "--stepwise", "collectonly": "--collect-only",
}  # fmt: skip
FIXED = ("-n", "6", "--no-loadscope-reorder")  # what test.sh begins with


def add_option(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--conformance", metavar="FILE",
        help="write to FILE what the tests of each rule and lesson did on "
        "each server; only a whole run is written",
    )
    group.addoption(
        "--sketches", metavar="FILE",
        help="run only the shared tests, against the sketches, and write to "
        "FILE what each rule did on each of them",
    )


def asked(config: pytest.Config) -> tuple[str, str]:
    """The option that asks for a record and its file; "" if none does."""
    for option in ("--conformance", "--sketches"):
        if given := config.getoption(option):
            return option, given
    return "", ""


def configure(config: pytest.Config) -> None:
    """Record this run if somebody asked, in the process that reports."""
    mine, given = asked(config)
    if not given or hasattr(config, "workerinput"):
        return
    for name, option in CHOOSING.items():
        if config.getoption(name, None):
            raise pytest.UsageError(
                f"{mine} writes whole runs: leave out {option}."
            )
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        raise pytest.UsageError(
            f"{mine} writes whole runs: name no tests."
        )
    file = Path(config.invocation_params.dir, given)
    if file.is_dir() or not file.parent.is_dir():
        raise pytest.UsageError(
            f"{mine} cannot write {given}: "
            + ("it" if file.is_dir() else "its folder")
            + (" is a folder." if file.is_dir() else " is not there.")
        )
    recorder = SketchRecorder if mine == "--sketches" else Recorder
    config.pluginmanager.register(recorder(config, file), "conformance")


def tell(item: pytest.Item, server: Server | None, side: str) -> None:
    """Let the reports of a test say what it proves, and for whom.

    One that takes no server is about the program of its steps, and so
    counts for all the servers made of it.
    """
    recorded = SKETCHES if asked(item.config)[0] == "--sketches" else SERVERS
    if not asked(item.config)[0] or (server and server not in recorded):
        return  # a solution is not in the table
    for kind in ("rule", "lesson"):
        for mark in item.iter_markers(kind):
            whom = [server] if server else [
                each for each in SERVERS if each.step in mark.args[1]
            ]
            for each in whom:
                where = conformance.place(each.name, side)
                item.user_properties.append((f"{kind}:{mark.args[0]}", where))


class Recorder:
    """Counts what the tests do, and writes it in the end."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.servers: tuple[Server, ...] = SERVERS
        self.config = config
        self.file = file
        self.begun = time.monotonic()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.collected: set[str] = set()
        self.under_way: dict[str, tuple[str, str]] = {}
        self.finished: set[str] = set()
        self.totals = dict.fromkeys(OUTCOMES, 0)
        self.cells: dict[str, dict[str, dict[str, Cell]]] = {
            "rule": {}, "lesson": {},
        }
        self.said = ""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(
        self, ids: list[str]
    ) -> None:
        self.collected.update(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test reports three times: setup, call, teardown."""
        name = report.nodeid
        outcome, why = outcome_of(report)
        if outcome and self.under_way.get(name, ("",))[0] != FAILED:
            self.under_way[name] = (outcome, why)
        if report.when == "teardown":
            self.finished.add(name)
            self.count(report, *self.under_way.pop(name))

    def count(
        self, report: pytest.TestReport, outcome: str, why: str
    ) -> None:
        self.totals[outcome] += 1
        for key, where in report.user_properties:
            kind, _, name = key.partition(":")
            if kind in self.cells:
                row = self.cells[kind].setdefault(name, {})
                row.setdefault(str(where), Cell()).add(outcome, why)

    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> None:
        run = self.result()
        why = next(self.holes(run, exitstatus), "")
        if not why:
            try:
                run.save(self.file)
            except OSError as error:
                why = f"the system says: {error.strerror}"
        if why:
            self.said = f"{self.file.name} was not written: {why}."
            if exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            self.said = f"{self.file.name} was written."

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        terminalreporter.line(self.said)

    def holes(self, run: Conformance, exitstatus: int) -> Iterator[str]:
        """Why this is not a whole run; nothing if it is."""
        if exitstatus not in (
            pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
        ):
            yield "the run was interrupted"
        if left := len(self.collected - self.finished):
            whole = len(self.collected)
            yield f"{left} of {whole} tests did not come to their end"
        for lack in self.lacks(run):
            yield f"the run has {lack}"

    def lacks(self, run: Conformance) -> Iterator[str]:
        """What is missing in it, each the rest of a sentence."""
        yield from conformance.lacks(run, RULES, SERVERS)

    def result(self) -> Conformance:
        rules, lessons = self.cells["rule"], self.cells["lesson"]
        names = [server.name for server in self.servers]
        tools = ("pytest", "pytest-xdist")
        return Conformance(
            command=command(self.config.invocation_params.args),
            started=self.started,
            commit=preflight.commit(),
            machine=preflight.machine(
                resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            ),
            tools={name: importlib.metadata.version(name) for name in tools},
            seconds=round(time.monotonic() - self.begun, 1),
            totals=self.totals,
            rules={r: in_order(rules[r], names) for r in RULES if r in rules},
            lessons={
                each: in_order(lessons[each], names)
                for each in LESSONS if each in lessons
            },
        )


class SketchRecorder(Recorder):
    """The same for the sketches: it also names the tests that failed."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        super().__init__(config, file)
        self.servers = SKETCHES

    def count(
        self, report: pytest.TestReport, outcome: str, why: str
    ) -> None:
        if outcome == EXPECTED:
            why = report.nodeid.rpartition("::")[2].partition("[")[0]
        super().count(report, outcome, why)

    def lacks(self, run: Conformance) -> Iterator[str]:
        names = [sketch.name for sketch in SKETCHES]
        if lack := sketches_seen.lack(run, names):
            yield lack


def outcome_of(report: pytest.TestReport) -> tuple[str, str]:
    """What one report of a test means: ("", "") if nothing yet."""
    if report.failed:
        return FAILED, ""
    if report.skipped and hasattr(report, "wasxfail"):
        return EXPECTED, ""
    if report.skipped:
        why: Any = report.longrepr  # the file, the line, why
        return SKIPPED, why[2].removeprefix("Skipped: ")
    return (PASSED, "") if report.when == "call" else ("", "")


def in_order(row: dict[str, Cell], names: list[str]) -> dict[str, Cell]:
    """Cells in the order of the servers, whoever was ready first."""
    return dict(sorted(
        row.items(), key=lambda cell: (names.index(cell[0].split()[0]),
                                       cell[0]),
    ))  # fmt: skip


def command(arguments: tuple[str, ...]) -> str:
    """What to type to do this again, seen from the repository."""
    begin = ["python", "-m", "pytest"]
    if arguments[:1] + arguments[2:3] == FIXED[:1] + FIXED[2:]:  # 4 or 6
        begin, arguments = ["./test.sh"], arguments[len(FIXED):]
    words = []
    for word in arguments:
        option, equals, value = word.partition("=")
        if option in ("--conformance", "--sketches") and equals:
            path = Path(value)
            inside = path.is_relative_to(ROOT)
            value = str(path.relative_to(ROOT)) if inside else path.name
            words += [option, value]
        else:
            words.append(word)
    return shlex.join([*begin, *words])
