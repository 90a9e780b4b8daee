"""tools.bench.run and server: good servers, and ones that go wrong."""

import contextlib
import io
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from rich.progress import Progress

from tools.bench import plan, server, table
from tools.bench import run as bench_run
from tools.bench.ab import Load
from tools.bench.cost import Meter
from tools.data.results import LATENCIES, Machine, Point, Results, Run, load
from tools.servers import ROOT, Server, by_name

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
MakeServer = Callable[..., Server]
LOAD = "ab" if shutil.which("ab") else "python"
SHORT = Load(4, 40, 2)

# A server with a fault: 200 for each request, a thread for each.
FAKE = """
import os, signal, socket, struct, sys, threading, time
FAULT = {fault!r}
answered = 0
last = threading.Lock()

def answer(connection):
    global answered
    with connection:
        connection.recv(4096)
        answered += 1
        if FAULT == "dies" and answered > 10:
            last.acquire()
            print("no more today", file=sys.stderr, flush=True)
            os._exit(3)
        if FAULT == "falls silent" and answered > 10:
            time.sleep(60)
        if FAULT == "resets" and answered % 5 == 0:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return
        status = b"503 Busy" if FAULT == "busy" else b"200 OK"
        connection.sendall(
            b"HTTP/1.1 " + status + b"\\r\\nConnection: close\\r\\n"
            b"Content-Length: 5\\r\\n\\r\\nhello"
        )

if FAULT == "crashes":
    raise SystemExit("no such colour")
if FAULT == "never ready":
    time.sleep(60)
if FAULT == "ignores SIGTERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if FAULT == "leaves a worker":
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
port = listener.getsockname()[1]
print(f"Serving on http://127.0.0.1:{{port}}/ (Ctrl-C to stop)", flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=answer, args=[connection], daemon=True).start()
"""


@pytest.fixture
def fake(tmp_path: Path) -> MakeServer:
    """Makes a server with the fault named."""

    def make(fault: str = "") -> Server:
        file = tmp_path / f"{fault.replace(' ', '_') or 'good'}.py"
        file.write_text(FAKE.format(fault=fault))
        like = by_name("03")
        return Server(
            file.stem, 3, str(file), "a fake", "a thread", like.lessons
        )

    return make


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[bench_run.Bench]:
    results = Results(
        "./bench.sh", "default", "2026-01-01T00:00:00+00:00", "", MACHINE,
        {}, LOAD,
    )
    console = Console(file=io.StringIO(), width=100)
    with Progress(console=console) as progress:
        yield bench_run.Bench(
            results, tmp_path / "results", progress, (900, "it is small")
        )
    assert children() == [], "a process is left behind"


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def screen(bench: bench_run.Bench) -> str:
    file = bench.progress.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def measure(
    bench: bench_run.Bench, one: Server, load: Load = SHORT, repeats: int = 1
) -> Run:
    bench.measure_all([plan.Task(one, "classic", 0.1, load, repeats)])
    return bench.results.points[-1].runs[-1]


