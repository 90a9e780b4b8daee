"""``./bench.sh hosts``: what the load, the tap and the balancer count."""

import asyncio
import json
import os
import signal
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from labs.hosts import balancer, experiments, load, measure
from labs.hosts.balancer import DOWN, NOBODY, moments
from labs.hosts.experiments import EXPERIMENTS
from labs.hosts.load import Load, Plan, Row
from labs.hosts.rig import figures
from labs.hosts.tap import Tap
from tests.marks import Patch, Said, slow
from tests.tools.experiment import printed, under_way
from tools.bench.__main__ import main
from tools.bench.experiments.lab import LabError
from tools.data.results import DATA
from tools.data.results import load as results
from tools.servers import ROOT

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def test_the_page_shows_what_was_captured() -> None:
    page = (ROOT / "docs" / "labs" / "hosts.md").read_text("utf-8")
    kept = results(DATA / "hosts").find("06", "hosts-seen")
    assert kept is not None
    for name in ("X-Forwarded-For, and a claim", "PROXY line"):
        text = kept.runs[0].texts[name].replace("\r\n", "\n").strip()
        assert f"\n{text}\n```" in page


def need(found: object, missing: str) -> None:
    """Without what a test needs it is skipped; but not by .ci/run."""
    if not found and "CI" not in os.environ:
        pytest.skip(missing)
    assert found, missing


@pytest.fixture(scope="session")
def haproxy() -> None:
    need(balancer.version(), "HAProxy is missing")


@pytest.fixture(scope="session")
def namespaces(haproxy: None) -> None:
    try:
        measure.said_by([], 60)
    except LabError as error:
        need(False, f"no network namespaces here: {error}")


# The load -----------------------------------------------------------------

# (number of the request, times that it has come) -> what is sent; what is
# no whole page ends the connection.
Behave = Callable[[int, int], bytes]


def sent(
    plan: Plan, behave: Behave, together: int = 0, kind: type[Load] = Load
) -> tuple[list[Row], Counter[int], int]:
    """What became of a plan, what came, and on how many connections.

    together: no response before so many requests have come.
    """
    came: Counter[int] = Counter()
    connections = []
    enough = asyncio.Event()

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connections.append(writer)
        response = PAGE
        while response == PAGE and (head := await reader.readline()):
            await reader.readuntil(b"\r\n\r\n")
            number = int(head.split()[1].partition(b"?")[2])
            came[number] += 1
            if came.total() >= together:
                enough.set()
            await enough.wait()
            response = behave(number, came[number])
            writer.write(response)
        writer.close()

    async def both() -> list[Row]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            one = kind(plan, server.sockets[0].getsockname())
            await one.run()
        return [row for _, row in sorted(one.rows.items())]

    return asyncio.run(both()), came, len(connections)


def ten(keep: bool = False, tries: int = 1) -> Plan:
    """Ten requests in a tenth of a second."""
    phases = ((100.0, 0.095),)
    return Plan(phases=phases, seed=0, timeout=30, keep=keep, tries=tries)


@pytest.mark.parametrize(("bad", "outcome"), [
    (b"", "broken"), (PAGE[:12], "broken"), (PAGE[:-2], "broken"),
    (BUSY, "503"),
])
@pytest.mark.parametrize("keep", [False, True])
def test_some_requests_are_lost(bad: bytes, outcome: str, keep: bool) -> None:
    rows, came, connections = sent(
        ten(keep), lambda number, _: bad if number == 3 else PAGE
    )
    assert [row[2] for row in rows] == ["ok"] * 3 + [outcome] + ["ok"] * 6
    assert came == dict.fromkeys(range(10), 1)
    assert keep or connections == 10


def test_a_kept_connection_is_used_again() -> None:
    class OneByOne(Load):
        async def run(self) -> None:
            for number in range(10):
                await self.request(number, time.monotonic(), 0.0)

    assert sent(ten(keep=True), lambda *_: PAGE, kind=OneByOne)[2] == 1
    assert sent(ten(), lambda *_: PAGE, kind=OneByOne)[2] == 10


def test_a_try_that_takes_too_long_is_made_again() -> None:
    plan = Plan(phases=((1, 0.5),), seed=0, timeout=0.2, tries=3)
    rows, came, _ = sent(plan, lambda *_: PAGE, together=4)
    assert rows[0][2] == "timeout" and came == {0: 3}
    rows, came, _ = sent(
        ten(tries=3), lambda _, times: PAGE if times == 2 else BUSY
    )
    assert {row[2] for row in rows} == {"ok"} and set(came.values()) == {2}


