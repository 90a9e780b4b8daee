"""The four rules of time in web.py, proved on each server's own way to wait.

A server that was busy or stopped finds requests and deadlines at once;
clients that are slow, and those that never stop sending. All side by side.
"""

import contextlib
import fcntl
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.beside import beside
from tests.marks import slow
from tests.process import (
    PATIENCE,
    PYTHON,
    Running,
    eventually,
    options_of,
    running,
    started,
)
from tests.test_stopping import refused
from tools.common.raw_client import GET, GET_CLOSE, HOST, Client, NoResponse
from tools.servers import SERVERS, YES, Server, by_name

HEAD_SECONDS, IDLE_SECONDS, LINGER_MOST = 10.0, 5.0, 10.0
SEND_SECONDS, GRACE_SECONDS = 10.0, 5.0
EARLY = 0.2  # a server may round
REFUSED = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 30000000\r\n\r\n"
OURS = [each for each in SERVERS if each.step > 1]
linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="there is no /dev/full, no F_GETPIPE_SZ"
)
KEEPING = [each for each in OURS if each.lessons["keep_alive"] == YES]


def named(servers: list[Server]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "each", servers, ids=lambda each: f"time-{each.name}"
    )


@contextlib.contextmanager
def paused(process: Running) -> Iterator[None]:
    """None of a server's processes runs meanwhile."""
    stopped = process.processes()
    for each in stopped:
        each.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for each in stopped:
            each.send_signal(signal.SIGCONT)


def served(clients: list[Client]) -> bool:
    """Does each of them get its page?"""
    try:
        return {client.response().status for client in clients} == {200}
    except (OSError, NoResponse):
        return False


@named(KEEPING)
@slow
@beside
def test_a_request_that_arrived_during_a_pause(each: Server) -> None:
    # The deadline for another request passes while nothing runs.
    with running(each) as process:
        clients = [process.client() for _ in range(4)]
        begin = time.monotonic()
        for client in clients:
            client.ask(GET)
        with paused(process):
            idle = time.monotonic() - begin
            for client in clients:
                client.send_if_open(GET_CLOSE)
            time.sleep(IDLE_SECONDS + 1)
        assert served(clients) or idle > IDLE_SECONDS - EARLY, "lost"


@pytest.mark.thorough
@named(OURS)
@slow
@beside
def test_a_head_that_was_completed_during_a_pause(each: Server) -> None:
    # All deadlines pass, and the rest is more than arrives in one piece.
    head = GET_CLOSE[:-2] + b"X: " + b"x" * 9_000 + b"\r\n\r\n"
    number = 4 if each in KEEPING else 1  # 02 serves one after the other
    with running(each) as process:
        begin = time.monotonic()
        clients = [process.client() for _ in range(number)]
        if each in KEEPING:
            clients[0].ask(GET)
        for client in clients:
            client.send(head[:1000])
        if each in KEEPING:  # by now the others have been read
            process.assert_serves()
        with paused(process):
            late = time.monotonic() - begin > IDLE_SECONDS - EARLY
            for client in clients:
                client.send_if_open(head[1000:])
            time.sleep(2 * HEAD_SECONDS)
        assert served(clients) or late, "lost"


@pytest.mark.thorough
@named(KEEPING)
@slow
@beside
def test_a_slow_reader_of_many_responses(each: Server) -> None:
    # More than the kernel holds; they take longer than SEND_SECONDS.
    missing = GET.replace(b"/ ", b"/missing ")
    number, share = 20_000, 64
    with running(each) as process, process.client() as client:
        sending = threading.Thread(
            target=client.socket.sendall, args=(missing * number,)
        )
        sending.start()
        got = b""
        begin = last = time.monotonic()
        silent = 0.0  # the longest time in which we took nothing
        for turn in range(1, share + 1):
            while got.count(b"HTTP/1.1 404") < turn * number // share:
                silent = max(silent, time.monotonic() - last)
                piece = b""
                with contextlib.suppress(OSError):
                    piece = client.socket.recv(1 << 16)
                last = time.monotonic()
                if not piece and silent > SEND_SECONDS - EARLY:
                    return  # we were too slow to be sure of anything
                assert piece, f"ended after {len(got)} bytes"
                got += piece
            time.sleep(max(begin + turn / 5 - time.monotonic(), 0))
        sending.join()


@pytest.mark.thorough
@named([each for each in KEEPING if each.step != 3 and "ex" not in each.name])
@slow
@beside
def test_a_request_that_arrived_during_a_turn(each: Server) -> None:
    # Another client's work takes longer than the deadline.
    workers = ["--workers", "1"] if each.workers else []
    with running(each, "--compute", "250000000", *workers) as process:
        kept = process.client()
        kept.send(GET.replace(b"/ ", b"/missing "))
        assert kept.response().status == 404
        busy = process.client(GET_CLOSE)
        spent = process.cpu()
        assert eventually(lambda: process.cpu() > spent + 0.5, PATIENCE)
        kept.send(GET.replace(b"/ ", b"/missing "))
        assert kept.response(timeout=10 * PATIENCE).status == 404
        assert busy.response(timeout=10 * PATIENCE).status == 200


