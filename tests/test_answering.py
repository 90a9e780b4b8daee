"""Responding: what comes back for requests a server takes."""

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import requests

from tests.marks import by_rule, rule
from tests.process import (
    PATIENCE,
    PYPY,
    SKETCH_PAGE,
    Running,
    eventually,
    load,
    readable,
    running,
    unread,
)
from tests.test_refusing import DATE, assert_well_written, only_response
from tools.common.raw_client import (
    GET,
    GET_CLOSE,
    Client,
    Response,
    read_responses,
)
from tools.servers import ROOT, SKETCHES, STEPS, YES, Server

PAGE: bytes = load(ROOT / "02_sockets" / "web.py").PAGE.encode()


def head(first: str, *fields: str, host: bool = True) -> bytes:
    """A request head from its lines."""
    lines = [first, *(["Host: test"] if host else []), *fields]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def keeps(server: Server) -> bool:
    """Does it keep connections open?"""
    return server.lessons["keep_alive"] == YES


def page(server: Server) -> bytes:
    """The page that GET / has to bring."""
    return SKETCH_PAGE if server in SKETCHES else PAGE


def ask(shared: Running, data: bytes, to_head: bool = False) -> Response:
    """The one response to data on a connection of its own."""
    with shared.client(data) as client:
        return client.response(head=to_head)


@rule("page")
def test_page(shared: Running) -> None:
    response = requests.get(f"http://127.0.0.1:{shared.port}/", timeout=60)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Content-Length"] == "249"
    assert len(response.content) == 249
    assert response.text.lower().startswith("<!doctype html>")


@rule("same-page")
def test_same_page(shared: Running) -> None:
    assert len(PAGE) == 249
    assert ask(shared, GET).body == PAGE


@rule("work")
def test_work(server: Server) -> None:
    with running(server, "--delay", "0.4") as process:
        begin = time.monotonic()
        process.assert_serves()
        assert time.monotonic() - begin >= 0.4
    spent = []
    # PyPy's compiler makes a loop some fifty times as fast.
    for compute in ("0", "150000000" if PYPY else "10000000"):
        with running(server, "--delay", "0", "--compute", compute) as process:
            process.assert_serves()
            before = process.cpu()
            process.assert_serves()
            spent.append(process.cpu() - before)
    idle, busy = spent
    assert busy > 2 * idle + 0.02, "CPU seconds of a request"


@rule("date")
def test_date(shared: Running) -> None:
    for data in (GET, head("GET /missing HTTP/1.1"), head("BREW / HTTP/1.1")):
        text = ask(shared, data).get("Date")
        assert DATE.fullmatch(text), text
        date = parsedate_to_datetime(text)
        off = abs((datetime.now(UTC) - date).total_seconds())
        assert off < 60, f"{date} is {off} s off"


@rule("head")
def test_head(shared: Running) -> None:
    get = ask(shared, GET_CLOSE)
    data = GET_CLOSE.replace(b"GET", b"HEAD")
    response = only_response(shared, data, to_head=True)
    assert (response.status, response.body) == (200, b"")
    found, wanted = (
        [field for field in each.fields if field[0] != "Date"]
        for each in (response, get)
    )
    assert found == wanted
    data = head("HEAD /missing HTTP/1.1", "Connection: close")
    assert only_response(shared, data, to_head=True).status == 404


OK = (200,)
ANY, KEPT, CLOSED = "", "kept", "closed"  # the connection, afterwards


def lines(*asked: str) -> list[bytes]:
    """Requests with these methods and targets."""
    return [head(f"{each} HTTP/1.1") for each in asked]


def fields(*more: str, minor: int = 1, host: bool = True) -> list[bytes]:
    """Requests for the page, each with more fields: a line each."""
    return [
        head(f"GET / HTTP/1.{minor}", *each.split("\n"), host=host)
        for each in more
    ]


