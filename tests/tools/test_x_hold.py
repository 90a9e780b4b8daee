"""tools.bench.holder and x_hold: every connection is accounted for."""

import argparse
import io
import ipaddress
import math
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tools.bench import hold_limits, holder, preflight, x_hold
from tools.bench.server import start
from tools.data.results import Machine, Point, Results, Run, load
from tools.servers import ROOT, by_name

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 249\r\n\r\n" + b"p" * 249
OTHER = GOOD.replace(b"p", b"q")
SHORT = GOOD.replace(b"249", b"3")[:-246]
BUSY = GOOD.replace(b"200 OK", b"503 Busy")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(x_hold, "MARGIN_SECONDS", 0.0)
    monkeypatch.setattr(x_hold, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(x_hold, "SAMPLE_SECONDS", 0.05)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x_hold.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def answering(answers: list[bytes]) -> int:
    """The port of a server that gives each connection one of these."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def test_each_answer_is_judged() -> None:
    answers = [GOOD, GOOD, OTHER, SHORT, BUSY, GOOD[:-1], b""]
    one = holder.Holder(answering(answers), len(answers))
    one.open()
    one.read(10)
    tally = one.tally
    assert tally.opened == 7
    assert (tally.answered, tally.wrong, tally.failed) == (2, 3, 2)
    assert tally.error
    assert tally.first_open <= tally.last_open <= tally.last_answer


def test_an_answer_is_judged_when_it_is_complete() -> None:
    for size in range(len(GOOD)):
        assert holder.judge(GOOD[:size]) is None
    assert holder.judge(GOOD) == b"p" * 249
    assert holder.judge(BUSY) == b""


def test_no_answer_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        one = holder.Holder(port, 3)
        one.open()
        one.read(0.1)
    assert (one.tally.opened, one.tally.failed) == (3, 3)
    assert one.tally.unanswered == 3
    assert "3 had no answer" in one.tally.error


def test_opening_has_an_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = holder.Holder(listener.getsockname()[1], 1000)
        one.open(0.0)
    assert not one.tally.in_time
    assert one.tally.opened == 0
    assert "no more" in one.tally.error


def test_a_port_that_nobody_serves_is_said() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        one = holder.Holder(bound.getsockname()[1], 3)
        one.open()
        one.read(1)
    assert (one.tally.opened, one.tally.failed) == (0, 3)
    assert "a connection failed" in one.tally.error


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="the queue is seen on Linux"
)
def test_the_queue_for_accept_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert holder.waiting(port) == 0
        clients = [socket.create_connection(("127.0.0.1", port))
                   for _ in range(5)]
        assert holder.waiting(port) == 5
        for client in clients:
            client.close()


# What fits ---------------------------------------------------------------


def test_as_many_as_fit() -> None:
    seven, six = by_name("07"), by_name("06")
    fits = hold_limits.fit_files(seven, 5000, 20_000, ())
    assert fits == hold_limits.Fit(5000)
    fits = hold_limits.fit_files(seven, 65_536, 20_000, ())
    assert (fits.clients, fits.stop) == (65_536, "")
    assert fits.extra == ("--workers", "4", "--worker-kind", "process")
    assert "no more than 20,000 open files: 4 worker processes" in fits.note
    fits = hold_limits.fit_files(seven, 65_536, 20_000, ("--workers", "2"))
    assert (fits.clients, fits.extra) == (37_973, ("--workers", "2"))
    assert fits.stop.startswith("descriptors: this machine allows")
    fits = hold_limits.fit_files(six, 65_536, 20_000, ())
    assert fits.clients == 19_936
    assert fits.stop.startswith("descriptors: this machine allows")
    threads = ("--workers", "9", "--worker-kind", "thread")
    fits = hold_limits.fit_files(seven, 65_536, 20_000, threads)
    assert fits.clients == 19_936


def test_the_load_needs_descriptors_too() -> None:
    fits = hold_limits.fit_files(by_name("07"), 65_536, 264, ())
    assert fits.clients == 200 * hold_limits.MOST_HOLDERS
    assert "the load needs one for each client" in fits.stop


def test_a_thread_each_leaves_some_to_others(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"kernel.pid_max": 1000, "vm.max_map_count": 10}
    monkeypatch.setattr(hold_limits, "thread_limits", lambda: limits)
    fits = hold_limits.fit_threads(by_name("03"), 900)
    assert fits.clients == 800
    assert fits.stop.startswith("threads: ")
    assert "kernel.pid_max" in fits.stop  # the other is the server's own
    assert hold_limits.fit_threads(by_name("03"), 800).stop == ""
    assert hold_limits.fit_threads(by_name("05-heap"), 900).clients == 900


def test_memory_is_not_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold_limits, "free_memory", lambda: 10**9)
    assert hold_limits.fit_memory(10**6, 0.0).clients == 10**6  # not known
    fits = hold_limits.fit_memory(100_000, 15_904.0)
    assert fits.clients == 40_000
    assert fits.stop.startswith("memory: 100,000 clients would take 1.6 GB")
    assert hold_limits.fit_memory(40_000, 15_904.0).stop == ""


def test_the_smallest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold_limits, "free_memory", lambda: 10**9)
    fits = hold_limits.fit(by_name("06"), 65_536, 20_000, (), 95_904.0)
    assert (fits.clients, fits.stop[:7]) == (8_000, "memory:")
    fits = hold_limits.fit(by_name("06"), 65_536, 2_000, (), 95_904.0)
    assert (fits.clients, fits.stop[:12]) == (1_936, "descriptors:")


def test_how_many_wait_at_once() -> None:
    assert hold_limits.at_once(by_name("02"), ()) == 1
    assert hold_limits.at_once(by_name("06"), ()) is None
    assert hold_limits.at_once(by_name("03-pool"), ()) == 10
    some = ("--workers", "7")
    assert hold_limits.at_once(by_name("06-executor"), some) == 7
    assert hold_limits.needed_seconds(100, 10, 1) == 1000
    assert hold_limits.needed_seconds(101, 10, 10) == 110
    assert hold_limits.needed_seconds(100, 10, None) == 10


def test_the_limits_of_threads() -> None:
    limits = hold_limits.thread_limits()
    assert all(most > 0 for most in limits.values())
    if sys.platform == "linux":
        assert {"kernel.pid_max", "vm.max_map_count"} <= set(limits)


# What stopped it ---------------------------------------------------------


def stopped_by(name: str, tally: holder.Tally, **more: object) -> str:
    values = {
        "total": 10, "done": [tally], "threads": 1, "fullest": 20,
        "limit": 1024, "died": None, "seconds": 60.0, **more,
    }
    seen = hold_limits.Seen(**values)  # type: ignore[arg-type]
    return hold_limits.stopped_by(by_name(name), seen)


CLOSED = holder.Tally(
    10, 7, failed=3, error="a connection ended without its answer: reset"
)
LATE = holder.Tally(10, 7, failed=3, unanswered=3, error="no answer")
BAD_408 = holder.Tally(
    10, 7, wrong=3, error="a wrong answer: b'HTTP/1.1 408 Request Timeout"
)


@pytest.mark.parametrize(
    ("name", "tally", "more", "expected"),
    [
        ("03", holder.Tally(10, 10), {}, ""),
        ("03", CLOSED, {"threads": 8}, "threads: the server had 8"),
        ("03", CLOSED, {"threads": 11}, "closed: a connection ended"),
        ("06", CLOSED, {"threads": 1}, "closed: a connection ended"),
        ("03", LATE, {"threads": 8}, "time: 3 clients had no answer from 8 "),
        ("06", LATE, {}, "time: 3 clients had no answer after 60 s"),
        ("06", CLOSED, {"fullest": 1024}, "descriptors: a process of it"),
        (
            "06", holder.Tally(7, 7, failed=3, error="[Errno 24] Too many "
                               "open files"),
            {}, "descriptors: the load",
        ),
        ("06", BAD_408, {}, "time: the server gave up on requests"),
        ("06", holder.Tally(10, 7, 3, error="a wrong answer"), {}, "wrong:"),
        ("06", CLOSED, {"died": "ended by SIGKILL"}, "memory: "),
        ("06", CLOSED, {"died": "MemoryError"}, "memory: "),
        ("03", CLOSED, {"died": "can't start new thread"}, "threads: "),
        ("06", CLOSED, {"died": "exit status 1"}, "died: "),
    ],
)
def test_what_stopped_it(
    name: str, tally: holder.Tally, more: dict[str, object], expected: str
) -> None:
    found = stopped_by(name, tally, **more)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    assert found.partition(":")[0] in {"", *hold_limits.KINDS}


@pytest.mark.parametrize("limit", [256, 1024, 20_000, 10**6])
def test_every_holder_has_addresses_of_its_own(limit: int) -> None:
    shares = x_hold.holders(65_536, limit)
    assert sum(share for share, _ in shares) == 65_536
    assert all(share <= limit - holder.ROOM for share, _ in shares)
    used: set[object] = set()
    for share, first in shares:
        if sys.platform != "linux":  # there is only one address
            break
        for number in range(math.ceil(share / holder.PER_ADDRESS)):
            address = ipaddress.ip_address(first) + number
            assert address.is_loopback
            assert address not in used
            used.add(address)


# Whole runs --------------------------------------------------------------


def run(
    folder: Path, *words: str
) -> tuple[int, Results, str]:
    """Status, results and what was printed."""
    file = io.StringIO()
    results = Results(
        "./bench.sh hold", "hold", "2026-01-01T00:00:00+00:00", "", MACHINE,
        {},
    )
    console = Console(file=file, width=200)
    status = x_hold.run(options(*words), results, folder, console)
    return status, results, file.getvalue()


def test_a_run_is_kept_and_shown(tmp_path: Path) -> None:
    status, results, text = run(
        tmp_path, "--only", "06-protocol", "--clients", "50,10",
        "--delay", "0.8",
    )
    assert status == 0, text
    assert load(tmp_path).points == results.points
    assert [p.clients for p in results.points] == [10, 50]
    point = results.points[1]
    (one,) = point.runs
    assert (point.status, point.reason, point.end) == ("ok", "", False)
    assert one.requests == one.extra["connections"] == 50
    assert one.failed == 0
    assert one.extra["descriptors"] == 50
    assert one.extra["open_seconds"] < 0.8 < one.seconds
    assert 0.8 < one.extra["first_answer_seconds"] <= one.seconds
    assert f"{one.seconds:,.1f} s" in text
    raw = (tmp_path / "raw" / "06-protocol.txt").read_text()
    assert "$ python3 -m tools.bench.holder" in raw
    assert '"answered": 50' in raw


def test_one_after_the_other_is_stopped_by_time(tmp_path: Path) -> None:
    status, results, text = run(
        tmp_path, "--only", "02", "--clients", "20,40", "--delay", "0.5",
        "--patience", "5",
    )
    assert status == 0, text
    (point,) = results.points  # 40 are not tried any more
    assert (point.status, point.end, point.clients) == ("failed", True, 20)
    assert point.reason == (
        "time: 20 requests of 0.5 s, one after the other, take 10 s; "
        "clients wait 5 s"
    )
    (one,) = point.runs
    assert one.extra["needed_seconds"] == 10
    assert 1 <= one.requests < 10  # a few were measured
    assert "time" in text


def test_a_pool_is_stopped_by_time(tmp_path: Path) -> None:
    _, results, _ = run(
        tmp_path, "--only", "03-pool", "--options=--workers 2",
        "--clients", "4,40", "--delay", "0.3", "--patience", "3",
    )
    four, forty = (
        p for p in results.points if p.server == "03-pool"
    )
    assert (four.reason, four.runs[0].requests) == ("", 4)
    assert "2 at a time, take 6 s" in forty.reason


@pytest.mark.skipif(
    sys.platform != "linux", reason="ulimit -v counts on Linux"
)
def test_no_more_threads_is_said(tmp_path: Path) -> None:
    # 8 MiB of address space for a stack: some fit, 300 do not.
    done = subprocess.run(
        ["bash", "-c", "ulimit -s 8192 -v 1500000; exec \"$@\"", "bash",
         sys.executable, "-m", "tools.bench", "hold", "--only", "05",
         "--clients", "300", "--delay", "4", "--output", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    point = load(tmp_path).points[0]
    assert (point.server, point.status, point.end) == ("05", "failed", True)
    assert point.reason.startswith("threads: the server had ")
    (one,) = point.runs
    assert 0 < one.requests < 300
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture
def few_files() -> Iterator[int]:
    """A hard limit cannot be raised again: the soft one, for us alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    yield 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_descriptors_end_a_row(
    tmp_path: Path, few_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        x_hold, "raise_open_files", lambda wanted: few_files
    )
    status, results, text = run(
        tmp_path, "--only", "05-heap", "--clients", "100,400,500",
        "--delay", "1.5",
    )
    assert status == 0, text
    hundred, more = (p for p in results.points if p.server == "05-heap")
    assert (hundred.clients, hundred.reason) == (100, "")
    assert (more.clients, more.status, more.end) == (400, "ok", True)
    assert more.reason.startswith("descriptors: this machine allows")
    assert more.runs[0].requests == 200 - holder.ROOM
    assert "136, then" in text


def test_what_is_held_already_is_not_tried_again(
    tmp_path: Path, few_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        x_hold, "raise_open_files", lambda wanted: few_files
    )
    _, results, _ = run(
        tmp_path, "--only", "05-heap", "--clients", "136,400",
        "--delay", "1.5",
    )
    last = results.points[-1]
    assert (last.clients, last.status, last.runs) == (400, "skipped", [])
    assert last.reason.startswith("descriptors: ")


def test_far_too_few_files_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x_hold, "raise_open_files", lambda wanted: 50)
    status, results, text = run(tmp_path, "--only", "06")
    assert (status, results.points) == (1, [])
    assert "no more than 50 open files: at least 128 are needed" in text


