"""Sending: what 07 does with the files of --directory, on each engine.

Which file a request means, and how much of it, is decided in process:
test_files.py.
"""

import dataclasses
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import Shared
from tests.marks import by_rule, rule
from tests.process import (
    PATIENCE,
    PYPY,
    Running,
    running,
    started,
    take,
    why_no_uring,
)
from tests.test_faults import leave
from tests.test_files import (
    LARGE,
    PAGE,
    SIZES,
    STEP,
    Own,
    bytes_of,
    request,
    tree,
)
from tests.test_files import own as own
from tests.test_running import assert_refused, run
from tools.common.raw_client import Client, Response
from tools.servers import Server


def with_engine(server: Server, *options: str) -> Server:
    """The server on its engine: io_uring where there is no other."""
    engine = "emulated" if "emulated" in server.options else "uring"
    if engine == "uring" and why_no_uring():
        pytest.skip(why_no_uring())
    return dataclasses.replace(server, options=("--engine", engine, *options))


def with_files(server: Server) -> Server:
    """The server on its engine, with the files."""
    return with_engine(server, "--directory", str(tree()))


@pytest.fixture
def shared(server: Server, one_server: Shared) -> Iterator[Running]:
    """As in conftest.py, with the files."""
    process = one_server.get(with_files(server))
    before = [each.pid for each in process.processes()]
    yield process
    after = [each.pid for each in process.processes()]
    found = (process.status(), process.complaints, after)
    if found != (None, "", before):
        one_server.server = None
        raise AssertionError(f"(exit status, stderr, pids): {found}")


def ask(process: Running, target: str) -> Response:
    """The response to one request; the connection must be good for more."""
    with process.client(request(target)) as client:
        response = client.response()
        assert_goes_on(client)
        return response


def assert_goes_on(client: Client) -> None:
    """The next response is as it should be, and nothing follows."""
    response = client.ask(request("/page.html"))
    assert (response.status, response.body) == (200, PAGE), response
    assert client.taken == len(client.received), client.received


@rule("file-no-work", STEP)
def test_files_do_not_wait(server: Server) -> None:
    work = ("--delay", "3600", "--compute", "1000000000")
    with running(with_files(server), *work) as process:
        for target, status in (
            ("/page.html", 200), ("/", 200), ("/missing", 404),
            ("/sub", 301), ("/out.txt", 404),
        ):
            assert ask(process, target).status == status


@rule("only-files", STEP)
def test_only_regular_files(shared: Running) -> None:
    # A server that waited for the writer of a FIFO would respond to none.
    for name in ("fifo", "fifo/", "fifo/x", "socket") * 3:
        assert ask(shared, f"/{name}").status == 404


Step = tuple[bytes, int, bytes | None]  # what is sent, what comes of it


def part(first: int, last: int) -> Step:
    """A range of a file of several parts."""
    field = f"Range: bytes={first}-{last}"
    body = bytes_of(1048577, 1048577)[first : last + 1]
    return request("/size-1048577.bin", field), 206, body


CONVERSATIONS: dict[str, list[Step]] = {
    "file": [(request(f"/size-{size}.bin", method=method), 200, body)
             for size in SIZES for method, body in (
                 ("GET", bytes_of(size, size)), ("HEAD", b""),
             )],
    "range": [  # at many offsets within a page, in the middle, many pages
        *[part(first, first + 240) for first in range(0, 4097, 241)],
        part(999_999, 1_000_001), part(1 << 19, (1 << 20) - 1),
    ],
    "file-keep": [
        (request("/page.html"), 200, PAGE),
        (request("/size-65537.bin"), 200, bytes_of(65537, 65537)),
        (b"GET /size-65537.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
         200, bytes_of(65537, 65537)),
        (request("/missing"), 404, None), (request("/size-0.bin"), 200, b""),
        (request("/sub"), 301, None),
        (request("/a.txt", "If-None-Match: *"), 304, b""),
        (request("/a.txt", 'If-Match: "x"'), 412, None),
        (request("/a.txt", "Range: bytes=99-"), 416, None),
        (request("/a.txt", method="BREW"), 501, None),
        (request("/a.txt", method="POST"), 405, None),
        (request("/size-1048577.bin"), 200, bytes_of(1048577, 1048577)),
        (request("/sub/"), 200, b"<p>sub\n"),
    ],
}  # fmt: skip


