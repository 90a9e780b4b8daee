"""Faults: resets, nonsense, no descriptors left, a worker killed."""

import functools
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.beside import beside_with
from tests.marks import rule, slow
from tests.process import (
    PATIENCE,
    Running,
    alive,
    eventually,
    running,
    started,
)
from tools.common.raw_client import (
    GET,
    GET_CLOSE,
    HOST,
    Client,
    read_responses,
    transcript,
)
from tools.servers import YES, Server

HEAD = GET.replace(b"GET", b"HEAD")
MISSING = GET.replace(b"/ ", b"/missing ")
UNKNOWN = GET.replace(b"GET", b"BREW")


# What is sent before a client leaves, and how it does: "early" at once,
# "part" with ten bytes of the answer read, "answer" with the whole of it,
# "half" after closing its side, "close" orderly.
MOMENTS = [
    (b"", "early"), (GET[:20], "early"), (GET, "early"),
    (GET + GET + MISSING + GET[:9], "early"), (GET, "part"),
    (GET, "answer"), (GET, "half"), (UNKNOWN, "answer"),
    (b"GET /" + b"x" * 100_000, "early"), (GET, "close"),
]


def leave(client: Client, data: bytes, how: str) -> None:
    client.send(data)
    if how == "part":
        client.socket.recv(10)
    elif how == "answer":
        client.response()
    elif how == "half":
        client.half_close()
    if how == "close":
        client.close()
    else:
        client.reset()


@slow
@rule("reset")
@beside_with(60)
def test_resets(server: Server) -> None:
    # Others' connections go on while clients vanish around them. And
    # running() looks at stderr in the end: no traceback.
    keeps = server.lessons["keep_alive"] == YES
    with running(server, "--delay", "0.05") as process:
        before = process.warm_up()
        for _ in range(4):
            steady = [process.client()] if keeps else []
            for client in steady:
                client.ask(GET)
            for data, how in MOMENTS:
                leave(process.client(), data, how)
            crowd = [process.client(GET) for _ in range(20)]
            for client in steady:
                client.send(GET)
            time.sleep(0.03)  # some are at work
            for client in crowd:
                client.reset()
            for client in steady:
                assert client.response().status == 200
                client.close()
            process.assert_serves()
        process.assert_at_rest(before)


@slow
@rule("reset")
@beside_with(60)
def test_pipelined_then_vanished(server: Server) -> None:
    # Five answers are due when the client goes: the first send may fail,
    # or the second, when the first has brought a reset.
    with running(server, "--delay", "0.05") as process:
        before = process.warm_up()
        # Three times: on a busy machine, a client that wants to leave
        # early may leave after its answer.
        for how in ("early", "part", "close") * 3:
            leave(process.client(), 5 * GET, how)
            process.assert_serves()
        process.assert_at_rest(before)


GOOD = [
    GET,
    GET_CLOSE,
    HEAD,
    MISSING,
    UNKNOWN,
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + GET_CLOSE,
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nabcde",
    b"PUT / HTTP/1.1\r\n" + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET http://test/ HTTP/1.1\r\n" + HOST + b"Accept: */*\r\n\r\n",
    b"GET /?q=%20 HTTP/1.1\r\n" + HOST + b"Connection: Close, x\r\n\r\n",
    GET + MISSING + HEAD + GET_CLOSE,
]
PIECES = [
    b"\r\n", b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"GET / HTTP/1.1\r\n",
    b"HTTP/1.1", b"HTTP/9.9", b"Host: b\r\n", b"Content-Length: 7\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"X" * 9000,
    b"a: b\r\n" * 120, b"%00", b"../", b"\t", b"\r\n\r\n", b"*", b"?#",
]


