"""tools.bench.soak and x_soak: they see what is wrong with a server."""

import argparse
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import soak, x_soak
from tools.bench.server import start
from tools.data.results import Machine, Results, load
from tools.servers import Server, by_name

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)

# A server that is good enough for polite clients, with a fault.
FAKE = r"""
import os, signal, socket, sys, threading, time
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
        except OSError:
            pass
        if FAULT == "leaks":
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

if FAULT == "ends_badly":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
elif FAULT == "complains":
    def complain(*_):
        os.write(2, b"Traceback\n")
        os._exit(0)
    signal.signal(signal.SIGTERM, complain)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
port = listener.getsockname()[1]
print(f"Serving on http://127.0.0.1:{port}/ (Ctrl-C to stop)", flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=answer, args=[connection], daemon=True).start()
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "REST_SECONDS", 0.3)
    monkeypatch.setattr(soak, "SETTLED_SECONDS", 0.1)


def fake(folder: Path, fault: str) -> Server:
    file = folder / f"{fault}.py"
    file.write_text(FAKE)
    return Server(fault, 3, str(file), "", "", by_name("03").lessons)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("mixes_up", "' got b'HTTP/1.1 "),
        ("hangs_up", "cut without a kill by a"),
        ("leaks", "open descriptors became"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, fault: str, words: str) -> None:
    with start(fake(tmp_path, fault), 0.0) as process:
        report = soak.soak(
            process.port, process.pid, 0.6, 1, clients=6, polite=True,
            patience=5,
        )
    assert report.answered > 20
    assert words in " ".join(report.faults)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("good", None),
        ("ends_badly", "SIGTERM ended it with status 3"),
        ("complains", "on stderr: Traceback"),
    ],
)
def test_the_end_is_looked_at(
    tmp_path: Path, fault: str, words: str | None
) -> None:
    with start(fake(tmp_path, fault), 0.0) as process:
        faults = x_soak.end(process)
    assert words is None or words in faults[0]
    assert bool(faults) == bool(words)


def test_an_answer_is_taken_when_it_is_complete() -> None:
    data = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc"
    for size in range(len(data)):
        received = bytearray(data[:size])
        assert soak.take(received, body=True) is None
        assert received == data[:size]
    received = bytearray(data + b"more")
    answer = soak.take(received, body=True)
    assert answer and (answer.status, answer.body) == (404, b"abc")
    assert received == b"more"
    with pytest.raises(soak.WrongError):
        soak.take(bytearray(b"nonsense\r\n\r\n"), body=True)


def test_only_a_kill_just_before_excuses_an_end() -> None:
    one = soak.Soak(1, os.getpid(), 1, 1)
    wire = soak.Wire()
    wire.begun, wire.ended = 10.0, 20.0
    for kill, slow, excused in (
        (19.9, False, True),
        (18.9, False, False),  # too long before
        (20.1, False, False),  # after
        (18.9, True, True),
        (8.9, True, False),  # before it was there
    ):
        one.kills, wire.slow = [kill], slow
        assert one.was_killed(wire) == excused, kill


def test_what_is_left_behind_is_a_fault() -> None:
    one = soak.Soak(1, os.getpid(), 1, 1)
    one.report.before = {1: soak.State(5, 1, 10**7), 2: soak.State(6, 1, 0)}
    one.report.after = {1: soak.State(5, 2, 10**9), 3: soak.State(7, 1, 0)}
    one.compare()
    assert one.report.faults == [
        "11 open descriptors became 12",
        "2 threads became 3",
        "a process grew from 10,000,000 to 1,000,000,000 bytes",
    ]


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x_soak.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def test_a_run_is_kept_and_shown(tmp_path: Path) -> None:
    file = io.StringIO()
    results = Results(
        "./bench.sh soak", "soak", "2026-01-01T00:00:00+00:00", "", MACHINE,
        {},
    )
    chosen = options("--only", "06", "--clients", "4")
    chosen.minutes = 0.01
    status = x_soak.run(chosen, results, tmp_path, Console(file=file))
    assert status == 0, file.getvalue()
    assert "Nothing broke." in file.getvalue()
    assert load(tmp_path).points == results.points
    (one,) = results.points[0].runs
    assert one.extra["requests_answered"] == one.requests > 0
    assert '"faults": []' in (tmp_path / "raw" / "06.txt").read_text()


@pytest.mark.parametrize("wrong", [["--minutes", "0"], ["--only", "99"]])
def test_nonsense_is_refused(wrong: list[str]) -> None:
    with pytest.raises(argparse.ArgumentError):
        options(*wrong)


def test_who_serves_one_at_a_time_gets_polite_clients() -> None:
    assert x_soak.manners(by_name("01"))[0]
    assert x_soak.manners(by_name("03-pool"))[0]
    assert x_soak.manners(by_name("07")) == (False, soak.PATIENCE)


def test_07_has_two_workers_unless_told() -> None:
    seven = by_name("07")
    assert x_soak.options_of(seven, ()) == ("--workers", "2")
    assert x_soak.options_of(seven, ("--workers", "3")) == ("--workers", "3")
    assert x_soak.options_of(by_name("06"), ()) == ()