def test_it_is_an_open_loop() -> None:
    """It does not wait; a latency counts from when a request was due."""
    class Held(Load):
        async def attempt(self, number: int) -> str:
            if number == 0:
                time.sleep(0.4)  # of the whole program
            return await super().attempt(number)

    rows, _, _ = sent(ten(), lambda *_: PAGE, together=10, kind=Held)
    assert {row[2] for row in rows} == {"ok"}
    assert all(due + latency >= 0.4 for due, latency, _ in rows)


def test_when_requests_are_due() -> None:
    plan = Plan(phases=((100.0, 2.0), (300.0, 1.0)))
    due = list(plan.due())
    assert due == sorted(due) == list(plan.due())
    assert sum(at < 2 for at in due) == pytest.approx(200, rel=0.25)
    assert sum(at >= 2 for at in due) == pytest.approx(300, rel=0.25)
    # Idle clients: all at once, when their connections are so old.
    due = list(Plan(phases=experiments.bursts(1.6), seed=0).due())
    begins = [b for a, b in pairwise(due) if b - a > 1]
    assert begins == pytest.approx([1.6, 6.6, 11.61, 16.63, 21.67])
    assert len(due) == 5 * 80 + 5  # and one as each pause begins


# What is counted ----------------------------------------------------------


def test_what_clients_have_seen() -> None:
    rows = [
        (0.0, 0.1, "ok"), (0.5, 1.6, "ok"), (1.0, 9.0, "timeout"),
        (1.1, 0.1, "ok"), (2.5, 0.1, "503"),
    ]
    one = figures(Plan(phases=((1, 1.0), (2, 1.0), (1, 1.0))), rows)
    assert (one.requests, one.failed) == (3, 2)
    assert one.latency_ms == {
        "p50": 100.0, "p90": 1600.0, "p99": 1600.0, "max": 1600.0,
    }
    assert one.series == {"sent": [2, 2, 1], "good": [1, 1, 1]}
    assert one.extra == {
        "sent": 5, "answered_per_second": 1, "lost_503": 1, "lost_timeout": 1,
        "good_during_percent": 50.0, "good_at_the_end_percent": 60.0,
    }


def test_what_arrived_and_why_it_was_lost() -> None:
    def packet(number: int, port: int, place: int, host: int = 1) -> bytes:
        tcp = struct.pack("!HHI", port, 8000, place).ljust(20)
        head = bytes(14) + bytes(9) + b"\6" + bytes(9) + bytes([host])
        return head + tcp + b"GET /?%d HTTP/1.1\r\n\r\n" % number

    tap = Tap()
    for each in (
        packet(40, 5000, 1), packet(40, 5000, 1),  # sent again by TCP
        packet(41, 5000, 50),  # the next on the same connection
        packet(42, 5000, 1, host=2), packet(42, 5001, 1),  # it came twice
        packet(43, 5002, 1), packet(99, 5003, 1), bytes(60),
    ):
        tap.take(each)
    rows = [(0, 9, "ok"), *[(0, 0.1, "503")] * 2, *[(0, 9, "504")] * 2]
    assert tap.figures(rows, 40) == {
        "arrived": 5, "twice": 1, "cause_kept": 1, "cause_new": 1,
        "cause_hung": 1, "cause_unsent": 1,
    }


def test_when_a_host_was_out() -> None:
    log = (
        "2026-01-01T00:00:01.5+00:00 Server hosts/h3 is DOWN, reason: x\n"
        "2026-01-01T00:00:02+00:00 Server hosts/h1 is going DOWN for y\n"
        "2026-01-01T00:00:03+00:00 proxy hosts has no server available!\n"
        "2026-01-01T00:00:04+00:00 Server hosts/h3 is UP\nnonsense\n"
    )
    assert moments(log, DOWN.format("h3")) == [1767225601.5]
    assert moments(log, DOWN.format(r"h\d")) == [1767225601.5, 1767225602]
    assert moments(log, NOBODY) == [1767225603]