def damaged(draw: random.Random) -> bytes:
    """A request that is random, mutated or truncated."""
    data = bytearray(draw.choice(GOOD))
    kind = draw.random()
    if kind < 0.1:
        return draw.randbytes(draw.randrange(300))
    if kind < 0.25:
        return bytes(data[: draw.randrange(len(data))])
    for _ in range(draw.choice([1, 1, 2, 4])):
        at = draw.randrange(len(data) + 1)
        change = draw.random()
        if change < 0.3:
            data[at:at + 1] = bytes([draw.randrange(256)])
        elif change < 0.5:
            del data[at:at + draw.choice([1, 2, 10])]
        elif change < 0.9:
            data[at:at] = draw.choice(PIECES)
        else:
            end = at + draw.randrange(40)
            data[at:at] = data[at:end]
    return bytes(data)


NONSENSE = 1000  # over sockets; of the parser alone, ten times as many


@rule("nonsense")
def test_nonsense(server: Server) -> None:
    draw = random.Random(f"nonsense {server.step}")
    at_once = 40
    with running(server, "--delay", "0") as process:
        before = process.warm_up()
        answered = 0
        for _ in range(NONSENSE // at_once):
            transcript.clear()
            clients = []
            for _ in range(at_once):
                client = process.client(damaged(draw))
                client.half_close()
                clients.append(client)
            for client in clients:
                answered += bool(read_responses(client.rest()))
                client.reset()  # leaves no TIME_WAIT behind
        assert answered > NONSENSE / 2, "most are complete enough"
        process.assert_serves()
        process.assert_at_rest(before)


KINDS = [(GET, 200), (HEAD, 200), (MISSING, 404), (UNKNOWN, 501)]


def talk(process: Running, seed: int) -> None:
    """One client's own random sequence, over several connections."""
    draw = random.Random(seed)
    keeps = process.server.lessons["keep_alive"] == YES
    for _ in range(4):
        with process.client() as client:
            for _ in range(draw.randrange(1, 5) if keeps else 1):
                most = 6 if keeps else 2
                batch = draw.choices(KINDS, k=draw.randrange(1, most))
                data = b"".join(request for request, _ in batch)
                cut = draw.randrange(len(data))
                client.send(data[:cut])
                client.send(data[cut:])
                for request, status in batch:
                    response = client.response(head=request == HEAD)
                    assert response.status == status, (seed, request, response)
                    assert (len(response.body) == 249) == (request == GET)
            client.half_close()
            assert client.rest() == b"", "more answers than requests"


@rule("never-mixed")
def test_responses_never_mix(server: Server) -> None:
    with running(server, "--delay", "0.002") as process:
        before = process.warm_up()
        with ThreadPoolExecutor(30) as pool:
            done = [pool.submit(talk, process, seed) for seed in range(45)]
            for each in done:
                each.result()
        process.assert_at_rest(before)


THREE = ("--workers", "3", "--worker-kind", "process")


def replaced(
    process: Running, victims: list[psutil.Process], number: int = 3
) -> bool:
    """Are there so many workers, and none of these?"""
    pids = {each.pid for each in process.workers()}
    return len(pids) == number and pids.isdisjoint(v.pid for v in victims)


@rule("worker-killed", steps=range(7, 8))
def test_worker_killed(server: Server) -> None:
    with running(server, *THREE) as process:
        at_rest = process.warm_up()
        for number in (1, 2, 1):  # again and again
            victims = process.workers()[:number]
            others = process.workers()[number:]
            for each in victims:
                each.kill()
            # Nobody who comes meanwhile is turned away by the others, and
            # what had been waiting for the dead worker is lost at most.
            answered = sum(process.serves() for _ in range(20))
            assert answered >= 5, f"{answered} of 20 were answered"
            done = functools.partial(replaced, process, victims)
            assert eventually(done, PATIENCE), process.workers()
            assert all(map(alive, others)), "they had nothing to do with it"
            for _ in range(20):
                process.assert_serves()
        process.assert_at_rest(at_rest)


@rule("parent-killed", steps=range(7, 8))
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_parent_killed(server: Server) -> None:
    with started(server, *THREE) as process:
        process.assert_serves()
        orphans = process.workers()
        assert orphans, "it has no worker processes"
        process.signal(signal.SIGKILL)
        process.wait()
        try:
            assert eventually(
                lambda: not any(map(alive, orphans)), PATIENCE
            ), f"still there: {orphans}"
        finally:
            for each in filter(alive, orphans):
                each.kill()
