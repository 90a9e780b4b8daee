"""The lab about a database: the rig, the handlers, what is counted."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import psutil
import pytest

from labs.database import load, measure, postgres
from labs.database.measure import Case
from tests.marks import Patch, Said
from tests.tools.experiment import answering, printed, run, under_way
from tools.bench import __main__ as command
from tools.bench import server
from tools.bench.experiments import labs
from tools.bench.peers import start
from tools.bench.session import Refused
from tools.common.launch import eventually
from tools.servers import ROOT

SECONDS = 120.0  # for anything, on a very busy machine
thorough = pytest.mark.thorough


def why_not() -> str:
    """Why no database can be started here; with CI set it must be."""
    try:
        postgres.version()
    except Refused as error:
        return str(error)
    return ""


needs_postgres = pytest.mark.skipif(
    bool(why_not()) and "CI" not in os.environ, reason=why_not()
)


# Without a database --------------------------------------------------------


def test_no_postgres_is_a_sentence(monkeypatch: Patch, capsys: Said) -> None:
    monkeypatch.setattr(command, "_catch_signals", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(postgres, "PLACES", ())
    assert command.main(["labs", "database"]) == 2
    said = capsys.readouterr().err
    assert "PostgreSQL is not installed: apt install postgresql" in said
    assert said.count("\n") == 1


def test_every_package_is_pinned_and_every_point_another() -> None:
    pins = start.REQUIREMENTS.read_text()
    assert all(f"\n{name}==" in pins for name in measure.DRIVER.packages)
    points = [case.point for case in measure.CASES]
    names = {(p.suite, p.server, p.variant, p.clients) for p in points}
    assert len(names) == len(points)


def test_the_handlers_alone_say_what_they_need() -> None:
    done = printed("-S", measure.FILE, "06-async")
    assert done.returncode == 1
    assert done.stderr.startswith("lab.py needs psycopg: ./bench.sh labs d")
    assert done.stderr.count("\n") == 1


def test_the_load_counts_each_error_by_what_is_said() -> None:
    good = b"HTTP/1.1 200 OK\r\n\r\n<p>It: works"
    bad = b"HTTP/1.1 503 Service Unavailable\r\n\r\n<p>503 Service: too many"
    one = load.Load(answering(good, bad, b""), 60, 60, ["/"])
    for said in ("", "too many", "no good response", "Connection refused"):
        assert said in asyncio.run(one.ask("/"))


def test_figures_of_the_load() -> None:
    one = load.Load(1, 2, 60, ["/"])
    one.good = [one.begun + when for when in (0.5, 1.75)]
    one.waits = [0.1, 0.1, 60.0]  # the third gave up
    one.errors["no"] += 3
    assert one.figures() == {
        "good": 2, "seconds": 2.0, "errors": {"no": 3}, "gap_seconds": 1.25,
        "latency_ms": {"p50": 100.0, "p99": 60000.0},
    }
    one.good.append(one.begun + 4)  # it began in time
    assert one.figures()["seconds"] == 4.0


# With one -----------------------------------------------------------------


@thorough
@needs_postgres
def test_it_is_ours_alone() -> None:
    with postgres.postgres(8) as one:
        pid = int((one.data / "postmaster.pid").read_text().split()[0])
        process = psutil.Process(pid)
        assert process.uids().real != 0
        assert (one.folder / ".s.PGSQL.5432").is_socket()
        assert one.folder.stat().st_mode & 0o077 == 0
        assert process.net_connections("inet") == []
        assert one.connections() == 0  # the administrator does not count
        with pytest.raises(OSError, match="psql: ERROR:  relation"):
            one.sql("select * from nothing")


@thorough
@needs_postgres
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(
    number: signal.Signals, tmp_path: Path
) -> None:
    # In a folder like /tmp: the database's own user may write there.
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o1777)
        words = ["labs", "database", "--database-parts", "report",
                 "--database-seconds", "60", "--output", str(tmp_path / "out")]
        with under_way(
            words, lambda family: backends(place), SECONDS, TMPDIR=place
        ) as (bench, family):
            started = backends(place)
            servers = [p for p in family if measure.FILE in p.cmdline()]
            bench.send_signal(number)
            ended = bench.wait(SECONDS)
        for each in servers:  # after a kill -9 nobody else ends it
            with contextlib.suppress(psutil.Error):
                each.kill()
        assert ended == (130 if number == signal.SIGINT else -number)
        assert started and not psutil.wait_procs(started, SECONDS)[1]
        assert eventually(lambda: os.listdir(place) == [], SECONDS)


def backends(place: str) -> list[psutil.Process]:
    """The processes in which a database below this folder serves the lab."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = each.cmdline()
            if words and words[0].startswith("postgres: lab "):
                found += [each] * each.cwd().startswith(place)
    return found


@thorough
@needs_postgres
def test_smoke(tmp_path: Path, monkeypatch: Patch) -> None:
    # A machine may be very busy.
    monkeypatch.setattr(server, "READY_SECONDS", SECONDS)
    monkeypatch.setattr(measure, "PATIENCE", SECONDS)
    monkeypatch.setattr(measure, "LIMIT", 8)  # 3 are the administrator's
    monkeypatch.setattr(measure, "TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr(measure, "BEFORE_SECONDS", 0.1)
    monkeypatch.setattr(measure, "VANISH_PATIENCE", 0.5)
    monkeypatch.setattr(measure, "CASES", [
        Case("sleep", "06-async", 4, 8, ("/?sleep",)),
        Case("sleep", "06-blocking", 4, 4, ("/?sleep",)),
        Case("limit", "03", 0, 20, ("/?slow",)),
        Case("vanish", "06-executor", 2, 3, ("/?lookup", "/?write"),
             "stopped, no time-out"),
    ])
    status, kept = run(
        labs, tmp_path, "database", "--database-seconds", "0.3",
        "--repeats", "1",
    )
    assert status == 0
    assert {"PostgreSQL", "psycopg"} <= {*kept.tools}
    pool, blocking, limit, vanish = (p.runs[0] for p in kept.points)
    # A busy machine makes it slower, never faster than Little's law.
    assert pool.extra["connections"] == 4 and not pool.failed
    assert pool.requests >= 8 and (pool.requests_per_second or 0) <= 40
    assert blocking.extra["connections"] == 4 and not blocking.failed
    assert (blocking.requests_per_second or 0) <= 10
    assert limit.requests and limit.extra["connections"] <= 8
    assert limit.extra["refused"] > 0 and not limit.extra["other_errors"]
    assert vanish.extra["connections"] == 3  # and the one that vanished
    assert vanish.extra["gave_up"] > 0
    assert str(ROOT) not in (tmp_path / "results.json").read_text()
