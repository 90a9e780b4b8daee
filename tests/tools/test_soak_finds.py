"""``./bench.sh soak``: it sees what is wrong with a server."""

import os
from pathlib import Path

import psutil
import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import options
from tools.bench.experiments import soak
from tools.bench.experiments.soak_clients import (
    PATIENCE,
    Clients,
    Wire,
    WrongError,
    take,
)
from tools.bench.server import start
from tools.data.results import load
from tools.servers import Server, by_name

# A server that is good enough for polite clients, with a fault.
FAKE = r"""
import os, signal, socket, sys, threading
FAULT, PAGE = sys.argv[0].rpartition("/")[2][:-3], b"p" * 249
STATUS = {b"GET /": 200, b"HEAD /": 200, b"GET /?query=1": 200,
          b"DELETE /": 405, b"BREW /": 501}
answered, kept = 0, []

def status_of(head):
    lines = head.split(b"\r\n")
    words = lines[0].split(b" ")
    good = len(words) == 3 and b"Host: soak" in lines and b"\0" not in head
    return STATUS.get(b" ".join(words[:2]), 404) if good else 400

def serve(connection):
    global answered
    received = b""
    while data := connection.recv(65536):
        received += data
        while b"\r\n\r\n" in received:
            head, _, received = received.partition(b"\r\n\r\n")
            answered += 1
            status, end = status_of(head), b"HTTP/1.0" in head
            end = end or status == 400 or b"\r\nConnection: close" in head
            if FAULT == "mixes_up" and answered % 20 == 0:
                status = 404 if status != 404 else 200
            if FAULT == "hangs_up" and answered % 20 == 0:
                return
            answer = b"HTTP/1.1 %d X\r\nContent-Length: 249\r\n" % status
            answer += b"Connection: close\r\n" * end + b"\r\n"
            body = b"" if head.startswith(b"HEAD") else PAGE
            connection.sendall(answer + body)
            if end:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
                return

def answer(connection):
    with connection:
        if FAULT == "leaks":
            kept.append(connection.dup())
        try:
            serve(connection)
            if FAULT == "leaks":
                connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

def end(*_):
    if FAULT == "complains":
        os.write(2, b"Traceback\n")
    os._exit(3 if FAULT == "ends_badly" else 0)

signal.signal(signal.SIGTERM, end)
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
port = listener.getsockname()[1]
print(f"Serving on http://127.0.0.1:{port}/ (Ctrl-C to stop)", flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=answer, args=[connection], daemon=True).start()
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: Patch) -> None:
    monkeypatch.setattr(soak, "REST_SECONDS", 0.3)
    monkeypatch.setattr(soak, "SETTLED_SECONDS", 0.1)


def fake(folder: Path, fault: str) -> Server:
    file = folder / f"{fault}.py"
    file.write_text(FAKE)
    return Server(fault, 3, str(file), "", "", by_name("03").lessons)


@pytest.mark.parametrize(("fault", "words"), [
    ("mixes_up", "' got b'HTTP/1.1 "),
    ("hangs_up", "cut without a kill by a"),
    ("leaks", "open descriptors became"),
])
def test_a_fault_is_found(tmp_path: Path, fault: str, words: str) -> None:
    with start(fake(tmp_path, fault), 0.0) as process:
        report = soak.soak(
            process.port, process.pid, 0.6, 1, clients=6, polite=True,
            patience=60,
        )
    assert report.answered > 0
    assert words in " ".join(report.faults)


@pytest.mark.parametrize(("fault", "words"), [
    ("good", None),
    ("ends_badly", "SIGTERM ended it with status 3"),
    ("complains", "on stderr: Traceback"),
])
def test_the_end_is_looked_at(
    tmp_path: Path, fault: str, words: str | None
) -> None:
    with start(fake(tmp_path, fault), 0.0) as process:
        faults = soak.end(process)
    assert words is None or words in faults[0]
    assert bool(faults) == bool(words)


def test_an_answer_is_taken_when_it_is_complete() -> None:
    data = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc"
    for size in range(len(data)):
        received = bytearray(data[:size])
        assert take(received, body=True) is None
        assert received == data[:size]
    received = bytearray(data + b"more")
    answer = take(received, body=True)
    assert answer and (answer.status, answer.body) == (404, b"abc")
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
    one.before = {1: soak.State(5, 1, 10**7), 2: soak.State(6, 1, 0)}
    one.after = {1: soak.State(5, 2, 10**9), 3: soak.State(7, 1, 0)}
    soak.compare(one)
    assert one.faults == [
        "11 open descriptors became 12",
        "2 threads became 3",
        "a process grew from 10,000,000 to 1,000,000,000 bytes",
    ]
    found = soak.look(psutil.Process(os.getpid()))
    assert found[os.getpid()].descriptors > 0


@pytest.mark.thorough
def test_a_soak_is_kept_and_shown(tmp_path: Path, capsys: Said) -> None:
    chosen = options(
        soak, "--only", "06-protocol", "--clients", "4",
        "--output", str(tmp_path),
    )
    chosen.minutes = 0.01
    assert soak.run(chosen) == 0
    assert "Nothing broke." in capsys.readouterr().out
    (one,) = load(tmp_path).points[0].runs
    assert one.extra["requests_answered"] == one.requests > 0


def test_manners_and_workers_follow_the_server() -> None:
    assert soak.manners(by_name("01"))[0]
    assert soak.manners(by_name("03-pool"))[0]
    assert soak.manners(by_name("07")) == (False, PATIENCE)
    seven, three = by_name("07"), ("--workers", "3")
    assert soak.options_of(seven, ()) == ("--workers", "2")
    assert soak.options_of(seven, three) == three
