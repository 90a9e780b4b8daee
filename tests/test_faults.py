"""Faults: resets, nonsense, no descriptors left, a worker killed."""

import functools
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import psutil

from tests.beside import beside
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
# "part" with ten bytes of the response read, "whole" with all of it,
# "half" after closing its side, "close" orderly.
MOMENTS = [
    (b"", "early"), (GET[:20], "early"), (GET, "early"),
    (GET + GET + MISSING + GET[:9], "early"), (GET, "part"),
    (GET, "whole"), (GET, "half"), (UNKNOWN, "whole"),
    (b"GET /" + b"x" * 100_000, "early"), (GET, "close"),
]


def leave(client: Client, data: bytes, how: str) -> None:
    client.send(data)
    if how == "part":
        client.socket.recv(10)
    elif how == "whole":
        client.response()
    elif how == "half":
        client.half_close()
    if how == "close":
        client.close()
    else:
        client.reset()


@slow
@rule("reset")
@beside
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
@beside
def test_pipelined_then_vanished(server: Server) -> None:
    # Five responses are due when the client goes: the first send may fail,
    # or the second, when the first has brought a reset.
    with running(server, "--delay", "0.05") as process:
        before = process.warm_up()
        # Three times: on a busy machine, a client that wants to leave
        # early may leave after its response.
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
            clients = [process.client(damaged(draw)) for _ in range(at_once)]
            for client in clients:
                client.half_close()
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
            assert client.rest() == b"", "more responses than requests"


@rule("never-mixed")
def test_responses_never_mix(server: Server) -> None:
    with running(server, "--delay", "0.002") as process:
        before = process.warm_up()
        with ThreadPoolExecutor(30) as pool:
            list(pool.map(lambda seed: talk(process, seed), range(30)))
        process.assert_at_rest(before)


THREE = ("--workers", "3", "--worker-kind", "process")


def replaced(
    process: Running, victims: list[psutil.Process], number: int = 3
) -> bool:
    """Are there so many workers, and none of these?"""
    pids = {each.pid for each in process.workers()}
    return len(pids) == number and pids.isdisjoint(v.pid for v in victims)


def owners(process: Running, clients: list[Client]) -> list[int]:
    """The worker (its pid) that has accepted each of these clients."""
    found: dict[int, int] = {}
    ports = [client.socket.getsockname()[1] for client in clients]

    def all_found() -> bool:
        for each in process.workers():
            for connection in each.net_connections(kind="tcp"):
                if connection.raddr:
                    found[connection.raddr.port] = each.pid
        return found.keys() >= {*ports}

    assert eventually(all_found, PATIENCE)
    return [found[port] for port in ports]


@rule("worker-killed", range(7, 8))
@rule("worker-replaced", range(7, 8))
def test_worker_killed(server: Server) -> None:
    with running(server, *THREE, "--delay", "1") as process:
        at_rest = process.warm_up()
        crowd = [process.client(GET[:1]) for _ in range(24)]
        pids = owners(process, crowd)
        steady = [
            client for client, pid in zip(crowd, pids, strict=True)
            if pid == pids[0]
        ]
        for client in crowd:
            client.send(GET[1:])
        victims = [w for w in process.workers() if w.pid != pids[0]]
        for each in victims:
            each.kill()
        # Until then its ring may still accept.
        assert eventually(lambda: not any(map(alive, victims)), PATIENCE)
        late = [process.client(GET_CLOSE) for _ in range(24)]
        for client in steady:
            assert client.response().status == 200, "it went on"
            client.send(GET)
        done = functools.partial(replaced, process, victims)
        assert eventually(done, PATIENCE), process.workers()
        assert pids[0] in [each.pid for each in process.workers()]
        for client in steady + late:
            assert client.response().status == 200, "it waited in a queue"
        for client in crowd + late:
            client.close()
        process.assert_at_rest(at_rest)


@rule("worker-replaced", range(7, 8))
def test_stop_while_a_worker_is_dead(server: Server) -> None:
    with started(server, *THREE) as process:
        process.assert_serves()
        process.workers()[1].kill()
        process.signal(signal.SIGTERM)
        process.assert_ends()
        assert process.closing.count("\n") == 1


@rule("parent-killed", steps=range(7, 8))
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
