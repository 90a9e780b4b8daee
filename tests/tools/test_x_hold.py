"""tools.bench.holder and x_hold: every connection is accounted for."""

import argparse
import io
import ipaddress
import math
import socket
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import holder, x_hold
from tools.bench.server import start
from tools.results import Machine, Point, Results, Run, load
from tools.servers import by_name

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
    assert "3 had no answer" in one.tally.error


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


def test_as_many_as_fit() -> None:
    seven, six = by_name("07"), by_name("06")
    assert x_hold.fit(seven, 5000, 20_000, ()) == (5000, (), "")
    number, extra, note = x_hold.fit(seven, 65_536, 20_000, ())
    assert number == 65_536
    assert extra == ("--workers", "4", "--worker-kind", "process")
    assert "no more than 20,000 open files: 4 worker processes" in note
    number, extra, note = x_hold.fit(
        seven, 65_536, 20_000, ("--workers", "2")
    )
    assert (number, extra) == (37_973, ("--workers", "2"))
    assert note.endswith("37,973 connections, not 65,536.")
    number, _, note = x_hold.fit(six, 65_536, 20_000, ())
    assert number == 19_936
    threads = ("--workers", "9", "--worker-kind", "thread")
    assert x_hold.fit(seven, 65_536, 20_000, threads)[0] == 19_936


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


def test_a_run_is_kept_and_shown(tmp_path: Path) -> None:
    file = io.StringIO()
    results = Results(
        "./bench.sh hold", "hold", "2026-01-01T00:00:00+00:00", "", MACHINE,
        {},
    )
    chosen = options(
        "--only", "06", "--connections", "50", "--delay", "0.8"
    )
    status = x_hold.run(chosen, results, tmp_path, Console(file=file))
    assert status == 0, file.getvalue()
    assert load(tmp_path).points == results.points
    (one,) = results.points[0].runs
    assert one.requests == one.extra["connections"] == 50
    assert one.failed == 0
    assert one.extra["descriptors"] == 50
    assert one.extra["open_seconds"] < 0.8 < one.seconds
    assert "user bytes per connection" in file.getvalue()
    raw = (tmp_path / "raw" / "06.txt").read_text()
    assert "$ python3 -m tools.bench.holder" in raw
    assert '"answered": 50' in raw


def test_the_delay_grows_until_all_are_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = []

    def measure(
        server: object, point: Point, *rest: object
    ) -> Run:
        delays.append(point.delay)
        if point.delay < 60:
            raise x_hold.LateError(50)
        return Run("", requests=1)

    monkeypatch.setattr(x_hold, "measure", measure)
    results = Results("", "hold", "", "", MACHINE, {})
    console = Console(file=io.StringIO())
    assert x_hold.run(options(), results, tmp_path, console) == 0
    assert delays == [30, 75]


def test_opening_that_takes_too_long_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x_hold, "MARGIN_SECONDS", 1.0)
    point = Point("06", "hold", 5, 0.1)
    with pytest.raises(x_hold.LateError):
        x_hold.measure(by_name("06"), point, (), tmp_path)


def test_the_state_of_a_server() -> None:
    with start(by_name("02"), 0.0) as process:
        state = x_hold.look(process)
    assert state.user_bytes > 1_000_000
    assert state.descriptors > 3


@pytest.mark.parametrize(
    "wrong", [["--connections", "0"], ["--delay", "x"], ["--only", "99"]]
)
def test_nonsense_is_refused(wrong: list[str]) -> None:
    with pytest.raises(argparse.ArgumentError):
        options(*wrong)