def test_a_good_run_has_every_figure(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    run = measure(bench, fake())
    assert run.error is None
    assert run.requests == 40
    assert run.failed == run.non_2xx == 0
    assert run.requests_per_second
    assert set(run.latency_ms) == set(LATENCIES)
    assert run.body_bytes == 5
    assert run.figure("cpu_ms")
    assert (run.peak_memory or 0) > 1_000_000
    assert (run.threads or 0) >= 1
    assert run.context_switches is not None
    assert run.command.splitlines()[0].startswith("python3 ")
    assert " -t 2 -n 40 -c 4 http://127.0.0.1:" in run.command


def test_each_command_is_shown_before_it_runs(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    run = measure(bench, fake())
    command = run.command.splitlines()[1]
    assert f"$ {command}" in screen(bench)


def test_raw_outputs_stand_under_their_commands(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    run = measure(bench, fake(), repeats=2)
    text = (bench.folder / "raw" / "good.txt").read_text()
    for command in run.command.splitlines():
        assert f"$ {command}\n" in text
    assert text.count("Complete requests:") == 2


def test_results_are_saved_after_every_point(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    measure(bench, fake())
    saved = load(bench.folder)
    assert not saved.complete
    assert saved.points == bench.results.points
    bench.finish()
    assert load(bench.folder).complete


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("crashes", "the server does not start: no such colour"),
        ("busy", "GET / is answered with status 503"),
    ],
)
def test_a_server_that_does_not_work_is_a_row(
    bench: bench_run.Bench, fake: MakeServer, fault: str, words: str
) -> None:
    run = measure(bench, fake(fault))
    point = bench.results.points[-1]
    assert run.error == point.reason == words
    assert point.status == "failed"
    assert load(bench.folder).points == [point]
    table.show(bench.results, bench.progress.console)
    assert words in " ".join(screen(bench).split())


def test_a_server_that_is_missing_is_a_row(bench: bench_run.Bench) -> None:
    missing = Server("99", 9, "99_none/server.py", "", "", {"overlap": "no"})
    assert measure(bench, missing).error == "there is no 99_none/server.py"


def test_a_server_that_is_never_ready(
    bench: bench_run.Bench, fake: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READY_SECONDS", 0.5)
    error = measure(bench, fake("never ready")).error
    assert error == "the server was not ready 0.5 s after its start"


def test_a_server_that_dies_under_load(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    error = measure(bench, fake("dies")).error
    assert error == "the server died: no more today"


def test_a_server_that_falls_silent(
    bench: bench_run.Bench, fake: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_run, "GRACE_SECONDS", 0.5)
    run = measure(bench, fake("falls silent"), Load(4, 40, 1))
    assert run.error is not None
    assert "the server had stopped answering" in run.error
    assert 0 < run.requests < 40


def test_failed_requests_are_counted_and_no_end(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    run = measure(bench, fake("resets"))
    assert run.error is None
    # Two requests of the warm-up are answered first.
    assert (run.requests, run.failed) == (32, 8)


def test_a_server_that_ignores_sigterm_is_killed(
    bench: bench_run.Bench, fake: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_SECONDS", 0.3)
    assert measure(bench, fake("ignores SIGTERM")).error is None


def test_workers_that_stay_are_killed(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    assert measure(bench, fake("leaves a worker")).error is None


def test_an_interrupt_ends_all_processes(
    bench: bench_run.Bench, fake: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)

    # Tests in the background of a shell may have it ignored.
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.8, interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            measure(bench, fake("falls silent"), Load(4, 40, 20))
    finally:
        signal.signal(signal.SIGINT, old)
    assert children() == []


def test_a_sweep_ends_where_the_machine_does(
    bench: bench_run.Bench, fake: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SWEEP_SECONDS", 0.1)
    bench.limit = (2, "this machine is small")
    bench.sweep([fake()], 1)
    line = bench.results.suite("sweep")
    assert [p.clients for p in line] == [1, 2]
    assert [p.end for p in line] == [False, True]
    assert line[-1].reason == "this machine is small"


def test_a_sweep_ends_where_the_server_does(
    bench: bench_run.Bench, fake: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SWEEP_SECONDS", 0.1)
    bench.limit = (16, "this machine is small")
    bench.sweep([fake(), fake("dies")], 2)
    ends = {p.server: p.reason for p in bench.results.points if p.end}
    assert ends == {
        "dies": "the server died: no more today",
        "good": "this machine is small",
    }
    table.show(bench.results, bench.progress.console)
    assert "no more today" in screen(bench)


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("strace"),
    reason="strace is needed",
)
def test_system_calls_are_counted(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    task = plan.Task(fake(), "syscalls", 0.0, Load(1, 20, 5))
    bench.measure_all([task])
    run = bench.results.points[0].runs[0]
    if run.error and "could not attach" in run.error:
        pytest.skip(run.error)
    assert run.error is None
    assert run.system_calls["sendto"] == 20
    assert run.requests_per_second is None  # strace made it slow
    assert "strace -f -c -p" in run.command


def test_skipped_points_say_why(
    bench: bench_run.Bench, fake: MakeServer
) -> None:
    bench.skip(plan.syscalls([fake()]), "strace is not installed")
    saved = load(bench.folder).points
    assert [p.status for p in saved] == ["skipped", "skipped"]
    assert saved[0].reason == "strace is not installed"
    table.show(bench.results, bench.progress.console)
    assert "strace is not installed" in screen(bench)


def test_cpu_time_is_that_of_the_load(fake: MakeServer) -> None:
    with server.start(by_name("02"), 0.0) as process:
        meter = Meter(process)
        idle = meter.read()
        assert idle.cpu_user + idle.cpu_system < 0.02
        process.warm_up(100)
        busy = meter.read()
    assert 0.002 < busy.cpu_user + busy.cpu_system < 1.0


def test_cpu_time_below_a_step_of_the_kernel_counts() -> None:
    with server.start(by_name("02"), 0.0) as process:
        meter = Meter(process)
        process.warm_up(1)
        cost = meter.read()
    assert 0 < cost.cpu_user + cost.cpu_system < 0.5


def test_local_paths_are_taken_out_of_messages() -> None:
    text = f"can't open {ROOT}/03_threading/server.py in {Path.home()}"
    assert server.scrub(text) == "can't open 03_threading/server.py in ~"


def run_with(clients: int = 8, worst: float = 100.0, **figures: Any) -> Run:
    return Run(
        command=f"python3 x.py\nab -r -t 12 -n 80 -c {clients} URL",
        latency_ms={"max": worst},
        **{"requests": 80, "seconds": 12.0} | figures,
    )


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_with(), ""),
        (run_with(failed=2), "2 of 82 requests failed"),
        (run_with(non_2xx=3), "3 of 80 answers were errors"),
        (run_with(worst=10_400), "a client waited 10.4 s for its answer"),
        (
            run_with(clients=128),
            "48 of 128 clients had no answer after 12 s",
        ),
        (run_with(error="it burns"), "it burns"),
    ],
)
def test_why_a_line_ends(run: Run, reason: str) -> None:
    assert bench_run.trouble(run) == reason
    point = Point("03", "sweep", 8, 0.1, runs=[run])
    bench_run.judge(point)
    assert (point.end, point.reason) == (bool(reason), reason)


def test_one_bad_run_of_three_does_not_end_a_line() -> None:
    point = Point(
        "03", "sweep", 8, 0.1,
        runs=[run_with(), run_with(failed=1), run_with()],
    )
    bench_run.judge(point)
    assert not point.end


def test_a_load_that_does_not_end_is_killed(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_run, "END_SECONDS", 0.2)
    stubborn = (
        "import signal, time; signal.signal(2, signal.SIG_IGN); "
        "print('hello', flush=True); time.sleep(60)"
    )
    begun = time.monotonic()
    text, late = bench_run.run_load(
        [sys.executable, "-c", stubborn], 0.5, lambda: None
    )
    assert (text, late) == ("hello\n", True)
    assert time.monotonic() - begun < 5
    with contextlib.suppress(psutil.Error):
        assert children() == []
