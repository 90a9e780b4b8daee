"""``./bench.sh hold``: every connection is accounted for."""

import ipaddress
import math
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import answering, run, status_of, under_way
from tools.bench import machine, preflight
from tools.bench.experiments import hold, hold_ends, holder
from tools.bench.experiments.hold_ends import Fit
from tools.bench.experiments.holder import Tally
from tools.common.launch import eventually
from tools.data.results import Run, load
from tools.servers import ROOT, by_name

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 249\r\n\r\n" + b"p" * 249
OTHER = GOOD.replace(b"p", b"q")
SHORT = GOOD.replace(b"249", b"3")[:-246]
BUSY = GOOD.replace(b"200 OK", b"503 Busy")


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(hold, "MARGIN_SECONDS", 0.0)
    monkeypatch.setattr(hold, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(hold, "SAMPLE_SECONDS", 0.05)


# The load -----------------------------------------------------------------


def test_each_response_is_judged() -> None:
    responses = [GOOD, GOOD, OTHER, SHORT, BUSY, GOOD[:-1], b""]
    one = holder.Holder(answering(*responses), len(responses))
    one.open()
    one.read(60)
    tally = one.tally
    assert tally.opened == 7
    assert (tally.answered, tally.wrong, tally.failed) == (2, 3, 2)
    assert tally.error
    assert tally.first_open <= tally.last_open <= tally.last_response
    assert all(holder.judge(GOOD[:n]) is None for n in range(len(GOOD)))


def test_who_does_not_response_or_accept_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        one, late = holder.Holder(port, 3), holder.Holder(port, 1000)
        assert holder.waiting(port) == 0
        one.open()
        if Path("/proc/net/tcp").exists():
            assert eventually(lambda: holder.waiting(port) == 3)
        one.read(0.1)
        late.open(0.0)
    assert (one.tally.opened, one.tally.failed) == (3, 3)
    assert one.tally.unanswered == 3
    assert "3 had no answer" in one.tally.error
    assert (late.tally.in_time, late.tally.opened) == (False, 0)
    assert "no more" in late.tally.error
    nobody = holder.Holder(port, 3)
    nobody.open()
    nobody.read(1)
    assert (nobody.tally.opened, nobody.tally.failed) == (0, 3)
    assert "a connection failed" in nobody.tally.error


@pytest.mark.parametrize("limit", [256, 1024, 20_000, 10**6])
def test_every_holder_has_addresses_of_its_own(limit: int) -> None:
    shares = hold.holders(65_536, limit)
    assert sum(share for share, _ in shares) == 65_536
    assert all(share <= limit - machine.ROOM for share, _ in shares)
    if sys.platform != "linux":  # there is only one address
        return
    used = [
        ipaddress.ip_address(first) + number
        for share, first in shares
        for number in range(math.ceil(share / holder.PER_ADDRESS))
    ]
    assert all(address.is_loopback for address in used)
    assert len(used) == len(set(used))


# What fits ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "clients", "limit", "extra", "expected", "words", "stop"),
    [
        ("07", 5000, 20_000, "", 5000, "", ""),
        ("07", 65_536, 20_000, "", 65_536,
         "--workers 4 --worker-kind process", ""),
        ("07", 65_536, 20_000, "--workers 2", 37_973, "--workers 2",
         "descriptors: this machine allows"),
        ("06", 65_536, 20_000, "", 19_936, "", "descriptors: this machine"),
        ("07", 65_536, 20_000, "--workers 9 --worker-kind thread", 19_936,
         "--workers 9 --worker-kind thread", "descriptors: "),
        ("07", 65_536, 264, "--worker-kind thread", 200,
         "--worker-kind thread", "descriptors: "),
        ("07", 65_536, 264, "--workers 20", 200 * hold_ends.MOST_HOLDERS,
         "--workers 20 --worker-kind process", "descriptors: this machine "
         "allows a process no more than 264 open files, and the load needs"),
    ],
)
def test_as_many_as_files_allow(
    name: str, clients: int, limit: int, extra: str, expected: int,
    words: str, stop: str,
) -> None:
    fits = hold_ends.fit_files(
        by_name(name), clients, limit, tuple(extra.split())
    )
    assert (fits.clients, " ".join(fits.extra)) == (expected, words)
    assert fits.stop.startswith(stop) and bool(fits.stop) == bool(stop)
    assert ("worker processes share" in fits.note) == (words != extra)


def test_the_least_of_files_threads_and_memory_counts(
    monkeypatch: Patch,
) -> None:
    limits = {"kernel.pid_max": 1000, "vm.max_map_count": 10}
    monkeypatch.setattr(hold_ends, "thread_limits", lambda: limits)
    monkeypatch.setattr(hold_ends, "free_memory", lambda: 10**9)

    def fit(name: str, clients: int, limit: int, each: float) -> Fit:
        return hold_ends.fit(by_name(name), clients, limit, (), each)

    found = fit("03", 900, 20_000, 0.0)  # memory is not known
    assert (found.clients, found.stop[:8]) == (800, "threads:")
    assert "kernel.pid_max" in found.stop  # the other is the server's own
    assert fit("03", 800, 20_000, 0.0) == Fit(800)
    assert fit("05", 900, 20_000, 0.0) == Fit(900)
    found = fit("06", 65_536, 20_000, 83_616.0)
    assert (found.clients, found.stop[:7]) == (8_000, "memory:")
    assert "would take 5.5 GB, 1.0 GB are free" in found.stop
    found = fit("06", 65_536, 2_000, 83_616.0)
    assert (found.clients, found.stop[:12]) == (1_936, "descriptors:")