def test_one_core_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "core_count", lambda: 1)
    _, _, text = run(
        tmp_path, "--only", "05-heap", "--clients", "5", "--delay", "0.5"
    )
    assert "There is one core" in text


def test_a_server_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    status, results, text = run(
        tmp_path, "--only", "02", "--clients", "5,10",
        "--options=--nonsense",
    )
    assert status == 1
    (point,) = results.points
    assert point.reason.startswith("start: the server does not start")
    assert "--nonsense" in text


def test_an_interrupt_keeps_what_it_has(tmp_path: Path) -> None:
    """And leaves no process behind."""
    running = subprocess.Popen(
        [sys.executable, "-m", "tools.bench", "hold", "--only",
         "06-protocol", "--clients", "5,50", "--delay", "3",
         "--output", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        us = psutil.Process(running.pid)
        deadline = time.monotonic() + 120
        started: dict[int, psutil.Process] = {}
        while len(kept(tmp_path)) < 1 or len(started) < 4:
            assert time.monotonic() < deadline  # 2 servers, 2 holders
            assert running.poll() is None
            started |= {p.pid: p for p in us.children(recursive=True)}
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        text, _ = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130, text
    assert "Interrupted: what was measured is in" in text
    assert kept(tmp_path)[0].runs[0].requests == 5
    assert not [p for p in started.values() if p.is_running()]


def kept(folder: Path) -> list[Point]:
    """The points so far."""
    return load(folder).points if (folder / "results.json").exists() else []


def test_the_delay_grows_until_all_are_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = []

    def measure(
        server: object, plan: x_hold.Plan, *rest: object
    ) -> tuple[Run, str]:
        delays.append(plan.delay)
        if plan.delay < 60:
            raise x_hold.LateError(50)
        return Run("", requests=1, extra={"connections": 5}), ""

    monkeypatch.setattr(x_hold, "measure", measure)
    status, results, text = run(
        tmp_path, "--only", "05-heap", "--clients", "5"
    )
    assert status == 0, text
    assert delays == [10, 75]
    assert results.points[0].delay == 75


def test_opening_that_always_takes_too_long_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(*words: object) -> tuple[Run, str]:
        raise x_hold.LateError(50)

    monkeypatch.setattr(x_hold, "measure", measure)
    _, results, _ = run(tmp_path, "--only", "05-heap", "--clients", "5,6")
    (point,) = results.points
    assert point.reason.startswith("time: opening takes about 50 s")


def test_opening_that_takes_too_long_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x_hold, "MARGIN_SECONDS", 1.0)
    plan = x_hold.Plan(5, 5, 0.1, 60.0, (), None, 1024)
    with pytest.raises(x_hold.LateError):
        x_hold.measure(by_name("06"), plan, tmp_path, lambda text: None)


def test_how_long_it_will_take_is_estimated() -> None:
    plan = x_hold.Plan(100, 100, 10.0, 60.0, (), None, 1024)
    opened = [
        holder.Tally(25, first_open=5.0, last_open=15.0, in_time=False),
        holder.Tally(25, first_open=5.0, last_open=15.0, in_time=False),
    ]
    with pytest.raises(x_hold.LateError) as caught:
        x_hold.check_in_time(opened, plan)
    assert caught.value.seconds == 20
    good = [holder.Tally(100, first_open=5.0, last_open=14.0)]
    x_hold.check_in_time(good, plan)


def test_memory_of_few_clients_is_noise() -> None:
    def of(connections: int, held: int) -> Run:
        return Run("", extra={
            "connections": connections, "descriptors": held,
            "user_bytes_per_connection": 100.0,
        })  # fmt: skip

    assert x_hold.bytes_each(of(1000, 1000)) == 100
    assert x_hold.bytes_each(of(999, 999)) == 0
    assert x_hold.bytes_each(of(5000, 2)) == 0  # they wait outside


def test_the_state_of_a_server() -> None:
    with start(by_name("02"), 0.0) as process:
        state = x_hold.look(process)
    assert state.user_bytes > 1_000_000
    assert state.descriptors > 3


@pytest.mark.parametrize(
    "wrong",
    [
        ["--clients", "0"], ["--clients", "x"], ["--clients", ","],
        ["--clients", "9999999"], ["--delay", "x"], ["--delay", "-1"],
        ["--only", "99"], ["--only", ","], ["--patience", "0"],
        ["--options", "'"],
    ],
)
def test_nonsense_is_refused(wrong: list[str]) -> None:
    with pytest.raises(argparse.ArgumentError):
        options(*wrong)