# None of these means anything to a server.
OTHER_FIELDS = (
    "X-Unknown: y", "X:", "X: caf\u00e9", "X: y\tz", "Content-Location: /x",
    "TE: trailers", "Max-Forwards: 0", "From: me@test",
    "Upgrade: h2c\nConnection: Upgrade", "HTTP2-Settings: AAMAAABk",
    "Upgrade: websocket, HTTP/2.0\nConnection: Upgrade",
    "Expect: the-unexpected", "Content-Length: 0", "Content-Length: \t00 ",
)
BARE = [head("GET / HTTP/1.0", host=False), head("GET / HTTP/1.0")]
# Rule, the statuses a response may have (200 is the page), what becomes of
# the connection, the requests.
ASKED: list[tuple[str, tuple[int, ...], str, list[bytes]]] = [
    ("query", OK, ANY, lines(
        "GET /?", "GET /?a=1&b=%20", "GET /?/x?y", "GET /?../..",
    )),
    ("not-found", (404,), ANY, lines(
        "GET /missing", "GET /index.html", "GET /x/",
    )),
    ("not-implemented", (501,), ANY, lines(
        "BREW /", "get /", "G /", "X-Y_Z! /", f"{'LONG' * 1000} /",
    )),
    ("not-allowed", (405,), ANY, lines(
        *[f"{method} {path}" for path in ("/", "/missing") for method in (
            "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE",
        )], "CONNECT test:443", "CONNECT test:", "CONNECT test",
    )),
    ("options", (200, 405), ANY, lines("OPTIONS *")),
    ("absolute-form", OK, ANY, lines(
        "GET http://test/", "GET http://test:80/?q", "GET HTTP://other",
        "GET http://test?q", "GET http://[::1]:/",
    )),
    ("absolute-form", (404,), ANY, lines("GET http://test/missing")),
    ("percent", (400, 404), ANY, lines(
        "GET /%2F", "GET /%2f%2F", "GET /%2e%2e/", "GET /..%2fetc/passwd",
        "GET /%00", "GET /%zz",
    )),
    ("other-fields", OK, ANY, fields(*OTHER_FIELDS)),
    ("other-fields", OK, ANY, fields(*OTHER_FIELDS, minor=0)),
    ("later-version", OK, ANY, BARE),
    *[("later-version", OK, KEPT, [head(f"GET / HTTP/1.{minor}")])
      for minor in range(1, 10)],
    ("one-host", OK, ANY, fields(*[f"Host:\t {host} " for host in (
        "", "test", "TEST:", "te_st.example:65536", "127.0.0.1:8000",
        "[::1]", "[::ffff:1.2.3.4]:80", "a%20b", "a,b;c=(d)!$&'*+~",
    )], host=False)),
    ("keep-11", OK, KEPT, [
        GET, *fields("Connection: keep-alive", "Connection: a, b"),
    ]),
    ("keep-11", (404,), KEPT, lines("GET /missing")),
    ("keep-10", OK, KEPT, fields(
        "Connection: keep-alive", "Connection: Keep-Alive",
        "Connection: x,KEEP-alive", minor=0, host=False,
    )),
    ("close-11", OK, CLOSED, fields(
        "Connection: close", "Connection: CLOSE", "Connection: Close, x",
        "Connection: keep-alive,close", "Connection: x ,\tcLoSe",
        "Connection: x\nconnection: close", "Connection:\t close \t",
        "Connection: , ,close,,",
    )),
    ("close-10", OK, CLOSED, BARE),  # it needs no Host
    *[("close-10", OK, CLOSED, fields(
        "Connection: x-keep-alive", minor=0, host=host,
    )) for host in (False, True)],
]  # fmt: skip


@by_rule(ASKED)
def test_asked(shared: Running, server: Server, name: str) -> None:
    for _, statuses, after, asked in (r for r in ASKED if r[0] == name):
        for data in asked:
            if after == ANY:
                response = ask(shared, data)
            elif after == KEPT and keeps(server):
                response = response_of_kept(shared, data)
            else:  # what follows has no response
                response = only_response(shared, data + GET)
            assert response.status in statuses, (data, response)
            is_the_page = response.body == page(server)
            assert is_the_page == (statuses == OK) or name == "options", data
            if name == "later-version":
                assert response.version == "HTTP/1.1", "our highest"
            if name == "not-allowed":
                assert response.get("Allow") == "GET, HEAD"


def response_of_kept(shared: Running, data: bytes) -> Response:
    """The response to the second of two requests on one connection."""
    with shared.client(data) as client:
        for _ in range(2):
            response = client.response()
            assert not response.closes, (data, response)
            client.send(data)
        if b"HTTP/1.0" in data:
            assert response.get("Connection").lower() == "keep-alive"
        return response


@rule("errors")
def test_errors(server: Server) -> None:
    delay = "1" if server in SKETCHES else "3600"  # errors do not wait
    with running(server, "--delay", delay) as process:
        for status, asked in (
            (404, "GET /missing"), (405, "POST /"), (501, "BREW /"),
        ):
            response = ask(process, head(f"{asked} HTTP/1.1"))
            assert response.status == status
            assert response.get("Content-Type").startswith("text/html")
            assert 0 < len(response.body) < 1000
            assert str(status).encode() in response.body