# What stopped it ----------------------------------------------------------

CLOSED = Tally(
    10, 7, failed=3, error="a connection ended without its answer: reset"
)
LATE = Tally(10, 7, failed=3, unanswered=3, error="no answer")
BAD_408 = Tally(
    10, 7, wrong=3, error="a wrong answer: b'HTTP/1.1 408 Request Timeout"
)
TOO_MANY = Tally(7, 7, failed=3, error="[Errno 24] Too many open files")


@pytest.mark.parametrize(("name", "tally", "more", "expected"), [
    ("03", Tally(10, 10), {}, ""),
    ("03", CLOSED, {"threads": 8}, "threads: the server had 8"),
    ("03", CLOSED, {"threads": 11}, "closed: a connection ended"),
    ("06", CLOSED, {"threads": 1}, "closed: a connection ended"),
    ("03", LATE, {"threads": 8}, "time: 3 clients had no answer from 8 "),
    ("06", LATE, {}, "time: 3 clients had no answer after 60 s"),
    ("06", CLOSED, {"fullest": 1024}, "descriptors: a process of it"),
    ("06", TOO_MANY, {}, "descriptors: the load"),
    ("06", BAD_408, {}, "time: the server gave up on requests"),
    ("06", Tally(10, 7, 3, error="a wrong answer"), {}, "wrong:"),
    ("06", CLOSED, {"died": "ended by SIGKILL"}, "memory: "),
    ("06", CLOSED, {"died": "MemoryError"}, "memory: "),
    ("03", CLOSED, {"died": "can't start new thread"}, "threads: "),
    ("06", CLOSED, {"died": "exit status 1"}, "died: "),
])
def test_what_stopped_it(
    name: str, tally: Tally, more: dict[str, object], expected: str
) -> None:
    values: dict[str, Any] = {
        "total": 10, "threads": 1, "fullest": 20, "limit": 1024,
        "died": None, "seconds": 60.0, **more,
    }
    found = hold_ends.stopped_by(by_name(name), [tally], **values)
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    assert found.partition(":")[0] in {"", *hold_ends.KINDS}


# Whole runs ---------------------------------------------------------------


@pytest.mark.thorough
def test_a_run_is_kept_and_shown(tmp_path: Path, capsys: Said) -> None:
    status, results = run(
        hold, tmp_path, "--only", "06-protocol", "--clients", "50,10",
        "--delay", "2",
    )
    assert status == 0
    assert [p.clients for p in results.points] == [10, 50]
    point = results.points[1]
    (one,) = point.runs
    assert (point.status, point.reason, point.end) == ("ok", "", False)
    assert one.requests == one.extra["connections"] == 50
    assert one.failed == 0
    assert one.extra["descriptors"] == 50
    # A longer delay, if this machine was too busy to open them in time.
    assert one.extra["open_seconds"] < point.delay < one.seconds
    assert point.delay < one.extra["first_answer_seconds"] <= one.seconds
    assert f"{one.seconds:,.1f} s" in capsys.readouterr().out
    assert "\npython3 -m tools.bench.experiments.holder" in one.command


@pytest.mark.thorough
def test_who_serves_few_at_a_time_is_stopped_by_time(tmp_path: Path) -> None:
    status, results = run(
        hold, tmp_path, "--only", "02,03-pool", "--clients", "20,40",
        "--delay", "0.5", "--patience", "5",
    )
    assert status == 0
    found = {(p.server, p.clients): p for p in results.points}
    assert ("02", 40) not in found  # they are not tried any more
    point = found["02", 20]
    assert (point.status, point.end) == ("failed", True)
    assert point.reason == (
        "time: 20 requests of 0.5 s, one after the other, take 10 s; "
        "clients wait 5 s"
    )
    (one,) = point.runs
    assert one.extra["needed_seconds"] == 10
    assert one.requests < 10  # a few were measured
    assert found["03-pool", 40].runs[0].requests == 40