def talk(process: Running, steps: list[Step], seed: int) -> None:
    """One client's own order of requests, at once or in pieces."""
    draw = random.Random(seed)
    steps = draw.sample(steps, len(steps))
    data = b"".join(step[0] for step in steps)
    size = draw.choice([10, 100, len(data) // 2, len(data)])
    with process.client() as client:
        for start in range(0, len(data), size):
            client.send(data[start : start + size])
        for sent, status, body in steps:
            response = client.response(head=sent.startswith(b"HEAD"))
            assert response.status == status, (sent, response)
            assert body in (None, response.body), (sent, len(response.body))
        client.half_close()
        assert client.rest() == b""


@by_rule([(name,) for name in CONVERSATIONS], STEP)
def test_conversations(shared: Running, name: str) -> None:
    """Of several clients at the same time: they never mix."""
    with ThreadPoolExecutor(8) as pool:
        for each in [
            pool.submit(talk, shared, CONVERSATIONS[name][seed % 4 :: 4], seed)
            for seed in range(16)
        ]:
            each.result()


@rule("file-keep", STEP)
def test_the_end_of_a_connection(shared: Running) -> None:
    for data, half in (
        (request("/size-1048577.bin", "Connection: close"), False),
        (b"GET /size-1048577.bin HTTP/1.0\r\n\r\n", False),
        (request("/size-1048577.bin", "Connection: close"), True),
        (request("/size-1048577.bin"), True),
    ):
        with shared.client(data) as client:
            if half:
                client.half_close()
            assert len(client.response().body) == 1048577
            assert client.rest() == b""


def begin_large(client: Client, name: str, *fields: str) -> bytes:
    """Ask for a large file: what came of its body."""
    client.received, client.taken = b"", 0
    client.send(request(f"/{name}", *fields))
    return begun(client)


def begun(client: Client) -> bytes:
    """Wait for the head of a large file: what came of its body."""
    while b"\r\n\r\n" not in client.received:
        assert client.receive(PATIENCE), "no head"
    head, _, body = client.received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert b"\r\nContent-Length: %d" % LARGE in head, head
    client.received, client.taken = b"", 0
    return body


def rest_of(client: Client, body: bytes, size: int = LARGE) -> bytes:
    """All of a body that has begun, or less if the server ends before."""
    return body + take(client.socket, size - len(body))


@rule("file-large", STEP)
def test_large_files_in_small_pieces(shared: Running) -> None:
    expected = bytes_of("large", LARGE)
    data = request("/large.bin") * 2
    with Client(shared.port, data, receive_buffer=16384) as client:
        for _ in range(2):
            body = begun(client)
            assert ask(shared, "/page.html").body == PAGE, "of another one"
            client.received = body[LARGE:]  # the next response
            assert rest_of(client, body[:LARGE]) == expected
        assert_goes_on(client)


def stuck(process: Running, number: int) -> list[Client]:
    """Clients that have asked for a large file and do not read it."""
    data = request("/large.bin")
    clients = [
        Client(process.port, data, receive_buffer=4096) for _ in range(number)
    ]
    ask(process, "/page.html")
    return clients


@rule("file-large", STEP)
def test_a_large_file_is_not_kept_in_memory(server: Server) -> None:
    with running(with_files(server), "--workers", "1") as process:
        ask(process, "/page.html")
        before = own_memory(process)
        crowd = stuck(process, 10)
        time.sleep(0.5)
        grown = (own_memory(process) - before) / 2**20
        assert grown < 16, f"memory grew by {grown:.0f} MiB"
        for client in crowd:
            client.reset()


def own_memory(process: Running) -> int:
    """Resident bytes but for the pages of files, which all share."""
    seen = [each.memory_info() for each in process.processes()]
    return sum(memory.rss - memory.shared for memory in seen)


@rule("file-large", STEP)
def test_stop_lets_a_file_finish(server: Server) -> None:
    with (
        started(with_files(server)) as process,
        Client(process.port, receive_buffer=1 << 16) as client,
    ):
        body = begin_large(client, "large.bin")
        process.signal(signal.SIGTERM)
        assert len(rest_of(client, body)) == LARGE
        assert client.rest() == b""
        process.assert_ends()


def open_large(process: Running) -> None:
    """Let every worker open the files: it may keep them open."""
    for _ in range(20):
        with process.client() as client:
            client.ask(request("/page.html"))
            begin_large(client, "large.bin")


@rule("file-left", STEP)
def test_leaving_in_the_middle(server: Server) -> None:
    more = request("/page.html") * 3
    ways = ((b"", "early"), (b"", "close"), (b"", "half"), (more, "early"))
    with running(with_files(server)) as process:
        open_large(process)
        for way in ways * 5:  # the kernel keeps a thread or two for us
            client = process.client()
            begin_large(client, "large.bin")
            leave(client, *way)
        before = process.warm_up()
        steady = process.client()
        for wanted in (0, 1, 100_000, 5_000_000):
            crowd = [process.client() for _ in ways]
            for client in crowd:
                begin_large(client, "large.bin")
                take(client.socket, wanted)
            for client, way in zip(crowd, ways, strict=True):
                leave(client, *way)
            assert steady.ask(request("/page.html")).body == PAGE
        steady.close()
        process.assert_at_rest(before)


@pytest.mark.thorough
@rule("file-left", STEP)
def test_half_closed_readers_take_no_threads(server: Server) -> None:
    # The kernel takes a half-closed connection for ready at any time;
    # an io_uring that has to wait for it all the same uses a thread.
    with running(with_files(server), "--workers", "1") as process:
        ask(process, "/page.html")
        before = process.threads()
        clients = stuck(process, 40)
        for client in clients:
            client.half_close()
        assert ask(process, "/page.html").body == PAGE
        assert not process.busy(1), "a busy loop"
        assert process.threads() <= before + 4
        last = clients.pop()
        for client in clients:
            client.reset()
        assert rest_of(last, begun(last)) == bytes_of("large", LARGE)
        last.close()


@rule("file-under-way", STEP)
@pytest.mark.parametrize("left", [0, 1, 1_000_000, 1_048_576, LARGE // 2])
def test_file_is_shortened_under_way(
    server: Server, shared: Running, own: Own, left: int
) -> None:
    if PYPY and server.name == "07-emulated":
        pytest.skip(
            "PyPy reads a mapped file before it sends: the worker dies of "
            "SIGBUS where the file has become shorter, and is replaced"
        )
    data = bytes_of("under way", LARGE)
    path = own("shorter.bin", data)
    with shared.client() as client, shared.client() as other:
        other.ask(request("/page.html"))
        body = begin_large(client, path.name)
        client.send(request("/page.html"))
        os.truncate(path, left)
        # Either it has all of the old file, or the connection ends in
        # the middle: no response follows one of a wrong length.
        body = rest_of(client, body)
        if len(body) == LARGE:
            assert body == data
            assert client.response().body == PAGE
        else:
            assert body[:left] == data[: min(left, len(body))]
        assert_goes_on(other)
        assert ask(shared, f"/{path.name}").body == data[:left]


@rule("directory", STEP)
def test_directory_must_be_one(server: Server) -> None:
    for name in ("missing", "page.html", "page.html/", "fifo", "loop"):
        wrong = with_engine(server, "--directory", f"{tree()}/{name}")
        done = run(server, "--port", "0", *wrong.options)
        assert_refused(done, 2)
        assert name.strip("/") in done.stderr


@rule("directory", STEP)
def test_without_directory_no_files(server: Server) -> None:
    with running(with_engine(server)) as process:
        for target in ("/page.html", "/server.py", "/07_parallel/server.py"):
            with process.client(request(target)) as client:
                assert client.response().status == 404
