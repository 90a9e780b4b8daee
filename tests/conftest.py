"""Which servers the shared tests run against, and how failures read.

``--server PATH [--step NN]`` runs them against any server file with the
same command line, and nothing else. ``--all`` runs the thorough ones, too.
"""

import contextlib
import functools
import re
import signal
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from _pytest._code.code import ExceptionRepr
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import (  # type: ignore[import-untyped]
    LoadScopeScheduling,
)

from tests import beside, conformance
from tests.beside import all_waits as all_waits
from tests.beside import waited as waited
from tests.process import (
    HAS_GIL,
    OTHER,
    VERSION,
    Running,
    running,
    started,
)
from tests.solutions import Solution, solutions
from tools.common.launch import UnseenError, check_seen, why_no_uring
from tools.common.raw_client import transcript
from tools.data import rules_seen
from tools.data.rules_seen import sides
from tools.rules import RULES
from tools.servers import (
    LESSONS,
    NO,
    ROOT,
    SERVERS,
    SKETCHES,
    STEPS,
    YES,
    Server,
)

SERVERS_KEY = pytest.StashKey[tuple[Server, ...]]()
SHOWN = 600  # bytes of what was sent and received beside a failure


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("servers")
    group.addoption(
        "--server", metavar="PATH",
        help="run only the shared tests, against this server file",
    )
    group.addoption(
        "--step", metavar="NN",
        help="the step it has reached, 01 to 07, or the server it is "
        "like, as 05-threads: decides which lessons "
        "are expected (else taken from its path)",
    )
    group.addoption(
        "--all", action="store_true",
        help="run everything, also what is marked thorough",
    )
    conformance.add_option(group)
    parser.addoption("--renew-golden", action="store_true",
                     help="write the HTML in tests/site/golden anew")


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "rule(name, steps): the rule of the contract this test proves",
        "lesson(name): the row of the table of lessons it proves",
        "slow: waits for long, so it begins early",
        "in_web: web.py decides it; with every server for the record alone",
        "thorough: dear, so it is left out without --all",
    ):
        config.addinivalue_line("markers", line)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell ignores Ctrl-C for what it runs behind itself.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if conformance.asked(config):
        config.option.all = True  # only a whole run is written
    config.stash[SERVERS_KEY] = SERVERS
    given, step = config.getoption("--server"), config.getoption("--step")
    if given:
        path = Path(config.invocation_params.dir, given).resolve()
        config.stash[SERVERS_KEY] = (own_server(path, step),)
    elif step:
        raise pytest.UsageError("--step goes with --server PATH.")
    elif config.getoption("--sketches"):
        config.stash[SERVERS_KEY] = SKETCHES
    elif config.getoption("--all") and config.rootpath == ROOT:
        config.stash[SERVERS_KEY] += (*solutions(), *SKETCHES)
    conformance.configure(config)


