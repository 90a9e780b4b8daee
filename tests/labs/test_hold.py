"""``./bench.sh hold``: every connection is accounted for."""

import resource
import selectors
import socket
import sys
from pathlib import Path

import pytest

from labs.hold import clients
from labs.hold import measure as hold
from labs.hold.clients import Tally
from tests.marks import Patch, Said
from tests.tools.experiment import answering, run, status_of
from tools.bench import machine
from tools.common.launch import eventually
from tools.data.results import Run
from tools.servers import by_name

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 249\r\n\r\n" + b"p" * 249
OTHERS = [GOOD.replace(b"200 OK", b"503 Busy"), GOOD[:-1], GOOD + b"p", b""]


def test_each_response_is_judged() -> None:
    with selectors.DefaultSelector() as selector:
        port = answering(GOOD, GOOD, *OTHERS)
        tally = clients.open_all(port, 0, 6, 60, selector)
        clients.read_all(selector, tally, 60)
    assert (tally.opened, tally.answered, tally.unanswered) == (6, 2, 0)
    assert tally.error.startswith("the server closed after b")
    assert tally.first_open <= tally.last_open <= tally.last_response


def test_a_server_that_does_not_respond_or_accept_is_seen() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        selectors.DefaultSelector() as selector,
    ):
        port = listener.getsockname()[1]
        tally = clients.open_all(port, 1, 3, 60, selector)
        if sys.platform == "linux":
            assert eventually(lambda: clients.waiting(port) == 3)
        clients.read_all(selector, tally, 0.1)
    nobody = clients.open_all(port, 0, 3, 60, selector)
    assert nobody.error.startswith("connection 0 failed: ")
    both = clients.total([tally, nobody])
    assert (both.opened, both.unanswered, both.error) == (3, 3, nobody.error)
    assert (both.first_open, both.last_open) == (
        tally.first_open, nobody.last_open
    )


@pytest.mark.parametrize(("name", "asked", "limit", "expected"), [
    ("07", 5000, 20_000, "5000; ; "),
    ("07", 65_536, 20_000, "65536; --workers 4 --worker-kind process; "),
    ("06", 65_536, 20_000, "19936; ; descriptors: this machine allows a "),
    ("03", 1000, 20_000, "800; ; threads: this machine allows 1,000 for all "
     "programs together (kernel.pid_max)"),  # the other limit is its own
    ("05", 1000, 20_000, "1000; ; "),
    ("06", 65_536, 80_000, "32552; ; memory: 1.0 GB"),
])
def test_what_fits_is_known_beforehand(
    name: str, asked: int, limit: int, expected: str, monkeypatch: Patch
) -> None:
    limits = {"kernel.pid_max": 1000, "vm.max_map_count": 10}
    monkeypatch.setattr(machine, "thread_limits", lambda: limits)
    enough = 10**9 if limit > 20_000 else 10**11
    monkeypatch.setattr(machine, "free_memory", lambda: enough)
    fitting, words, stop = hold.room(by_name(name), asked, limit, ())
    found = f"{fitting}; {' '.join(words)}; {stop}"
    assert found.startswith(expected) and bool(stop) == (fitting < asked)


CLOSED = Tally(10, 7, error="a connection ended: reset")
LATE = Tally(10, 7, unanswered=3)


@pytest.mark.parametrize(("name", "tally", "threads", "full", "expected"), [
    ("03", Tally(10, 10), 11, False, ""),
    ("03", CLOSED, 8, False, "threads: the server had 8"),
    ("03", CLOSED, 11, False, "closed: a connection ended: reset; 7 of 10"),
    ("03", LATE, 8, False, "time: 3 clients had no response from 8 threads"),
    ("06", LATE, 1, False, "time: 3 clients had no response; 7 of 10"),
    ("06", CLOSED, 1, True, "descriptors: a process of it"),
    ("06", CLOSED, 1, False, "closed: a connection ended: reset; 7 of 10"),
])
def test_what_stopped_it(
    name: str, tally: Tally, threads: int, full: bool, expected: str
) -> None:
    found = hold.stopped_by(by_name(name), tally, 10, threads, full, "")
    assert found.startswith(expected) and bool(found) == bool(expected)
    died = hold.stopped_by(by_name(name), tally, 10, threads, full, "KILL")
    assert died == "died: the server ended (KILL)"


@pytest.mark.parametrize(("soft", "hard", "most", "given"), [
    (20_000, 20_000, 20_000, 20_000),
    (256, 20_000, 20_000, 20_000),
    (256, resource.RLIM_INFINITY, 12_000, 10_240),  # as macOS is
])
def test_as_many_open_files_as_we_may_have(
    soft: int, hard: int, most: int, given: int, monkeypatch: Patch
) -> None:
    now = [(soft, hard)]

    def change(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > most or wanted[1] != hard:
            raise ValueError("not allowed to raise maximum limit")
        now.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", change)
    assert machine.raise_open_files(65_600) == given


@pytest.mark.thorough
def test_a_smoke_run(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(hold, "MARGIN_SECONDS", 0.0)
    monkeypatch.setattr(hold, "PATIENCE", 15.0)
    monkeypatch.setattr(hold, "PER_LOAD", 5)  # several processes
    status, results = run(
        hold, tmp_path, "--only", "02,06-protocol", "--clients", "20,10",
        "--delay", "2",
    )
    assert status == 0
    assert [
        (p.server, p.clients, p.status, p.reason[:6], p.end)
        for p in results.points
    ] == [
        ("02", 10, "failed", "time: ", True),
        ("06-protocol", 10, "ok", "", False),
        ("06-protocol", 20, "ok", "", False),
    ]
    more = results.points[2]
    (one,) = more.runs
    extra = one.extra
    assert (one.requests, one.failed) == (20, 0)
    assert (extra["connections"], extra["descriptors"]) == (20, 20)
    # A longer delay, if this machine was too busy to open them in time.
    assert extra["open_seconds"] < more.delay < extra["first_answer_seconds"]
    assert extra["first_answer_seconds"] <= one.seconds
    assert one.command.count("\npython3 -m labs.hold.clients ") == 4


@pytest.mark.parametrize(("delay", "grown", "reason"), [
    ("10", 40, ""), ("1", 16, "time: opening takes more than 16 s"),
])
def test_the_delay_grows_until_all_are_open_at_once(
    delay: str, grown: int, reason: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    def late(*given: object) -> tuple[Run, str]:
        if given[-1] != 40:
            raise TimeoutError
        return Run("", requests=5), ""

    monkeypatch.setattr(hold, "run_once", late)
    words = "--only", "06-protocol", "--clients", "5", "--delay", delay
    point = run(hold, tmp_path, *words)[1].points[0]
    assert (point.delay, point.reason) == (grown, reason)


def test_what_cannot_be_measured_is_a_sentence(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    words = "--only", "02", "--clients", "5,10", "--options=--nonsense"
    status, results = run(hold, tmp_path, *words)
    (point,) = results.points
    assert status == 1
    assert point.reason.startswith("start: the server does not start")
    monkeypatch.setattr(machine, "raise_open_files", lambda wanted: 50)
    assert status_of(hold, tmp_path / "x") == 2
    assert "no more than 50 files" in capsys.readouterr().err
