"""``./bench.sh hosts``: the rig, the load's counting, the balancer."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest

from tests.marks import Patch, Said, slow
from tests.tools.experiment import printed, run, status_of, under_way
from tools.bench.experiments import hosts
from tools.bench.experiments.lab import LabError
from tools.bench.hosts import balancer, load
from tools.bench.hosts.balancer import Balancer, Balancing
from tools.bench.hosts.experiments import BY_NAME
from tools.bench.hosts.load import Load, Plan
from tools.bench.hosts.rig import Answers, Case
from tools.bench.hosts.tap import Tap, arrivals
from tools.bench.server import free_port
from tools.common.launch import LaunchError, eventually
from tools.data import raw
from tools.data.results import MORE_SUITES, Results
from tools.data.results import load as results
from tools.servers import ROOT

needs_haproxy = pytest.mark.usefixtures("haproxy")
needs_cable = pytest.mark.usefixtures("haproxy", "cable")
PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Host: h1\r\n\r\nhello"
)
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def need(why_not: str) -> None:
    """Without what a test needs it is skipped; but not by .ci/run."""
    if why_not and "CI" not in os.environ:
        pytest.skip(why_not)
    assert not why_not


@pytest.fixture(scope="session")
def haproxy() -> str:
    """The program."""
    found = balancer.program()
    need("" if found else "HAProxy is missing")
    return found or ""


@pytest.fixture(scope="session")
def cable() -> None:
    """Network namespaces."""
    _, why = hosts.way()
    need(f"no network namespaces here: {why}" * bool(why))


# The load: what it counts -------------------------------------------------


@contextlib.contextmanager
def serving(
    behave: Callable[[socket.socket, int, int], bool]
) -> Iterator[SimpleNamespace]:
    """A server that does ``behave(connection, number, which)`` if asked.

    number: of the request; which: on its connection, from 0. False ends
    the connection.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    asked = Counter[int]()

    def accept() -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                connection, _ = listener.accept()
                threading.Thread(
                    target=serve, args=(connection,), daemon=True
                ).start()

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            for which in itertools.count():
                found = re.match(rb"GET /\?(\d+) ", connection.recv(4096))
                if not found:
                    return
                number = int(found[1])
                asked[number] += 1
                if not behave(connection, number, which):
                    return

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        port = listener.getsockname()[1]
        yield SimpleNamespace(listener=listener, port=port, asked=asked)


def answered(connection: socket.socket, *_: int) -> bool:
    connection.sendall(PAGE)
    return True