@named(OURS)
@slow
@beside
def test_a_refused_client_that_never_stops_is_dropped(each: Server) -> None:
    with running(each) as process:
        with process.client(REFUSED) as client:
            begin = time.monotonic()
            assert client.response().status == 405
            moments = [time.monotonic()]

            def closed() -> bool:
                moments.append(time.monotonic())
                try:
                    client.socket.sendall(b"x")
                except OSError:
                    return True
                return False

            assert eventually(closed, LINGER_MOST + PATIENCE, 0.05)
            # Not within a second, unless we were silent for that long.
            pauses = [moments[0] - begin, *(
                b - a for a, b in itertools.pairwise(moments)
            )]
            assert moments[-1] - moments[0] > 1 or max(pauses) > 1 - EARLY
        process.assert_serves()


@named(OURS)
@pytest.mark.parametrize(("number", "size", "pause"), [
    (6, 1 << 17, 0.5), (30, 1_000_000, 0),
])
@beside
def test_an_upload_ends_without_an_error(
    each: Server, number: int, size: int, pause: float
) -> None:
    # Its sender reads the response afterwards.
    with running(each) as process, process.client(REFUSED) as client:
        begin, longest = time.monotonic(), 0.0
        try:
            for _ in range(number):
                client.socket.sendall(b"x" * size)
                sent = time.monotonic()
                time.sleep(pause)
                longest = max(longest, time.monotonic() - sent)
            client.socket.shutdown(socket.SHUT_WR)
            assert client.response().status == 405
        except (OSError, NoResponse):  # were we too slow?
            took = time.monotonic() - begin
            assert longest > 1 - EARLY or took > LINGER_MOST - EARLY, (
                f"closed after {took:.1f} s, silent for {longest:.2f} s"
            )


@named(KEEPING)
@beside
def test_a_request_on_its_way_when_we_stop(each: Server) -> None:
    # Two workers may stop listening half a second after each other.
    one = ["--workers", "1"] if each.step == 7 else []
    with started(each, *one) as process:
        kept = process.client()
        asked = time.monotonic()
        kept.ask(GET)
        new = process.client()
        if each.step < 7:  # 07 accepts when something has been sent
            assert eventually(lambda: accepted(process, 2))
        clients = [kept, new] if each.step < 7 else [kept]
        # A whole request later, the server is waiting for both of them.
        process.assert_serves()
        begin = probe = time.monotonic()
        process.signal(signal.SIGTERM)
        while not refused(process):
            begin, probe = probe, time.monotonic()  # still open at `begin`
        time.sleep(0.1)  # what closes at once is closed by now
        for client in clients:
            client.send_if_open(GET_CLOSE)
        took, idle = time.monotonic() - begin, time.monotonic() - asked
        late = took > 0.5 - EARLY or idle > IDLE_SECONDS - EARLY
        assert served(clients) or late, f"lost what came after {took:.2f} s"
        process.assert_ends()


@beside
def test_02_waits_for_a_request_on_its_way() -> None:
    with started(by_name("02")) as process, process.client() as client:
        assert eventually(lambda: accepted(process, 1))
        begin = time.monotonic()
        process.signal(signal.SIGTERM)
        client.send_if_open(GET_CLOSE)
        late = time.monotonic() - begin > 0.5 - EARLY
        assert served([client]) or late, "lost"
        process.assert_ends()


@named(OURS)
@beside
def test_a_queued_client_is_served_when_we_stop(each: Server) -> None:
    # It connected before the signal, and waits to be accepted.
    number = 8 if each in KEEPING else 2  # one after the other
    with started(each) as process:
        with paused(process):
            clients = [process.client(GET_CLOSE) for _ in range(number)]
            process.signal(signal.SIGTERM)
            begin = time.monotonic()
        assert served(clients) or (
            time.monotonic() - begin > GRACE_SECONDS - EARLY
        ), "lost"
        process.assert_ends()


def accepted(process: Running, number: int) -> bool:
    """Has the server taken this many connections from the queue?"""
    found = [
        each for one in process.processes()
        for each in one.net_connections("tcp") if each.status == "ESTABLISHED"
    ]
    return len(found) >= number


@linux_only
@pytest.mark.parametrize("each", SERVERS, ids=lambda each: f"out-{each.name}")
def test_a_full_pipe_does_not_keep_it_from_ending(each: Server) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", 0) as ours, open(writing, "wb", 0) as theirs:
        process = subprocess.Popen(
            [PYTHON, str(each.path), *options_of(each, ())], stdout=theirs
        )
        try:
            ours.read(100)  # the ready line; nothing is read after it
            size = fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ)
            theirs.write(b"x" * size)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()


@linux_only
@pytest.mark.parametrize("each", SERVERS, ids=lambda each: f"out-{each.name}")
def test_a_full_disk_does_not_matter(each: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open("/dev/full", "wb", 0) as full:
        process = subprocess.Popen(
            [PYTHON, str(each.path), "--port", str(port), *each.options],
            stdout=full, stderr=subprocess.PIPE,
        )
    try:
        assert eventually(lambda: responses(port), PATIENCE)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE)[1] == b""
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def responses(port: int) -> bool:
    """Does a server on this port respond by now?"""
    try:
        with Client(port, GET_CLOSE) as client:
            return client.response().status == 200
    except (OSError, NoResponse):
        return False