def own_server(path: Path, step: str | None) -> Server:
    """The list's entry for somebody's own server file."""
    if not path.is_file():
        raise pytest.UsageError(f"There is no server file {path}.")
    # The number the file or the folders above it begin with, if any.
    found = re.findall(rf"/0?([1-{STEPS[-1]}])(?![0-9])", str(path))
    number = step or (found or ["2"])[-1]
    steps = [
        s for s in SERVERS
        if str(s.step) == number.lstrip("0") or s.name == number
    ]
    if not steps:
        names = ", ".join(s.name for s in SERVERS if "-" in s.name)
        raise pytest.UsageError(
            f"--step is 01 to 07, {names}, not {number!r}."
        )
    like = next((s for s in steps if s.path.name == path.name), steps[0])
    return replace(
        like, name="own", file=str(path), title="your own server", options=()
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with a ``server`` once for every server."""
    if "server" not in metafunc.fixturenames:
        return
    servers = metafunc.config.stash[SERVERS_KEY]
    if mark := metafunc.definition.get_closest_marker("lesson"):
        name = mark.args[0]
        metafunc.parametrize(("server", "side"), [
            each for server in servers if tried(server, name)
            for each in lesson_sides(server, name)
        ])
        return
    mark = metafunc.definition.get_closest_marker("rule")
    name, steps = mark.args if mark else ("", STEPS)
    if metafunc.definition.get_closest_marker("in_web"):
        recorded = metafunc.config.getoption("--conformance")
        servers = tuple(
            each for each in servers
            if recorded or each not in SERVERS or each.step in (1, 2, 7)
        )
    metafunc.parametrize("server", [
        pytest.param(server, id=server.name, marks=marks_of(server))
        for server in servers
        if server.step in steps and tried(server, name)
    ])


def tried(server: Server, name: str) -> bool:
    """Is this rule or lesson tried on this server? "": not known yet."""
    if server in SKETCHES:
        return not name or name in rules_seen.TRIED
    return not isinstance(server, Solution) or not name or server.keeps(name)


def marks_of(server: Server) -> list[pytest.MarkDecorator]:
    thorough = isinstance(server, Solution) or server in SKETCHES
    return [pytest.mark.thorough] if thorough else []


def lesson_value(server: Server, name: str) -> str:
    """A cell of the table, for the Python that runs here."""
    if name == "cores" and not HAS_GIL and (
        server.step == 3 or server.name == "06-executor"
    ):
        return YES
    if name == "batching" and server.step == 7 and why_no_uring():
        return NO
    return server.lessons[name]


def lesson_sides(server: Server, name: str) -> Iterator[object]:
    """The cells of the table: "no" must fail, a pool has two sides."""
    value = lesson_value(server, name)
    fails = pytest.mark.xfail(
        strict=True, raises=AssertionError,
        reason=f"the table of lessons says {value}: {LESSONS[name]}",
    )
    for side, expected in sides(name, value).items():
        yield pytest.param(
            server, side, id=f"{server.name}-{side}".rstrip("-"),
            marks=[*marks_of(server), *([fails] if expected == NO else [])],
        )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    own = bool(config.getoption("--server") or config.getoption("--sketches"))
    alone = own or bool(OTHER)  # the shared tests
    everything = config.getoption("--all")
    chosen, left = [], []
    for item in items:
        server = server_of(item)
        if alone and server is None:
            left.append(item)
            continue
        mark = item.get_closest_marker("rule")
        if server and mark and not (
            server.step in mark.args[1] and tried(server, mark.args[0])
        ):
            continue  # a rule in a table, which is not about this server
        if server in SKETCHES and not mark:
            continue
        if item.get_closest_marker("thorough") and not everything:
            left.append(item)
            continue
        chosen.append(item)
        if server in SKETCHES:
            expect_broken(item, server, config.getoption("--sketches"))
        elif server is not None:
            strict = not own and not isinstance(server, Solution)
            expect_exempt(item, server, strict)
        conformance.tell(item, server, parameter(item, "side") or "")
    chosen.sort(key=order)
    items[:] = chosen
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which run it was, and what the other one adds."""
    everything = config.getoption("--all")
    terminalreporter.line(
        "This was the whole run (--all)." if everything else
        "This was the quick run: ./test.sh --all adds the thorough tests, "
        "and the contract for the exercises' solutions."
    )


def order(item: pytest.Item) -> tuple[int, str]:
    """What takes long begins early; who shares a server comes together."""
    if "_core" in item.name or item.path.parent.name == "site":
        return 0, ""
    if item.get_closest_marker("slow"):
        return 1, ""
    server = server_of(item)
    shares = "shared" in getattr(item, "fixturenames", ())
    return 2, server.name if server and shares else ""


def parameter(item: pytest.Item, name: str) -> Any:
    """A parameter of a test; None if it has none of this name."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(name) if callspec else None


def server_of(item: pytest.Item) -> Server | None:
    """The server this test runs against."""
    server = parameter(item, "server")
    return server if isinstance(server, Server) else None


def expect_exempt(item: pytest.Item, server: Server, strict: bool) -> None:
    """A rule the list of servers exempts must fail, for its reason."""
    for mark in item.iter_markers("rule"):
        if server.is_exempt(mark.args[0], VERSION):
            item.add_marker(pytest.mark.xfail(
                strict=strict, raises=AssertionError,
                reason=server.exemptions[mark.args[0]],
            ))


def expect_broken(
    item: pytest.Item, sketch: Server, recording: str | None
) -> None:
    """A test must fail on a sketch if the list says so, else pass."""
    mark = item.get_closest_marker("rule")
    assert mark
    name = getattr(item, "originalname", item.name)
    if recording or name in rules_seen.failed(
        recorded_sketches(), mark.args[0], sketch.name
    ):
        item.add_marker(pytest.mark.xfail(
            strict=not recording, reason="what a sketch cannot do",
        ))


@functools.cache
def recorded_sketches() -> rules_seen.Conformance:
    """The committed run of the sketches."""
    return rules_seen.load(rules_seen.SKETCHED)


class OwnScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Which tests one worker runs one after the other.

    Those that share a process or a fixture, and those that want the
    processors for themselves; all others go to whoever is free. Not by
    xdist_group: with pytest 9.2 it has no effect (pytest-xdist #1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        folder, name = Path(module).parent.name, Path(module).stem
        if name == "test_browser":
            return nodeid  # it takes minutes: each page on its own
        if test.partition("[")[0] in beside.NAMES:
            return "beside"
        shared = "test_exercises", "test_database"
        if folder in ("site", "tools") or name in shared:
            return module
        if test.startswith("test_computing_uses_every_core"):
            return "cores"
        if "-sketch" in test:
            return nodeid  # each has a process of its own
        if name in ("test_answering", "test_refusing"):
            return server_named(test.partition("[")[2].rstrip("]"))
        return nodeid


@functools.cache
def server_named(case: str) -> str:
    """The server of a test's parameters, which begin with its name."""
    names = [each.name for each in (*SERVERS, *solutions())]
    found = [n for n in names if f"{case}-".startswith(f"{n}-")]
    return max(found, key=len, default="own")


def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Producer
) -> OwnScheduling:
    return OwnScheduling(config, log)


