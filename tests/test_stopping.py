"""Stopping: signals, with nothing to do and in the midst of work.

All side by side: most of it is waiting.
"""

import contextlib
import re
import signal
import socket
import time

import pytest

from tests.beside import beside, beside_with
from tests.marks import rule, slow
from tests.process import (
    PATIENCE,
    Running,
    eventually,
    ever_within,
    has_read,
    load,
    started,
)
from tools.common.raw_client import GET, GET_CLOSE, Client
from tools.servers import NO, YES, Server, by_name

# The server has 5 s for what is under way. Who needs less time than that
# has not waited for its end.
SOONER = 5.0 - 0.5
SPINNING = 2.5  # seconds of CPU: half the time that it has
MANY = 10  # requests: 07 has two workers, and each has to know
HEALTH = GET.replace(b"/ ", b"/healthz?probe ")
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@rule("stop")
@BOTH
@beside
def test_stop_of_an_unused_server(server: Server, number: int) -> None:
    with started(server) as process:
        process.signal(number)
        process.assert_ends()


@rule("stop-open")
@BOTH
@beside
def test_stop_with_open_connections(server: Server, number: int) -> None:
    def attempt() -> float:
        with started(server) as process:
            rest = process.descriptors()
            clients = [process.client(), process.client(b"GET / HT")]
            if server.lessons["keep_alive"] == YES:
                clients.append(process.client(GET))
                clients[-1].response()
            assert eventually(lambda: process.descriptors() > rest)
            took = seconds_to_end(process, number)
            for client in clients:
                client.close()
            return took

    assert ever_within(SOONER, attempt)


def seconds_to_end(process: Running, number: int) -> float:
    """How long it takes it to end after a signal, without a complaint."""
    asked = time.monotonic()
    process.signal(number)
    process.wait()
    assert process.complaints == ""
    return time.monotonic() - asked


def under_way(process: Running, data: bytes) -> Client:
    """A client whose request the server has begun to work on."""
    client = process.client(data)
    assert eventually(lambda: has_read(client), PATIENCE)
    time.sleep(0.1)  # what it has read it looks at next
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
@BOTH
@beside
def test_stop_serves_who_is_in_the_queue(
    server: Server, number: int
) -> None:
    with started(server) as process:
        process.assert_serves()
        everybody = process.processes()
        for each in everybody:
            each.suspend()
        clients = [process.client(GET_CLOSE) for _ in range(5)]
        process.signal(number)
        for each in everybody:
            each.resume()
        responses = [client.response().status for client in clients]
        assert responses == [200] * len(clients)
        for client in clients:
            client.close()
        process.assert_ends()


@rule("no-descriptors")
@beside_with(70)
def test_stop_without_descriptors(server: Server) -> None:
    """More clients than it can accept: no reason to spin."""
    with started(server, descriptors=48) as process:
        clients = [process.client() for _ in range(60)]
        process.signal(signal.SIGTERM)
        process.assert_ends()
        for client in clients:
            client.close()
        spent = re.findall(r"([\d.]+) s (?:user|system)", process.closing)
        assert sum(map(float, spent)) < SPINNING, process.closing


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
    def attempt() -> float:
        """Seconds after the signal in which a new client was let in."""
        with started(server, "--delay", "4") as process:
            client = under_way(process, GET_CLOSE)
            process.signal(signal.SIGTERM)
            signalled = asked = time.monotonic()
            # Who does one thing at a time cannot look for the signal
            # before it is done: who has come until then has to wait.
            while server.lessons["overlap"] != NO and not refused(process):
                asked = time.monotonic()
                time.sleep(0.05)
            assert client.response().status == 200
            process.assert_ends()
        return asked - signalled

    assert ever_within(2, attempt), "let in until it ended"


@slow
@rule("stop-late")
@pytest.mark.parametrize("duck", [0, 1])
@beside
def test_stop_cuts_long_requests(server: Server, duck: int) -> None:
    options = "--delay", "60", "--lame-duck", f"{duck}"
    with started(server, *options) as process:
        client = under_way(process, GET)
        took = seconds_to_end(process, signal.SIGTERM)
        assert took > duck + SOONER, f"after {took:.1f} s already"
        client.close()


@rule("stop-twice")
@BOTH
@beside
def test_second_signal(server: Server, number: int) -> None:
    def attempt() -> float:
        with started(server, "--delay", "60") as process:
            client = under_way(process, GET)
            process.signal(number)
            time.sleep(0.3)  # else the two could become one
            took = seconds_to_end(process, number)
            client.close()
            return took

    assert ever_within(SOONER - 0.3, attempt)


def statuses(process: Running, requests: list[bytes]) -> list[int]:
    """What new clients get, each for a request."""
    found = []
    for request in requests:
        with process.client(request) as client:
            found.append(client.response().status)
    return found


@rule("lame-duck")
@BOTH
@beside
def test_a_lame_duck_serves(server: Server, number: int) -> None:
    """Its checks fail, all else goes on; until a second signal here."""
    keeps = server.lessons["keep_alive"] == YES
    with started(server, "--delay", "0", "--lame-duck", "60") as process:
        checks, both = [HEALTH] * MANY, [GET, HEALTH] * MANY
        assert statuses(process, both) == [200, 200] * MANY
        process.signal(number)
        assert eventually(
            lambda: statuses(process, checks) == [503] * MANY, PATIENCE
        )
        assert statuses(process, both) == [200, 503] * MANY
        if keeps:
            with process.client() as client:
                responses = [client.ask(data) for data in both]
            assert [each.status for each in responses] == [200, 503] * MANY
            assert not any(each.closes for each in responses)
        assert seconds_to_end(process, number) < PATIENCE / 2


@rule("lame-duck")
@beside
def test_a_lame_duck_ends(server: Server) -> None:
    """By itself, when its time is over: no request has to come."""
    with started(server, "--lame-duck", "1") as process:
        process.assert_serves()
        begun = time.monotonic()
        process.signal(signal.SIGTERM)
        assert eventually(lambda: refused(process), PATIENCE)
        assert time.monotonic() - begun > 1
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
