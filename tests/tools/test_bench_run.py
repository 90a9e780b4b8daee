"""tools.bench.run and server: good servers, and ones that go wrong.

Peers too: they run in the same way, but say nothing when they are ready.
"""

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from tests.marks import Patch
from tests.tools.experiment import session as a_session
from tests.tools.faulty import faulty
from tools.bench import load as loads
from tools.bench import plan, server, session, table, wrk
from tools.bench import run as bench_run
from tools.bench.ab import Load
from tools.bench.cost import Meter
from tools.bench.session import Session
from tools.data import raw
from tools.data.results import LATENCIES, MORE_SUITES, Point, Run, load
from tools.peers import Peer
from tools.peers import by_name as peer_by_name
from tools.servers import Server, by_name

MakeServer = Callable[..., Any]
SHORT = Load(4, 40, 60)

@pytest.fixture
def fake(tmp_path: Path) -> MakeServer:
    """Makes a server, or a peer, with the fault named."""

    def make(fault: str = "good", peer: bool = False) -> Any:
        one = faulty(tmp_path, fault)
        words = (sys.executable, one.file, "--port", "{port}")
        return Peer(one.name, "a fake", "None.", words) if peer else one

    return make


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Session]:
    bench = a_session(tmp_path / "results")
    bench.console = Console(file=io.StringIO(), width=100)
    yield bench
    assert children() == [], "a process is left behind"


others: list[psutil.Process] = []  # that other tests keep running


@pytest.fixture(autouse=True)
def whose_is_what() -> None:
    others[:] = psutil.Process().children(recursive=True)


def children() -> list[psutil.Process]:
    """The processes that this test has started."""
    found = psutil.Process().children(recursive=True)
    return [each for each in found if each not in others]


def screen(bench: Session) -> str:
    """What was printed, with the tables, in one line."""
    table.show(bench.results, bench.console)
    file = bench.console.file
    assert isinstance(file, io.StringIO)
    return " ".join(file.getvalue().split())


def measure(
    bench: Session, one: Server | Peer, load: Load | wrk.Load = SHORT,
    suite: str = "classic", repeats: int = 1,
) -> Run:
    delay = 0.1 if suite == "classic" else 0.0
    task = plan.Task(one, suite, delay, load)
    bench_run.measure_all(bench, [task], repeats)
    return bench.points[-1].runs[-1]


@pytest.mark.parametrize("peer", [False, True])
def test_a_good_run_has_every_figure_and_is_saved(
    bench: Session, fake: MakeServer, peer: bool
) -> None:
    run = measure(bench, fake(peer=peer), repeats=2)
    assert run.error is None
    assert run.requests == 40
    assert run.failed == run.non_2xx == 0
    assert run.requests_per_second
    assert set(run.latency_ms) == set(LATENCIES)
    assert run.body_bytes == 249
    assert run.figure("cpu_ms")
    assert (run.peak_memory or 0) > 1_000_000
    assert (run.threads or 0) >= 1
    assert run.context_switches is not None
    text = raw.read(bench.folder, "good")
    for command in run.command.splitlines():
        assert f"$ {command}\n" in text
    assert text.count("Complete requests:") == 2
    assert " -t 60 -n 40 -c 4 http://127.0.0.1:" in command
    assert f"$ {command}" in screen(bench)  # before it ran
    saved = load(bench.folder)
    assert not saved.complete
    assert saved.points == bench.results.points


@pytest.mark.parametrize(("fault", "peer", "words"), [
    ("crashes", False, "the server does not start: no such colour"),
    ("crashes", True, "the server does not start: no such colour"),
    ("never ready", False, "the server was not ready 0.5 s after its start"),
    ("never ready", True, "the server was not ready 0.5 s after its start"),
    ("busy", False, "GET / is answered with status 503"),
    ("another page", True, "GET / is answered with another page (249 bytes "
     "instead of 249)"),
    ("another type", True, "GET / is answered with Content-Type: text/html "
     "instead of text/html; charset=utf-8"),
    ("dies", False, "the server died: no more today"),
])
def test_a_server_that_does_not_work_is_a_row(
    bench: Session, fake: MakeServer, fault: str, peer: bool,
    words: str, monkeypatch: Patch,
) -> None:
    if fault == "never ready":
        monkeypatch.setattr(server, "READY_SECONDS", 0.5)
    monkeypatch.setattr(session, "DYING_SECONDS", 10.0)
    run = measure(bench, fake(fault, peer=peer))
    point = bench.results.points[-1]
    assert run.error == point.reason == words
    assert point.status == "failed"
    assert load(bench.folder).points == [point]
    assert words in screen(bench)


