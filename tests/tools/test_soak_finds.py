"""``./bench.sh soak``: it sees what is wrong with a server."""

import os
from pathlib import Path

import psutil
import pytest

from tests.marks import Patch
from tests.tools.faulty import faulty
from tools.bench.cost import State, look
from tools.bench.experiments import soak
from tools.bench.experiments.soak_clients import (
    PATIENCE,
    Clients,
    Wire,
    WrongError,
    take,
)
from tools.bench.server import start
from tools.servers import by_name


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(soak, "REST_SECONDS", 0.3)
    monkeypatch.setattr(soak, "SETTLED_SECONDS", 0.1)


@pytest.mark.parametrize(("fault", "words", "at_the_end"), [
    ("good", "", ""),
    ("mixes up", "' got b'HTTP/1.1 ", ""),
    ("hangs up", "cut without a kill by a", ""),
    ("leaks", "open descriptors became", ""),
    ("ends badly", "", "SIGTERM ended it with status 3"),
    ("complains", "", "on stderr: Traceback"),
])
def test_a_fault_is_found(
    tmp_path: Path, fault: str, words: str, at_the_end: str
) -> None:
    with start(faulty(tmp_path, fault), 0.0) as process:
        report = soak.soak(
            process.port, process.pid, 0.6, 1, clients=6, polite=True,
            patience=60,
        )
        last = soak.end(process)
    assert report.answered > 0
    assert words in " ".join(report.faults)
    assert at_the_end in " ".join(last)
    assert bool(last) == bool(at_the_end)


def test_an_response_is_taken_when_it_is_complete() -> None:
    data = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc"
    for size in range(len(data)):
        received = bytearray(data[:size])
        assert take(received, body=True) is None
        assert received == data[:size]
    received = bytearray(data + b"more")
    response = take(received, body=True)
    assert response and (response.status, response.body) == (404, b"abc")
    assert received == b"more"
    with pytest.raises(WrongError):
        take(bytearray(b"nonsense\r\n\r\n"), body=True)


def test_only_a_kill_just_before_excuses_an_end() -> None:
    one = Clients(1, 1, polite=False, patience=PATIENCE)
    for kill, slow, excused in (
        (19.9, False, True),
        (18.9, False, False),  # too long before
        (20.1, False, False),  # after
        (18.9, True, True),
        (8.9, True, False),  # before it was there
    ):
        wire = Wire(slow)
        wire.begun, wire.ended = 10.0, 20.0
        one.kills = [kill]
        assert one.was_killed(wire) == excused, kill


def test_what_is_left_behind_is_a_fault() -> None:
    one = soak.Report()
    one.before = {1: State(5, 1, 10**7), 2: State(6, 1, 0)}
    one.after = {1: State(5, 2, 10**9), 3: State(7, 1, 0)}
    soak.compare(one)
    assert one.faults == [
        "11 open descriptors became 12",
        "2 threads became 3",
        "a process grew from 10,000,000 to 1,000,000,000 bytes",
    ]
    found = look(psutil.Process(os.getpid()))
    assert found[os.getpid()].descriptors > 0


def test_manners_and_workers_follow_the_server() -> None:
    assert soak.manners(by_name("01"))[0]
    assert soak.manners(by_name("03-pool"))[0]
    assert soak.manners(by_name("07")) == (False, PATIENCE)
    seven, three = by_name("07"), ("--workers", "3")
    assert soak.options_of(seven, ()) == ("--workers", "2")
    assert soak.options_of(seven, three) == three
