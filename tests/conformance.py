"""``--conformance FILE``: writes what each rule did on each server.

``--sketches FILE`` tries the sketches instead, and writes the same of them.

Tests say by their user properties which rules and lessons they prove, and
where; their reports carry them to the process that writes, also from the
workers of pytest-xdist. Only a whole run is written.
"""

import resource
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tools.bench import preflight
from tools.data.rules_seen import (
    EXPECTED,
    FAILED,
    OUTCOMES,
    PASSED,
    SKIPPED,
    Cell,
    Conformance,
    Table,
    place,
)
from tools.rules import RULES
from tools.servers import LESSONS, ROOT, SERVERS, SKETCHES, Server

# Settings that choose tests or stop a run: then it is not a whole one.
CHOOSING = (
    "server", "keyword", "markexpr", "deselect", "ignore", "ignore_glob",
    "lf", "stepwise", "collectonly", "maxfail",
)  # fmt: skip
RECORDED = {"--conformance": SERVERS, "--sketches": SKETCHES}
# pytest's words and ours: of those that a test had, the first one counts.
OUTCOME_OF = {
    "failed": FAILED, "error": FAILED, "xfailed": EXPECTED,
    "skipped": SKIPPED, "passed": PASSED, "xpassed": PASSED,
}  # fmt: skip


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


def asked(config: pytest.Config) -> str:
    """The option that asks for a record; "" if none does."""
    return next((each for each in RECORDED if config.getoption(each)), "")


def configure(config: pytest.Config) -> None:
    """Record this run if asked to, in the process that reports."""
    option = asked(config)
    if not option or hasattr(config, "workerinput"):
        return
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if named or any(config.getoption(name, None) for name in CHOOSING):
        raise pytest.UsageError(
            f"{option} writes whole runs: leave out what chooses or stops "
            "tests."
        )
    file = Path(config.invocation_params.dir, config.getoption(option))
    if file.is_dir() or not file.parent.is_dir():
        raise pytest.UsageError(
            f"{option} cannot write {file}: it is a folder, or its folder "
            "is not there."
        )
    config.pluginmanager.register(Recorder(option, file), "conformance")


def tell(item: pytest.Item, server: Server | None, side: str) -> None:
    """Let the reports of a test say what it proves, and for which servers.

    One that takes no server is about the program of its steps, and so
    counts for all the servers made of it.
    """
    recorded = RECORDED.get(asked(item.config), ())
    if not recorded or (server and server not in recorded):
        return  # a solution is not in the table
    for kind in ("rule", "lesson"):
        for mark in item.iter_markers(kind):
            servers = [server] if server else [
                each for each in SERVERS if each.step in mark.args[1]
            ]
            item.user_properties += [
                (f"{kind}:{mark.args[0]}", place(each.name, side))
                for each in servers
            ]


class Recorder:
    """Writes what the terminal reporter has counted, in the end."""

    def __init__(self, option: str, file: Path) -> None:
        self.option, self.file = option, file
        self.begun = time.monotonic()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.said = ""

    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> None:
        reporter: Any = session.config.pluginmanager.get_plugin(
            "terminalreporter"
        )
        whole = exitstatus in (
            pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
        ) and not any(
            isinstance(each, pytest.CollectReport)
            for each in reporter.stats.get("error", ())
        )
        why = "the run was interrupted"
        try:
            if whole:
                self.result(reporter.stats).save(self.file)
                self.said = f"{self.file.name} was written."
                return
        except OSError as error:
            why = f"the system says: {error.strerror}"
        self.said = f"{self.file.name} was not written: {why}."
        session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        terminalreporter.line(self.said)

    def result(self, stats: dict[str, list[Any]]) -> Conformance:
        """The run, in the order of the lists, however the tests ran."""
        done: dict[str, tuple[str, pytest.TestReport]] = {}
        for word, outcome in OUTCOME_OF.items():
            for report in stats.get(word, ()):
                done.setdefault(report.nodeid, (outcome, report))
        cells: dict[tuple[str, str], Cell] = defaultdict(Cell)
        for outcome, report in done.values():
            why = self.why(outcome, report)
            for key, where in report.user_properties:
                cells[key, str(where)].add(outcome, why)
        places = [
            place(server.name, side) for server in RECORDED[self.option]
            for side in ("", "above", "below")
        ]

        def table(kind: str, names: Iterable[str]) -> Table:
            rows = {name: {
                where: cells[f"{kind}:{name}", where] for where in places
                if (f"{kind}:{name}", where) in cells
            } for name in names}
            return {name: row for name, row in rows.items() if row}

        totals = Counter(outcome for outcome, _ in done.values())
        inside = self.file.is_relative_to(ROOT)
        file = self.file.relative_to(ROOT) if inside else self.file.name
        return Conformance(
            command=f"./test.sh {self.option} {file}",
            started=self.started,
            commit=preflight.commit(),
            machine=preflight.machine(
                resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            ),
            seconds=round(time.monotonic() - self.begun, 1),
            totals={each: totals[each] for each in OUTCOMES},
            rules=table("rule", RULES),
            lessons=table("lesson", LESSONS),
        )

    def why(self, outcome: str, report: pytest.TestReport) -> str:
        """Why a test was skipped, or which one failed on a sketch."""
        if outcome == SKIPPED:
            place: Any = report.longrepr  # the file, the line, why
            return str(place[2]).removeprefix("Skipped: ")
        if outcome == EXPECTED and self.option == "--sketches":
            return report.nodeid.rpartition("::")[2].partition("[")[0]
        return ""