def test_a_server_that_is_missing_is_a_row(bench: Session) -> None:
    missing = Server("99", 9, "99_none/server.py", "", "", {"overlap": "no"})
    assert measure(bench, missing).error == "there is no 99_none/server.py"


@pytest.mark.thorough
def test_a_server_that_falls_silent(
    bench: Session, fake: MakeServer, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(loads, "GRACE_SECONDS", 0.5)
    run = measure(bench, fake("falls silent"), Load(4, 40, 1))
    assert run.error is not None
    assert "the server had stopped answering" in run.error
    assert 0 < run.requests < 40


def test_failed_requests_are_counted_and_no_end(
    bench: Session, fake: MakeServer
) -> None:
    run = measure(bench, fake("resets"))
    assert run.error is None
    # Two requests of the warm-up are answered first.
    assert (run.requests, run.failed) == (32, 8)


@pytest.mark.parametrize("fault", ["ignores SIGTERM", "leaves a worker"])
def test_what_does_not_end_is_killed(fake: MakeServer, fault: str) -> None:
    process = server.start(fake(fault), 0.1)
    family = process.processes()
    process.stop(0.3)
    assert not psutil.wait_procs(family, 10)[1]
    assert children() == []


def test_an_interrupt_ends_all_processes(
    bench: Session, fake: MakeServer, monkeypatch: Patch
) -> None:
    def sample(meter: Meter) -> None:  # the first is before the load
        if len(children()) > 1:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Meter, "sample", sample)
    with pytest.raises(KeyboardInterrupt):
        measure(bench, fake("falls silent"), Load(4, 40, 60))
    assert children() == []