class Shared:
    """The server process that quick tests share: one at a time."""

    process: Running

    def __init__(self) -> None:
        self.server: Server | None = None
        self.stack = contextlib.ExitStack()

    def get(self, server: Server) -> Running:
        """The process of this server, started if it does not run."""
        if self.server != server:
            self.stop()
            self.process = self.stack.enter_context(running(server))
            self.server = server
        return self.process

    def stop(self) -> None:
        """Stop what runs, if it does; its end is checked."""
        self.server = None
        self.stack.close()


@pytest.fixture(scope="session")
def one_server() -> Iterator[Shared]:
    shared = Shared()
    yield shared
    shared.stop()


@pytest.fixture
def shared(server: Server, one_server: Shared) -> Iterator[Running]:
    """A server that runs, for tests that are quick and harm nobody.

    A sketch is harmed, so each test has one of its own.
    """
    if server in SKETCHES:
        with started(server) as process:
            yield process
        return
    process = one_server.get(server)
    yield process
    found = process.status(), process.complaints
    if found != (None, ""):
        one_server.server = None
        raise AssertionError(f"(exit status, stderr): {found}")


@pytest.fixture(autouse=True)
def clean_start(request: pytest.FixtureRequest, one_server: Shared) -> None:
    """Nothing of earlier tests: no transcript, no server they shared."""
    transcript.clear()
    if "shared" not in request.fixturenames:
        one_server.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the rule, the server, what was sent and what came back.

    A test that has to see processes is skipped where none can be seen.
    """
    report = yield
    # psutil raises all three.
    blind = UnseenError, psutil.Error, IndexError
    if call.excinfo and call.excinfo.errisinstance(blind):
        try:
            check_seen()
        except UnseenError as error:
            report.outcome = "skipped"
            report.longrepr = str(item.path), 0, f"Skipped: {error}"
    server = server_of(item)
    place = report.longrepr
    if server is not None and isinstance(place, ExceptionRepr):
        for title, text in explanations(item, server):
            place.addsection(title, text)
    return report


def explanations(
    item: pytest.Item, server: Server
) -> Iterator[tuple[str, str]]:
    for mark in item.iter_markers("rule"):
        found = RULES[mark.args[0]]
        yield "rule", f"{mark.args[0]}: {found.text} ({found.where})"
    for mark in item.iter_markers("lesson"):
        text = LESSONS[mark.args[0]]
        yield "lesson", f"{text}: {lesson_value(server, mark.args[0])}"
    yield "server", f"{server.name}: {server.file} ({server.title})"
    for client in transcript[-3:]:
        yield "sent", shorten(client.sent)
        yield "received", f"{shorten(client.received)} {client.ended}"


def shorten(data: bytes) -> str:
    if len(data) <= SHOWN:
        return repr(data)
    half = SHOWN // 2
    return f"{data[:half]!r} ... {data[-half:]!r} ({len(data)} bytes)"