def test_haproxy_takes_every_configuration(
    haproxy: None, tmp_path: Path
) -> None:
    hosts = [("h1", "127.0.0.1:1"), ("h2", "127.0.0.1:2")]
    for text in {
        front.configuration(hosts, "127.0.0.1:3", "/tmp/admin")
        for cases, _ in EXPERIMENTS.values() for case in cases
        for front in case.fronts
    }:
        file = tmp_path / "haproxy.cfg"
        file.write_text(text)
        done = subprocess.run(
            [balancer.program(), "-c", "-f", str(file)], check=False,
            text=True, capture_output=True,
        )
        assert not done.returncode and "WARNING" not in done.stderr, text


# The command --------------------------------------------------------------


@pytest.mark.parametrize(("missing", "status", "says"), [
    ("haproxy", 1, "HAProxy is missing: apt-get install haproxy, or"),
    ("unshare", 2, "hosts needs Linux and the right to make network nam"),
])
@pytest.mark.parametrize("words", [["hosts"], ["labs", "hosts"]])
def test_what_is_missing_is_told(
    words: list[str], missing: str, status: int, says: str, tmp_path: Path,
    monkeypatch: Patch, capsys: Said,
) -> None:
    for name in {"apt-get", "haproxy"} - {missing}:
        (tmp_path / name).write_text("#!/bin/sh\necho version 2.6.0")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(balancer, "PLACES", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(signal, "signal", Mock())  # else Ctrl-C is ours
    assert main([*words, "--output", str(tmp_path / "new")]) == status
    said = capsys.readouterr()
    assert says in " ".join((said.out + said.err).split())
    assert not (tmp_path / "new").exists()


def test_fronts_measured_at_once_are_points_of_their_own(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    made = json.dumps([
        {"run": {"command": "", "requests": which, "extra": {
            "sent": 1, "lag_ms": 1}}, "raw": "said"} for which in range(3)
    ])
    failed = LabError("h1 did not stop")
    monkeypatch.setattr(balancer, "version", lambda: "2.6.0")
    monkeypatch.setattr(signal, "signal", Mock())
    said_by = Mock(side_effect=["", made, failed])
    monkeypatch.setattr(measure, "said_by", said_by)
    main(["hosts", "seen", "--repeats", "2", "--output", str(tmp_path)])
    kept, (case,) = results(tmp_path), experiments.SEEN
    assert (kept.mode, kept.load) == ("hosts", "python")
    for which, point in enumerate(kept.points):
        assert point.variant == case.fronts[which].variant
        assert point.runs[0].requests == which
        assert point.runs[1].error == "h1 did not stop"


def test_outside_of_namespaces_it_touches_nothing() -> None:
    before = psutil.net_if_addrs().keys()
    done = printed("-m", "labs.hosts")
    assert done.returncode == 2 and "use ./bench.sh hosts" in done.stderr
    assert psutil.net_if_addrs().keys() == before


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(
    namespaces: None, number: signal.Signals, tmp_path: Path
) -> None:
    def loaded(family: list[psutil.Process]) -> bool:
        return any(load.__name__ in process.cmdline() for process in family)

    words = ["hosts", "storm", "--output", str(tmp_path / "new")]
    with under_way(words, loaded) as (child, family):
        assert "haproxy" in [process.name() for process in family]
        child.send_signal(number)
        said = child.communicate(timeout=60)[0]
        assert not psutil.wait_procs(family, 25)[1]  # a load takes 28
    assert child.returncode == (130 if number == signal.SIGINT else -9)
    assert "Traceback" not in said
    assert not {"br0", "cable1"} & psutil.net_if_addrs().keys()


@pytest.mark.thorough
@slow
def test_a_smoke_run(namespaces: None, tmp_path: Path) -> None:
    words = ["labs", "hosts", "--smoke", "--output", tmp_path]
    done = printed("-m", "tools.bench", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, (cases, some) in EXPERIMENTS.items():
        points = results(tmp_path).suite(f"hosts-{name}")
        fronts = [front for n in some for front in cases[n].fronts]
        assert [p.variant for p in points] == [f.variant for f in fronts]
        for point in points:
            (one,) = point.runs
            assert one.error is None
            assert one.extra["sent"] == one.requests + one.failed
            assert one.extra["arrived"] >= one.requests
            if point.variant.startswith("kill -9"):
                assert one.extra["out_seconds"] > 0
            if name == "restart":
                assert one.extra["restarts"] >= 3