def test_an_interrupt_at_its_start_leaves_no_server(
    fake: MakeServer, monkeypatch: Patch
) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **how: Any) -> None:
            super().__init__(*words, **how)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("tools.common.launch.subprocess.Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        server.start(fake("falls silent"), 0.1)
    assert children() == []


@pytest.mark.thorough
def test_a_sweep_ends_where_server_or_machine_do(
    bench: Session, fake: MakeServer, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(plan, "SWEEP_SECONDS", 0.1)
    monkeypatch.setattr(session, "DYING_SECONDS", 10.0)
    limit = 16, "this machine is small"
    bench_run.sweep(bench, [fake(), fake("dies")], 2, limit)
    line = bench.results.suite("sweep", "good")
    assert [p.clients for p in line] == [1, 2, 4, 8, 16]
    assert [p.end for p in line] == [False] * 4 + [True]
    ends = {p.server: p.reason for p in bench.results.points if p.end}
    assert ends == {
        "dies": "the server died: no more today",
        "good": "this machine is small",
    }
    assert "no more today" in screen(bench)


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("strace"),
    reason="strace is needed",
)
def test_system_calls_are_counted(bench: Session, fake: MakeServer) -> None:
    run = measure(bench, fake(), Load(1, 20, 60), "syscalls")
    if run.error and "could not attach" in run.error:
        pytest.skip(run.error)
    assert run.error is None
    assert run.system_calls["sendto"] == 20
    assert run.requests_per_second is None  # strace made it slow
    assert "strace -f -c -p" in run.command


def test_a_run_with_wrk(
    bench: Session, tmp_path: Path, monkeypatch: Patch
) -> None:
    printed = Path(__file__).parent / "data" / "wrk" / "good.txt"
    script = f"#!/bin/sh\ncat {shlex.quote(str(printed))}"
    (tmp_path / "wrk").write_text(script)
    (tmp_path / "wrk").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    run = measure(bench, by_name("06-protocol"), wrk.Load(4, 1), "peer-keep")
    assert (run.error, run.requests) == (None, 27172)
    assert "\nwrk -t1 -c4 -d1s " in run.command
    assert bench.results.points[0].keep_alive


def test_the_cheapest_peer_stands_first_and_nginx_is_one(
    bench: Session
) -> None:
    for name, cpu in {"node": 0.015, "nginx": 0.01, "07": 0.008}.items():
        runs = [
            Run(
                "x", requests=1000, seconds=1.0, requests_per_second=1000.0,
                cpu_user=cpu * part / 4, cpu_system=cpu * part * 3 / 4,
                latency_ms={"p50": 0.25, "p99": 2.0},
            )
            for part in (0.9, 1.0, 1.1)
        ]
        point = Point(name, "peer-keep", 100, 0.0, runs=runs)
        bench.results.points.append(point)
    granian = peer_by_name("granian")
    task = plan.Task(granian, "peer-keep", 0.0, wrk.Load(100, 3))
    bench_run.skip(bench, [task], "granian is not to be had")
    said = screen(bench)
    assert f"peer-keep: {MORE_SUITES['peer-keep']}" in said
    rows = (
        "07 8.0 0.80 25 % ", " 7.2-8.8 ", "nginx 10.0 1.00 25 % ",
        "node 15.0 1.50 25 % ", "granian skipped ", "granian is not to be had",
    )
    places = [said.find(row) for row in rows]
    assert places == sorted(places) and places[0] > 0


def test_rows_of_system_calls_and_of_the_sweep(bench: Session) -> None:
    made = {"recv": 1, "close": 2, "sendto": 5, "poll": 0}
    bench.points.append(Point(
        "02", "syscalls", 50, 0.0, runs=[Run("x", 2, system_calls=made)]
    ))
    bench.points.extend(
        Point("03", "sweep", clients, 0.1, reason=reason, runs=[Run("x", 9)])
        for clients, reason in ((1, ""), (2, "it burns"))
    )
    said = screen(bench)
    assert "02 50 4.0 sendto, close, recv" in said
    assert "03 2 " in said and "03: it burns" in said
    assert "03 1 " not in said  # only how far it came


def test_cpu_time_is_that_of_the_load() -> None:
    with server.start(by_name("02"), 0.0) as process:
        idle = Meter(process).read()
        assert idle.cpu_user + idle.cpu_system < 0.02
        meter = Meter(process)
        process.warm_up(1)  # below a step of the kernel's clock
        little = meter.read()
        process.warm_up(100)
        busy = meter.read()
    costs = [c.cpu_user + c.cpu_system for c in (little, busy)]
    assert 0 < costs[0] < costs[1] < 5.0


def run_with(worst: float = 100.0, **figures: Any) -> Run:
    return Run(
        "", latency_ms={"max": worst},
        **{"requests": 80, "seconds": 12.0} | figures,
    )


@pytest.mark.parametrize(("run", "reason"), [
    (run_with(), ""),
    (run_with(failed=2), "2 of 82 requests failed"),
    (run_with(worst=10_400), "a client waited 10.4 s for its response"),
    (run_with(requests=6), "2 of 8 clients had no response after 12 s"),
    (run_with(error="it burns"), "it burns"),
])
def test_why_a_line_ends(run: Run, reason: str) -> None:
    point = Point("03", "sweep", 8, 0.1, runs=[run])
    bench_run.judge(point)
    assert (point.end, point.reason) == (bool(reason), reason)
    # One bad run of three does not end a line.
    point = Point("03", "sweep", 8, 0.1, runs=[run_with(), run, run_with()])
    bench_run.judge(point)
    assert not point.end


def test_a_load_that_does_not_end_is_killed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(loads, "END_SECONDS", 0.2)
    stubborn = (
        "import signal, time; signal.signal(2, signal.SIG_IGN); "
        "print('hello', flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", stubborn]
    text, late = loads.run_load(words, 1.5, lambda: None)
    assert late and text in ("hello\n", "")
    assert children() == []