@pytest.mark.thorough
@pytest.mark.skipif(
    sys.platform != "linux", reason="ulimit -v counts on Linux"
)
def test_no_more_threads_is_said(tmp_path: Path) -> None:
    # 8 MiB of address space for a stack: some fit, 300 do not.
    done = subprocess.run(
        ["bash", "-c", "ulimit -s 8192 -v 1500000; exec \"$@\"", "bash",
         sys.executable, "-m", "tools.bench", "hold",
         "--only", "05-threads",
         "--clients", "300", "--delay", "3", "--patience", "5",
         "--output", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    point = load(tmp_path).points[0]
    assert point.server == "05-threads"
    assert (point.status, point.end) == ("failed", True)
    assert point.reason.startswith("threads: the server had ")
    assert 0 < point.runs[0].requests < 300
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture
def few_files(monkeypatch: Patch) -> Iterator[None]:
    """A hard limit cannot be raised again: the soft one, for us alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    monkeypatch.setattr(hold, "raise_open_files", lambda wanted: 200)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.thorough
@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize(("first", "status"), [(10, "ok"), (136, "skipped")])
def test_descriptors_end_a_row(
    first: int, status: str, tmp_path: Path, capsys: Said
) -> None:
    # What is held already is not tried again.
    code, results = run(
        hold, tmp_path, "--only", "06-protocol",
        "--clients", f"{first},400,500", "--delay", "1.5",
    )
    assert code == 0
    few, more = results.points
    assert (few.clients, few.reason) == (first, "")
    assert (more.clients, more.status, more.end) == (400, status, True)
    assert more.reason.startswith("descriptors: this machine allows")
    if status == "ok":
        assert more.runs[0].requests == 200 - machine.ROOM
        assert " 136 " in capsys.readouterr().out


def test_what_cannot_be_measured_is_a_sentence(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(preflight, "core_count", lambda: 1)
    status, results = run(
        hold, tmp_path, "--only", "02", "--clients", "5,10",
        "--options=--nonsense",
    )
    assert status == 1
    (point,) = results.points
    assert point.reason.startswith("start: the server does not start")
    said = capsys.readouterr().out
    assert "--nonsense" in said and "There is one core" in said
    monkeypatch.setattr(hold, "raise_open_files", lambda wanted: 50)
    assert status_of(hold, tmp_path / "x") == 1
    assert "no more than 50 open files: at least 128 are" in (
        capsys.readouterr().out
    )


@pytest.mark.thorough
def test_an_interrupt_keeps_what_it_has(tmp_path: Path) -> None:
    """And leaves no process behind."""
    def second_level(family: list[psutil.Process]) -> bool:
        # The server, and who holds the connections.
        return (tmp_path / "results.json").exists() and len(family) >= 2

    words = ["hold", "--only", "06-protocol", "--clients", "5,50", "--delay",
             "3", "--output", str(tmp_path)]
    with under_way(words, second_level) as (running, family):
        running.send_signal(signal.SIGINT)
        text, _ = running.communicate(timeout=120)
    assert running.returncode == 130, text
    assert "Interrupted: what was measured is in" in text
    assert load(tmp_path).points[0].runs[0].requests == 5
    assert not psutil.wait_procs(family, 10)[1]


@pytest.mark.parametrize(
    ("enough", "delays", "reason"),
    [(60, [10, 77], ""), (10**9, [10, 77, 154], "time: opening takes about")],
)
def test_the_delay_grows_until_all_are_open_at_once(
    enough: float, delays: list[float], reason: str, tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    seen = []

    def measure(
        server: object, plan: hold.Plan, *rest: object
    ) -> tuple[Run, str]:
        seen.append(plan.delay)
        if plan.delay < enough:
            raise hold.LateError(50)
        return Run("", requests=1, extra={"connections": 5}), ""

    monkeypatch.setattr(hold, "MARGIN_SECONDS", 2.0)
    monkeypatch.setattr(hold, "hold", measure)
    _, results = run(hold, tmp_path, "--only", "06-protocol", "--clients", "5")
    assert seen == delays
    assert results.points[0].reason.startswith(reason)
    assert bool(results.points[0].reason) == bool(reason)


def test_opening_that_takes_too_long_is_noticed() -> None:
    plan = hold.Plan(100, 100, 10.0, 60.0, (), None, 1024)
    opened = [
        Tally(25, first_open=5.0, last_open=15.0, in_time=False)
        for _ in range(2)
    ]
    with pytest.raises(hold.LateError) as caught:
        hold.check_in_time(opened, plan)
    assert caught.value.seconds == 20
    hold.check_in_time([Tally(100, first_open=5.0, last_open=14.0)], plan)


def test_memory_of_few_clients_is_noise() -> None:
    for connections, held, measured, each in (
        (1000, 1000, 100, 100), (999, 999, 100, 0),
        (5000, 2, 100, 0),  # they wait outside
        (1000, 1000, -100, 0),
    ):
        one = Run("", extra={
            "connections": connections, "descriptors": held,
            "user_bytes_per_connection": measured,
        })  # fmt: skip
        assert hold.bytes_each(one) == each


@pytest.mark.parametrize(("limits", "most", "given"), [
    ((20_000, 20_000), 20_000, 20_000),  # and not less than before
    ((256, 20_000), 20_000, 20_000),
    ((256, resource.RLIM_INFINITY), 12_000, 10_240),  # as macOS is
    ((256, 100_000), 100_000, 65_600),
])  # fmt: skip
def test_as_many_open_files_as_we_may_have(
    limits: tuple[int, int], most: int, given: int, monkeypatch: Patch
) -> None:
    now = [limits]

    def change(_: int, wanted: tuple[int, int]) -> None:
        if not wanted[0] <= most or wanted[1] != limits[1]:
            raise ValueError("not allowed to raise maximum limit")
        now.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", change)
    assert machine.raise_open_files(65_600) == given
