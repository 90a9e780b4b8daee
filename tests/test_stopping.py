"""Stopping: signals, with nothing to do and in the midst of work.

Nearly all side by side: most of it is waiting.
"""

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tests.beside import beside
from tests.marks import rule, slow
from tests.process import (
    PATIENCE,
    PYTHON,
    Running,
    eventually,
    load,
    readable,
    started,
    unread,
)
from tests.test_waiting import (
    EARLY,
    IDLE_SECONDS,
    KEEPING,
    OURS,
    named,
    paused,
    served,
    since,
)
from tools.common.raw_client import GET, GET_CLOSE, Client
from tools.servers import NO, ROOT, YES, Server, by_name

# The server has 5 s for what is under way: for us, a little less.
GRACE_SECONDS = 5.0 - EARLY
LIMITS = re.compile(rb"^((?:GRACE|HEAD|IDLE)_SECONDS = )[\d.]+", re.M)
TICK = 0.5  # seconds: a request on its way has to arrive within them
MANY = 10  # requests: 07 has two workers, and each has to know
HEALTH = GET.replace(b"/ ", b"/healthz?probe ")
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@contextlib.contextmanager
def patient(server: Server, *options: str) -> Iterator[Running]:
    """A server whose limits are ten minutes: if it ends, that is not why."""
    with tempfile.TemporaryDirectory() as folder:
        for path in server.path.parent.iterdir():
            copy = Path(folder, path.name)
            if path.suffix == ".py":
                copy.write_bytes(LIMITS.sub(rb"\g<1>600", path.read_bytes()))
            elif path.name != "__pycache__":
                copy.symlink_to(path)
        file = f"{folder}/{server.path.name}"
        like = {each.name: getattr(server, each.name)
                for each in fields(Server)} | {"file": file}
        with started(Server(**like), *options) as process:
            yield process


@rule("stop")
@BOTH
@beside
def test_stop_of_an_unused_server(server: Server, number: int) -> None:
    with started(server) as process:
        process.signal(number)
        process.assert_ends()


@rule("stop-open")
@beside
def test_stop_with_open_connections(server: Server) -> None:
    with patient(server) as process:
        rest = process.descriptors()
        clients = [process.client(), process.client(b"GET / HT")]
        if server.lessons["keep_alive"] == YES:
            clients.append(process.client(GET))
            clients[-1].response()
        assert eventually(lambda: process.descriptors() > rest)
        assert_ends_by(process, signal.SIGINT)
        for client in clients:
            client.close()


def assert_ends_by(
    process: Running, number: int, seconds: float = PATIENCE
) -> None:
    """It ends after this signal, without a complaint."""
    process.signal(number)
    process.wait(seconds)
    assert process.complaints == ""


def under_way(process: Running, data: bytes) -> Client:
    """A client whose request the server has read."""
    client = process.client(data)
    assert eventually(lambda: not unread([client]), PATIENCE)
    return client


@rule("stop-finishes")
@BOTH
@beside
def test_stop_lets_requests_finish(server: Server, number: int) -> None:
    with started(server, "--delay", "1.5") as process:
        client = under_way(process, GET)
        process.signal(number)
        response = client.response()
        assert (response.status, len(response.body)) == (200, 249), response
        client.rest()
        process.assert_ends()


@rule("stop-queue")
@beside
def test_stop_serves_the_queue(server: Server) -> None:
    # They connected before the signal, and wait to be accepted.
    with started(server) as process:
        process.assert_serves()
        with paused(process):
            clients = [process.client(GET_CLOSE) for _ in range(5)]
            process.signal(signal.SIGTERM)
            begin = time.monotonic()
        assert served(clients) or since(begin) > GRACE_SECONDS, "lost"
        process.assert_ends()


@named(OURS)
@beside
def test_a_request_on_its_way_when_we_stop(each: Server) -> None:
    # Two workers may stop listening half a second after each other.
    one = ["--workers", "1"] if each.step == 7 else []
    with started(each, *one) as process:
        clients = [process.client()] if each in KEEPING else []
        asked = time.monotonic()
        for kept in clients:
            kept.ask(GET)
        there = True
        if each.step < 7:  # 07 accepts when something has been sent
            clients.append(process.client())
            there = eventually(lambda: accepted(process, len(clients)))
        if each in KEEPING:
            # A whole request later, it is waiting for both of them.
            process.assert_serves()
        begin = probe = time.monotonic()
        process.signal(signal.SIGTERM)
        while each in KEEPING and not refused(process):
            begin, probe = probe, time.monotonic()  # still open at `begin`
        time.sleep(0.1)  # what closes at once is closed by now
        for client in clients:
            client.send_if_open(GET_CLOSE)
        late = since(begin) > TICK / 2 or since(asked) > IDLE_SECONDS - EARLY
        assert (there and served(clients)) or late, "lost"
        process.assert_ends()