@rule("well-written")
def test_well_written(shared: Running) -> None:
    for line in (
        "GET / HTTP/1.1", "GET / HTTP/1.0", "GET /missing HTTP/1.1",
        "POST / HTTP/1.1", "BREW / HTTP/1.1",
    ):
        for field in ("X: y", "Connection: close", "Connection: keep-alive"):
            assert_well_written(ask(shared, head(line, field)))


# A conversation that ends: the requests, and the responses they get.
CONVERSATION = [
    (GET, 200),
    (head("HEAD / HTTP/1.1"), 200),
    (head("GET /missing HTTP/1.1"), 404),
    (head("BREW / HTTP/1.1"), 501),
    (head("HEAD /missing HTTP/1.1"), 404),
    (GET, 200),
    (head("POST / HTTP/1.1"), 405),
    (GET_CLOSE, 200),
]


def conversations(server: Server) -> list[list[tuple[bytes, int]]]:
    """What fits on one connection: where it is closed, one request.

    A sketch knows one page only, and what is tried here is another rule.
    """
    whole = [
        step for step in CONVERSATION
        if server not in SKETCHES or step[0] in (GET, GET_CLOSE)
    ]
    return [whole] if keeps(server) else [[step] for step in whole]


def send_piece(client: Client, piece: bytes, process: Running) -> None:
    """A sketch must see the first piece alone, however busy it is."""
    client.send(piece)
    if process.sketch and client.sent == piece:
        wait_until_read(client)


def wait_until_read(client: Client) -> None:
    """The server has taken what it sent: what follows is another piece."""
    assert eventually(
        lambda: readable([client], 0) or not unread([client]), PATIENCE
    )


def assert_conversation(
    client: Client, conversation: list[tuple[bytes, int]], server: Server
) -> None:
    """The responses, in order and complete, then the end."""
    for data, status in conversation:
        response = client.response(head=data.startswith(b"HEAD"))
        assert response.status == status, (data, response)
        if data.startswith(b"GET / "):
            assert response.body == page(server)
    if conversation[-1][0] == GET_CLOSE:
        assert client.rest() == b""


@rule("pipelining")
def test_pipelining(shared: Running, server: Server) -> None:
    whole = conversations(server)[0] if keeps(server) else CONVERSATION
    data = b"".join(step[0] for step in whole)
    expected = whole if keeps(server) else [(GET, 200)]
    with shared.client(data) as client:
        assert_conversation(client, expected, server)
        assert client.rest() == b"", "and not a response more"


@rule("pipelining", STEPS[2:])  # 01 and 02 close after the first
def test_long_pipelines(shared: Running, server: Server) -> None:
    # More requests than one recv takes, cut at every place. And a server
    # that stops reading for a while must not forget to go on.
    short = head("GET /missing HTTP/1.1")
    long = head("GET /missing HTTP/1.1", "X: " + "y" * 977)
    with shared.client() as client:
        for number in (900, 1, 2000, 1, 901, 3):
            client.send(short * number)
            client.send(short * number)
            for _ in range(2 * number):
                assert client.response().status == 404
        client.send(long * 150 + GET_CLOSE)
        responses = read_responses(client.rest())
    assert [each.status for each in responses] == [404] * 150 + [200]


@by_rule([("bytewise",), ("pieces",)])
def test_in_pieces(shared: Running, server: Server, name: str) -> None:
    draw = random.Random(2026)
    bytewise = name == "bytewise"
    for conversation in conversations(server) * (1 if bytewise else 5):
        data = b"".join(step[0] for step in conversation)
        with shared.client() as client:
            while data:
                size = 1 if bytewise else draw.choice([1, 2, 3, 10, 30, 100])
                send_piece(client, data[:size], shared)
                data = data[size:]
                if not bytewise:
                    time.sleep(draw.choice([0, 0, 0.001, 0.003]))
            assert_conversation(client, conversation, server)


@rule("empty-line")
def test_empty_line(shared: Running, server: Server) -> None:
    with shared.client(b"\r\n" + GET) as client:
        assert client.response().status == 200
        if keeps(server):
            assert client.ask(b"\r\n" + GET).status == 200
    with shared.client() as client:
        for piece in (b"\r", b"\n", GET[:5]):
            client.send(piece)
            wait_until_read(client)
        client.send(GET[5:])
        assert client.response().status == 200


@rule("half-close")
def test_half_close(shared: Running, server: Server) -> None:
    # Also of a connection that could be kept.
    for conversation in (*conversations(server), [(GET, 200)]):
        with shared.client() as client:
            client.send(b"".join(step[0] for step in conversation))
            client.half_close()
            assert_conversation(client, conversation, server)
            assert client.rest() == b""