def reset(connection: socket.socket) -> None:
    linger = struct.pack("ii", 1, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def plan(port: int, *, requests: int = 50, **more: object) -> Plan:
    """So many requests in half a second, at even distances."""
    phases = ((2.0 * requests, 0.5 - 0.1 / requests),)
    return Plan("127.0.0.1", port, phases, **{"seed": 0, **more})  # type: ignore[arg-type]


def sent(wanted: Plan, kind: type[Load] = Load) -> Answers:
    """What came of a plan."""
    one = kind(wanted)
    asyncio.run(one.run())
    return Answers(sorted(one.rows), one.lag)


@pytest.mark.parametrize(("lost", "keep", "kind"), [
    (lambda connection: None, False, "closed"),
    (lambda connection: connection.sendall(PAGE[:-2]), False, "closed"),
    (lambda connection: connection.sendall(PAGE[:12]), False, "closed"),
    (reset, False, "reset"),
    (lambda connection: connection.sendall(BUSY), False, "503"),
    (lambda connection: None, True, "stale"),
    (reset, True, "stale"),
    (lambda connection: connection.sendall(PAGE[:20]), True, "closed"),
])
def test_some_requests_are_lost(
    lost: Callable[[socket.socket], None], keep: bool, kind: str
) -> None:
    """Every tenth of all, or the third of each connection that is kept."""
    def behave(connection: socket.socket, number: int, which: int) -> bool:
        if which == 2 if keep else number % 10 == 3:
            lost(connection)
            return False
        return answered(connection)

    with serving(behave) as server:
        found = sent(plan(server.port, keep=keep, timeout=30.0))
    assert set(found.lost) == {kind}
    assert len(found.good) + found.lost[kind] == len(found.rows) == 50
    assert found.shares() == {"h1": 1.0}
    assert set(server.asked.values()) == {1}
    if not keep:  # else it depends on the machine how many there are
        assert [row[2] == "ok" for row in found.rows] == [
            number % 10 != 3 for number in range(50)
        ]


def test_an_response_that_does_not_come() -> None:
    with serving(lambda connection, *_: bool(connection.recv(1))) as server:
        found = sent(plan(server.port, requests=5, timeout=0.2))
    assert found.lost == {"timeout": 5}


def test_nobody_listens() -> None:
    found = sent(plan(free_port(), requests=5))
    assert found.lost == {"refused": 5} and found.latencies() == {}


def test_a_kept_connection_is_used_again() -> None:
    firsts = []

    def behave(connection: socket.socket, number: int, which: int) -> bool:
        firsts.append(which == 0)
        return answered(connection)

    with serving(behave) as server:
        assert not sent(plan(server.port, keep=True)).lost
        assert sum(firsts) < 50
        firsts.clear()
        assert not sent(plan(server.port)).lost
        assert sum(firsts) == 50


def test_who_gives_up_asks_again() -> None:
    """The number stays: so it can be seen that work is done twice."""
    def behave(connection: socket.socket, number: int, which: int) -> bool:
        connection.sendall(PAGE if server.asked[number] == 3 else BUSY)
        return False

    with serving(behave) as server:
        assert not sent(plan(server.port, requests=5, tries=3)).lost
        assert server.asked == dict.fromkeys(range(5), 3)
        server.asked.clear()
        found = sent(plan(server.port, requests=5, tries=2))
        assert found.lost == {"503": 5}
        assert [row[4] for row in found.rows] == [2] * 5


def test_it_does_not_wait_for_responses() -> None:
    """No request is answered before all have come."""
    together = threading.Barrier(50, timeout=30)

    def behave(connection: socket.socket, *_: int) -> bool:
        together.wait()
        return answered(connection)

    with serving(behave) as server:
        assert not sent(plan(server.port, timeout=30.0)).lost


def test_latency_counts_from_when_a_request_was_due() -> None:
    class Held(Load):
        async def attempt(self, number: int) -> tuple[str, str]:
            if number == 0:
                time.sleep(0.4)  # of the whole program
            return await super().attempt(number)

    with serving(answered) as server:
        found = sent(plan(server.port, requests=10), Held)
    for due, latency, outcome, _, _ in found.rows:
        assert outcome == "ok" and due + latency >= 0.4
    assert found.lag >= 0.3


@pytest.mark.parametrize("seed", [0, 1])
def test_when_requests_are_due(seed: int) -> None:
    phases = ((100.0, 2.0), (300.0, 1.0))
    wanted = Plan("", 0, phases, seed=seed)
    due = list(wanted.due())
    assert due == sorted(due) == list(wanted.due())
    counts = sum(at < 2 for at in due), sum(at >= 2 for at in due)
    if seed:
        assert all(a == pytest.approx(b, rel=0.25)
                   for a, b in zip(counts, (200, 300), strict=True))
        gaps = itertools.pairwise(due)
        assert len({round(b - a, 6) for a, b in gaps}) > 100
    else:
        assert counts == pytest.approx((200, 300), abs=1)
    assert due[-1] < 3 and due[0] == 0


def test_what_responses_say() -> None:
    rows = [
        (0.0, 0.1, "ok", "h1", 1), (0.5, 1.6, "ok", "h2", 1),
        (1.0, 9.0, "timeout", "", 3), (1.1, 0.1, "ok", "h1", 2),
    ]
    found = Answers(rows)
    assert (len(found.good), found.late) == (3, 1)
    assert found.lost == {"timeout": 1}
    assert found.per_second(3) == [1, 1, 1]
    assert found.latencies() == {
        "p50": 100.0, "p90": 1600.0, "p99": 1600.0, "max": 1600.0,
    }
    assert found.shares() == {"h1": 2 / 3, "h2": 1 / 3}
    assert found.between(0.5, 1.1).rows == rows[1:3]


def test_a_request_that_arrives_twice_is_counted_so() -> None:
    def packet(number: int, port: int, place: int) -> bytes:
        tcp = struct.pack("!HHI", port, 8000, place).ljust(20)
        return (
            bytes(14) + bytes(9) + b"\6" + bytes(10) + tcp
            + b"GET /?%d HTTP/1.1\r\n\r\n" % number
        )

    one, two = Tap(), Tap()
    one.take(packet(7, 5000, 1))
    one.take(packet(7, 5000, 1))  # the same, sent again by TCP
    one.take(packet(8, 5000, 50))  # the next on the same connection
    one.take(bytes(60))
    assert arrivals([one, two], range(9)) == (2, 0)
    two.take(packet(7, 5001, 1))
    assert arrivals([one, two], range(9)) == (3, 1)
    assert arrivals([one, two], range(8, 9)) == (1, 0)


# The balancer -------------------------------------------------------------


def test_every_experiment_has_its_own_cases() -> None:
    for name, module in BY_NAME.items():
        assert f"hosts-{name}" in MORE_SUITES and "\n" not in module.HELP
        for smoke in (True, False):
            cases = module.cases(smoke)
            assert cases == module.cases(smoke)
            names = Counter(
                (c.server, c.variant) for case in cases for c in case.all
            )
            assert set(names.values()) == {1}


def test_haproxy_likes_every_configuration(
    haproxy: str, tmp_path: Path
) -> None:
    every = {
        one.balancing for module in BY_NAME.values()
        for smoke in (True, False) for case in module.cases(smoke)
        for one in case.all
    }
    for number, one in enumerate(every):
        file = tmp_path / f"{number}.cfg"
        file.write_text(one.configuration(
            [("h1", "127.0.0.1:1"), ("h2", "127.0.0.1:2")],
            "127.0.0.1:3", tmp_path / "admin.sock",
        ))
        done = subprocess.run(
            [haproxy, "-c", "-f", str(file)], check=False, text=True,
            capture_output=True,
        )
        assert (done.returncode, "WARNING" in done.stderr) == (0, False), (
            f"{file.read_text()}\n{done.stderr}"
        )


@needs_haproxy
def test_a_configuration_that_haproxy_refuses(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="HAProxy: "):
        Balancer(
            Balancing("nonsense"), [("h1", "127.0.0.1:1")],
            ("127.0.0.1", free_port()), tmp_path,
        )


@needs_haproxy
def test_a_balancer_tells_who_is_out() -> None:
    """By its runtime socket, and in what it says."""
    with (
        tempfile.TemporaryDirectory() as folder,  # a path that is short
        serving(answered) as server, serving(answered) as other,
    ):
        ports = server.port, other.port
        hosts = [(f"h{n}", f"127.0.0.1:{p}") for n, p in enumerate(ports, 1)]
        settings = Balancing(
            check="check inter 50ms fall 2 rise 1",
            defaults=("timeout check 10s",),  # however busy the machine
        )
        with Balancer(
            settings, hosts, ("127.0.0.1", free_port()),
            Path(folder),
        ) as one:
            found = sent(plan(one.address[1], requests=10))
            assert found.shares() == {"h1": 0.5, "h2": 0.5}
            one.drain("h1")
            assert not one.is_up("h1") and one.is_up("h2")
            found = sent(plan(one.address[1], requests=10))
            assert found.shares() == {"h2": 1.0}
            one.ready("h1")
            assert one.is_up("h1")
            begun = time.time()
            server.listener.shutdown(socket.SHUT_RDWR)
            server.listener.close()
            assert eventually(lambda: not one.is_up("h1"))
            assert eventually(lambda: len(one.downs("h1")) == 1)
            assert begun < one.downs()[0] <= time.time()
            with pytest.raises(KeyError):
                one.state("h3")


# The command --------------------------------------------------------------


def test_without_haproxy_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    (tmp_path / "apt-get").write_text("")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(balancer, "PLACES", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert status_of(hosts, tmp_path / "new") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "HAProxy is missing. To install it: sudo apt-get install" in said
    assert said.endswith("-y haproxy")
    assert not (tmp_path / "new").exists()


def test_an_old_haproxy_is_refused(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(balancer, "version", lambda: "2.4.22")
    assert status_of(hosts, tmp_path / "new") == 2
    assert "HAProxy is 2.4.22 here: it has to be 2.6" in (
        capsys.readouterr().err
    )


def test_a_path_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    with pytest.raises(LaunchError, match="too long for a socket: set TMP"):
        Balancer(Balancing(), [], ("127.0.0.1", 0), folder)


CASE = Case(
    server="06", variant="one", phases=((1, 1.0),),
    beside=(Case(server="06", variant="two", phases=((1, 1.0),)),),
)
# What its runs say, its options -> the status, what it kept, and how it
# called them.
Play = Callable[..., tuple[int, Results, list[list[str]]]]


@pytest.fixture
def play(monkeypatch: Patch, tmp_path: Path) -> Play:
    """The command, with runs that only say what they are told to."""
    monkeypatch.setattr(balancer, "version", lambda: "2.6.0")
    monkeypatch.setattr(hosts, "way", lambda: (hosts.CABLE, ""))

    def played(
        *said: str | LabError, case: Case = CASE, words: Sequence[str] = ()
    ) -> tuple[int, Results, list[list[str]]]:
        module = SimpleNamespace(HELP="", cases=lambda smoke: [case])
        monkeypatch.setattr(hosts, "BY_NAME", {"storm": module})
        said_by = Mock(side_effect=said)
        monkeypatch.setattr(hosts, "said_by", said_by)
        status, kept = run(hosts, tmp_path, *words)
        return status, kept, [call.args[0] for call in said_by.mock_calls]

    return played


def made(*lags: float) -> str:
    """What a run says: of each load, how far it lagged."""
    return json.dumps([
        {"run": {"command": "", "requests": which, "extra": {
            "sent": 1, "lag_ms": lag}}, "raw": "said"}
        for which, lag in enumerate(lags, 1)
    ])


def test_runs_made_at_once_are_points_of_their_own(
    play: Play, tmp_path: Path
) -> None:
    status, kept, asked = play(made(1, 2))
    assert status == 0 and asked == [["cable", "storm", "0"]]
    assert [(p.variant, p.runs[0].requests) for p in kept.points] == [
        ("one", 1), ("two", 2),
    ]
    assert kept.tools["haproxy"] == "2.6.0" and kept.load == "python"
    assert raw.read(tmp_path, "storm").count("said") == 2


def test_if_one_run_fails_all_that_were_made_with_it_fail(play: Play) -> None:
    status, kept, asked = play(LabError("h1 did not stop"))
    assert status == 1 and len(asked) == 1
    assert [(p.status, p.reason) for p in kept.points] == [
        ("failed", "h1 did not stop")
    ] * 2


@pytest.mark.parametrize(("lags", "words"), [
    ([(1, 9999), (9999, 1), (3, 4)], []),
    ([(9999, 9999)] * (1 + hosts.AGAIN), []),  # not for ever
    ([(9999, 9999)], ["--smoke"]),
])
def test_a_load_that_was_disturbed_is_made_again(
    lags: list[tuple[float, float]], words: list[str], play: Play
) -> None:
    _, kept, asked = play(*itertools.starmap(made, lags), words=words)
    assert len(asked) == len(lags)
    assert tuple(p.runs[0].extra["lag_ms"] for p in kept.points) == lags[-1]


def test_without_a_cable_what_needs_one_is_skipped(
    play: Play, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(hosts, "way", lambda: (hosts.LOOPBACK, "no root"))
    status, kept, asked = play(case=replace(CASE, cable=True))
    assert status == 0 and not asked
    assert [(p.status, p.reason) for p in kept.points] == [
        ("skipped", "it needs a cable to pull: no root")
    ] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("network", [hosts.CABLE, hosts.LOOPBACK])
@needs_haproxy
def test_nothing_is_left_of_a_run_that_is_ended(
    number: signal.Signals, network: str, tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if network == hosts.CABLE:
        request.getfixturevalue("cable")
    forbidden = network == hosts.LOOPBACK
    if forbidden:
        file = tmp_path / "unshare"
        file.write_text("#!/bin/sh\necho unshare: not permitted >&2; exit 1")
        file.chmod(0o755)

    def loaded(family: list[psutil.Process]) -> bool:
        return any(load.__name__ in process.cmdline() for process in family)

    words = ["hosts", "storm", "--output", str(tmp_path / "new")]
    path = f"{tmp_path}:{os.environ['PATH']}"
    # A socket's path has at most 107 bytes, and pytest's are long.
    with tempfile.TemporaryDirectory() as folder:
        with under_way(words, loaded, TMPDIR=folder, PATH=path) as (
            child, family
        ):
            programs = [process.name() for process in family]
            assert "haproxy" in programs and len(family) >= 6
            child.send_signal(number)
            said = child.communicate(timeout=60)[0]
        assert not psutil.wait_procs(family, 25)[1]  # a load takes 28
        assert child.returncode == (130 if number == signal.SIGINT else -9)
        assert "Traceback" not in said
        if forbidden:
            assert "Ports of the loopback interface stand for hosts" in said
            assert "hosts here: unshare: not permitted" in said
        assert not any(Path(folder).iterdir())
    there = {"unshare"} if forbidden else set()
    assert {path.name for path in tmp_path.iterdir()} - {"new"} == there
    wired = {"br0", "cable1", "cable2", "cable3"}
    assert not wired & set(psutil.net_if_addrs())


@needs_cable
@pytest.mark.thorough
@slow
def test_a_smoke_run(tmp_path: Path) -> None:
    """All experiments, and what each promises to keep."""
    words = ["hosts", "--smoke", "--output", tmp_path]
    done = printed("-m", "tools.bench", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    kept = results(tmp_path)
    assert kept.complete and kept.mode == "hosts"
    assert kept.tools["haproxy"] and kept.tools["network"] == hosts.CABLE
    for name, module in BY_NAME.items():
        points = kept.suite(f"hosts-{name}")
        assert [(p.server, p.variant) for p in points] == [
            (c.server, c.variant)
            for case in module.cases(True) for c in case.all
        ]
        for point in points:
            (one,) = point.runs
            assert one.error is None
            assert one.extra["sent"] == one.requests + one.failed
            lost = {k: v for k, v in one.extra.items() if k[:5] == "lost_"}
            assert sum(lost.values()) == one.failed
            assert one.extra["arrived"] >= one.requests
    for point in kept.suite("hosts-slow"):
        shares = [point.runs[0].extra[f"share_h{n}"] for n in (1, 2, 3)]
        assert sum(shares) == pytest.approx(1, abs=0.01)
    for point in kept.suite("hosts-storm"):
        series = point.runs[0].series
        assert len(series["sent"]) == len(series["good"]) == 3
    assert str(ROOT) not in (tmp_path / "results.json").read_text()
