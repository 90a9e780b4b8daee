"""Which servers the shared tests run against, and how failures read.

``--server PATH [--step NN]`` runs them against any server file with the
same command line, and nothing else.
"""

import functools
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest._code.code import ExceptionRepr
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import (  # type: ignore[import-untyped]
    LoadScopeScheduling,
)

from tests import conformance
from tests.process import Running, running
from tools.common.raw_client import transcript
from tools.data.conformance import sides
from tools.rules import RULES
from tools.servers import LESSONS, NO, ROOT, SERVERS, YES, Server

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
        "like, as 05-heap: decides which lessons "
        "are expected (else taken from its path)",
    )
    conformance.add_option(group)


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "rule(name, steps): the rule of the contract this test proves",
        "lesson(name): the row of the table of lessons it proves",
        "slow: waits for long, so it begins early",
    ):
        config.addinivalue_line("markers", line)
    config.stash[SERVERS_KEY] = SERVERS
    given, step = config.getoption("--server"), config.getoption("--step")
    if given:
        path = Path(config.invocation_params.dir, given).resolve()
        config.stash[SERVERS_KEY] = (own_server(path, step),)
    elif step:
        raise pytest.UsageError("--step goes with --server PATH.")
    conformance.configure(config)


def own_server(path: Path, step: str | None) -> Server:
    """The list's entry for somebody's own server file."""
    if not path.is_file():
        raise pytest.UsageError(f"There is no server file {path}.")
    number = step or step_in(path) or "2"
    steps = [
        s for s in SERVERS
        if str(s.step) == number.lstrip("0") or s.name == number
    ]
    if not steps:
        names = ", ".join(s.name for s in SERVERS if "-" in s.name)
        raise pytest.UsageError(
            f"--step is 01 to 07, {names}, not {number!r}."
        )
    same = [s for s in steps if Path(s.file).name == path.name]
    like = (same or steps)[0]
    return Server(
        "own", like.step, str(path), "your own server", like.waits,
        like.lessons, like.workers, exempt=like.exempt,
    )


def step_in(path: Path) -> str | None:
    """The number a file or the folders above it begin with, if any."""
    for part in reversed(path.parts[1:]):
        if match := re.match(r"0?([1-7])(?![0-9])", part):
            return match[1]
    return None


def pytest_report_header(config: pytest.Config) -> str | None:
    (own, *_) = config.stash[SERVERS_KEY]
    if not config.getoption("--server"):
        return None
    return (
        f"server: {own.file}, expected to do what step {own.step:02} does "
        "(--step NN says otherwise)"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with a ``server`` once for every server."""
    if "server" not in metafunc.fixturenames:
        return
    servers = metafunc.config.stash[SERVERS_KEY]
    markers = metafunc.definition
    if mark := markers.get_closest_marker("lesson"):
        metafunc.parametrize(
            ("server", "side"),
            [p for s in servers for p in lesson_sides(s, mark.args[0])],
        )
        return
    steps = range(1, 8)
    if mark := markers.get_closest_marker("rule"):
        steps = mark.args[1]
    metafunc.parametrize(
        "server",
        [pytest.param(s, id=s.name) for s in servers if s.step in steps],
    )


def lesson_value(server: Server, name: str) -> str:
    """A cell of the table, for the Python that runs here."""
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    if name == "cores" and not gil and (
        server.step == 3 or server.name == "06-executor"
    ):
        return YES
    if name == "batching" and server.step == 7 and not has_uring():
        return NO
    return server.lessons[name]


@functools.cache
def has_uring() -> bool:
    """Can step 07 use io_uring here? It tells by itself."""
    probe = [sys.executable, str(ROOT / "07_parallel" / "uring.py")]
    done = subprocess.run(probe, capture_output=True, check=False)
    return done.returncode == 0


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
            marks=[fails] if expected == NO else [],
        )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    own = bool(config.getoption("--server"))
    chosen, left = [], []
    for item in items:
        server = server_of(item)
        if own and server is None:
            left.append(item)
            continue
        chosen.append(item)
        if server is not None:
            expect_exempt(item, server, strict=not own)
        conformance.tell(item, server, side_of(item))
    chosen.sort(key=order)
    items[:] = chosen
    if left:
        config.hook.pytest_deselected(items=left)


def order(item: pytest.Item) -> int:
    """What takes long begins early."""
    if "_core" in item.name or item.path.parent.name == "site":
        return 0
    return 1 if item.get_closest_marker("slow") else 2


def server_of(item: pytest.Item) -> Server | None:
    """The server this test runs against."""
    if not isinstance(item, pytest.Function):
        return None
    callspec = getattr(item, "callspec", None)
    server = callspec.params.get("server") if callspec else None
    return server if isinstance(server, Server) else None


def side_of(item: pytest.Item) -> str:
    """The side of a lesson this test proves; "" if there is one only."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("side", "")) if callspec else ""


def expect_exempt(item: pytest.Item, server: Server, strict: bool) -> None:
    """A rule the list of servers exempts must fail, for its reason."""
    for mark in item.iter_markers("rule"):
        reason = server.exemptions.get(mark.args[0])
        if reason:
            item.add_marker(pytest.mark.xfail(
                strict=strict, raises=AssertionError, reason=reason,
            ))


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
        if test.startswith("test_it_shows_what"):  # demonstrations wait
            return nodeid
        if folder in ("site", "tools"):
            return module
        if test.startswith("test_computing_uses_every_core"):
            return "cores"
        if name in ("test_answering", "test_refusing"):
            case = test.partition("[")[2].rstrip("]") + "-"
            names = [s.name for s in SERVERS if case.startswith(s.name + "-")]
            return max(names, key=len, default="own")
        return nodeid


def pytest_xdist_make_scheduler(
    config: pytest.Config, log: Producer
) -> OwnScheduling:
    return OwnScheduling(config, log)


class Shared:
    """The server process that quick tests share: one at a time."""

    def __init__(self) -> None:
        self.server: Server | None = None
        self.manager = iter_running(None)
        self.process: Running | None = None

    def get(self, server: Server) -> Running:
        """The process of this server, started if it does not run."""
        if self.server != server or not self.process:
            self.stop()
            self.manager = iter_running(server)
            self.process = next(self.manager)
            self.server = server
        assert self.process
        return self.process

    def stop(self) -> None:
        """Stop what runs, if it does; its end is checked."""
        self.process = None
        for _ in self.manager:
            pass


def iter_running(server: Server | None) -> Iterator[Running | None]:
    if server:
        with running(server) as process:
            yield process


@pytest.fixture(scope="session")
def one_server() -> Iterator[Shared]:
    shared = Shared()
    yield shared
    shared.stop()


@pytest.fixture
def shared(server: Server, one_server: Shared) -> Iterator[Running]:
    """A server that runs, for tests that are quick and harm nobody."""
    process = one_server.get(server)
    yield process
    status, stderr = process.process.poll(), process.complaints()
    if (status, stderr) != (None, ""):
        one_server.server = None
        raise AssertionError(f"(exit status, stderr): {(status, stderr)}")


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
    """Show the rule, the server, what was sent and what came back."""
    report = yield
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