def accepted(process: Running, number: int) -> bool:
    """Has the server taken this many connections from the queue?"""
    found = [
        each for one in process.processes()
        for each in one.net_connections("tcp") if each.status == "ESTABLISHED"
    ]
    return len(found) >= number


def refused(process: Running) -> bool:
    """Is a new client refused?"""
    try:
        process.client().close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it met the closing: the next one will be
        pass
    return False


@rule("stop-refuses")
@beside
def test_stop_refuses_new_clients(server: Server) -> None:
    # One thing at a time: it cannot look for the signal before it is done,
    # so whoever has come until then has to wait. Others let nobody in
    # while a request is under way, here for ten minutes.
    alone = server.lessons["overlap"] == NO
    with patient(server, "--delay", "1" if alone else "600") as process:
        client = under_way(process, GET_CLOSE)
        process.signal(signal.SIGTERM)
        if alone:
            assert client.response().status == 200
        assert eventually(lambda: refused(process), PATIENCE), "let in"
        assert alone or not readable([client], 0)


@slow
@rule("stop-late")
@beside
def test_stop_cuts_long_requests(server: Server) -> None:
    # What is under way has its time from the end of the lame duck on.
    with started(server, "--delay", "60", "--lame-duck", "1") as process:
        client = under_way(process, GET)
        asked = time.monotonic()
        assert_ends_by(process, signal.SIGTERM)
        took = since(asked)
        assert took > 1 + GRACE_SECONDS, f"after {took:.1f} s already"
        client.close()


@rule("stop-twice")
@beside
def test_second_signal(server: Server) -> None:
    with patient(server, "--delay", "600") as process:
        client = under_way(process, GET)
        process.signal(signal.SIGINT)  # two of a kind could become one
        assert_ends_by(process, signal.SIGTERM)
        client.close()


def statuses(process: Running, requests: list[bytes]) -> list[int]:
    """What new clients get, each for a request."""
    found = []
    for request in requests:
        with process.client(request) as client:
            found.append(client.response().status)
    return found


@rule("lame-duck")
@beside
def test_a_lame_duck_serves(server: Server) -> None:
    """Its checks fail, all else goes on; until a second signal here."""
    with started(server, "--delay", "0", "--lame-duck", "60") as process:
        checks, both = [HEALTH] * MANY, [GET, HEALTH] * MANY
        assert statuses(process, both) == [200, 200] * MANY
        process.signal(signal.SIGTERM)
        assert eventually(
            lambda: statuses(process, checks) == [503] * MANY, PATIENCE
        )
        assert statuses(process, both) == [200, 503] * MANY
        if server.lessons["keep_alive"] == YES:
            with process.client() as client:
                responses = [client.ask(data) for data in both]
            assert [each.status for each in responses] == [200, 503] * MANY
            assert not any(each.closes for each in responses)
        assert_ends_by(process, signal.SIGTERM, PATIENCE / 2)


@rule("lame-duck")
@beside
def test_a_lame_duck_ends(server: Server) -> None:
    """By itself, when its time is over: no request has to come."""
    with started(server, "--lame-duck", "1") as process:
        process.assert_serves()
        begun = time.monotonic()
        process.signal(signal.SIGTERM)
        assert eventually(lambda: refused(process), PATIENCE)
        assert since(begun) > 1
        process.assert_ends()
        assert process.closing.startswith("Answered ")


@pytest.mark.parametrize("name", ["04", "05", "05-threads"])
def test_a_client_that_is_ready_is_not_overdue(name: str) -> None:
    """The loop was busy with others: its request would be lost."""
    module = load(by_name(name).path)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as silent,
        socket.create_connection(listener.getsockname()) as sender,
    ):
        clients = module.Clients(listener)
        clients.accept()
        with contextlib.ExitStack() as stack:
            for client in clients.active:
                stack.callback(client.sock.close)
                client.connection.deadline = 0.0
            sender.sendall(GET)
            assert eventually(lambda: clients.selector.select(0))
            found = [c.sock.getpeername() for c in clients.overdue()]
            assert found == [silent.getsockname()]


@pytest.mark.skipif(sys.platform != "linux", reason="no /dev/full there")
@pytest.mark.parametrize("what", ["pipe", "disk"])
def test_what_it_prints_to_may_be_full(what: str) -> None:
    """Both lines of every server are printed by web.py."""
    reading, out = os.pipe()
    if what == "disk":
        os.close(out)
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        os.write(out, b"x" * fcntl.fcntl(out, fcntl.F_GETPIPE_SZ))
    try:
        done = subprocess.run(
            [PYTHON, "-c", "import web; web.print_line('Answered')"],
            cwd=ROOT / "02_sockets", stdout=out, stderr=subprocess.PIPE,
            timeout=PATIENCE, check=False,
        )
    finally:
        os.close(reading)
        os.close(out)
    assert (done.returncode, done.stderr) == (0, b"")
