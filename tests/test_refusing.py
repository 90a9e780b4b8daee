"""Refusing: what a server does not take, and how it says so.

Wrong requests differ from a good one in a single thing, so that only
the rule in question can be the reason for the refusal.
"""


from tests.marks import by_rule, rule
from tests.process import Running
from tools.common.raw_client import GET, HOST, NoAnswer, read_answers

LINE = b"GET / HTTP/1.1\r\n"
END = b"\r\n\r\n"

# Rule -> (what is sent, the status expected).
WRONG: list[tuple[str, bytes, int]] = [
    ("no-host", LINE + b"X: y" + END, 400),
    ("no-host", LINE + b"\r\n", 400),
    ("two-hosts", LINE + b"Host: a\r\nHost: b" + END, 400),
    ("two-hosts", LINE + b"Host: a\r\nX: y\r\nhost: a" + END, 400),
    ("space-before-colon", LINE + b"Host : test" + END, 400),
    ("space-before-colon", LINE + HOST + b"X\t: y" + END, 400),
    ("obs-fold", LINE + HOST + b"X: y\r\n z" + END, 400),
    ("obs-fold", LINE + HOST + b"X: y\r\n\tz: z" + END, 400),
    ("obs-fold", LINE + b" X: y\r\n" + HOST + b"\r\n", 400),
    ("nul", LINE + HOST + b"X: y\0z" + END, 400),
    ("nul", b"GET /\0 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("bare-cr", LINE + HOST + b"X: y\rz" + END, 400),
    ("bare-cr", LINE + HOST + b"X: y\r\r\n\r\n", 400),
    ("bare-cr", b"GET /\r HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("bare-lf", LINE + HOST + b"X: y\n\r\n", 400),
    ("bare-lf", b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400),
    ("bare-lf", b"GET / HTTP/1.1\nHost: test\n\n", 400),
    ("bare-lf", LINE + b"Host: test\r\n\n", 400),
    ("bad-method", b"G(T / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("bad-method", b"G\xc3\xa9T / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("bad-method", b" / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("bad-name", LINE + HOST + b"X(Y): z" + END, 400),
    ("bad-name", LINE + HOST + b": z" + END, 400),
    ("bad-name", LINE + HOST + b"no colon" + END, 400),
    ("bad-name", LINE + HOST + b"X\xff: z" + END, 400),
    ("spaces", b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("spaces", b"GET /  HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("spaces", b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n", 400),
    ("spaces", b" GET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("spaces", b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("spaces", b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("bad-length", LINE + HOST + b"Content-Length: x" + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: -1" + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: +1" + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: 1 1" + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: 0x1" + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: " + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: \xb2" + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: " + b"9" * 19 + END, 400),
    ("bad-length", LINE + HOST + b"Content-Length: " + b"1" * 5000 + END, 400),
    (
        "two-lengths",
        LINE + HOST + b"Content-Length: 1\r\nContent-Length: 2" + END,
        400,
    ),
    ("two-lengths", LINE + HOST + b"Content-Length: 1, 2" + END, 400),
    (
        "coding-and-length",
        LINE + HOST + b"Transfer-Encoding: chunked\r\n"
        b"Content-Length: 5" + END,
        400,
    ),
    (
        "coding-and-length",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\n"
        b"transfer-encoding: chunked" + END,
        400,
    ),
    *(
        ("coding", LINE + HOST + b"Transfer-Encoding: " + value + END, status)
        for value, status in (
            (b"gzip", 400), (b"", 400), (b"identity", 400),
            (b"chunked, gzip", 400), (b"chunked, chunked", 400),
            (b"chunked\r\nTransfer-Encoding: chunked", 400),
            (b'"chunked"', 400), (b"chun ked", 400), (b"xchunked", 400),
            (b"chunked;x=1", 400), (b"g(z, chunked", 400),
            (b"\xa0chunked", 400), (b"gzip, chunked", 501),
            (b"gzip;q=1\r\nTransfer-Encoding: Chunked", 501),
        )
    ),
    (
        "coding",
        b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked" + END,
        400,
    ),
    ("version", b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    ("version", b"GET / HTTP/3\r\n" + HOST + b"\r\n", 505),
    ("version", b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 505),
    ("version", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("no-version", b"GET / HTTX/1.1\r\n" + HOST + b"\r\n", 400),
    ("no-version", b"GET / http/1.1\r\n" + HOST + b"\r\n", 400),
    ("no-version", b"GET / HTTP/1.x\r\n" + HOST + b"\r\n", 400),
    ("no-version", b"GET / HTTP/\r\n" + HOST + b"\r\n", 400),
    ("no-version", b"GET /\r\n" + HOST + b"\r\n", 400),
    ("no-version", b"GET\r\n\r\n", 400),
    ("no-version", b"\x16\x03\x01\x02\0\x01\r\n\r\n", 400),  # TLS
]


def refusal(shared: Running, data: bytes) -> int:
    """The status of the one answer to data, which must close."""
    with shared.client(data) as client:
        answer = client.answer()
        assert answer.closes, answer
        assert client.rest() == b"", "one answer, then the end"
        return answer.status


@by_rule(WRONG)
def test_wrong(shared: Running, name: str) -> None:
    failures = []
    for _, data, status in [row for row in WRONG if row[0] == name]:
        # The same when a good request follows: it is never looked at.
        for sent in (data, data + GET):
            try:
                found: object = refusal(shared, sent)
            except NoAnswer as error:
                found = error
            if found != status:
                failures.append((sent, found, f"expected {status}"))
    assert not failures


@rule("page")
def test_wrong_differ_from_good(shared: Running) -> None:
    with shared.client(LINE + HOST + b"X: y" + END) as client:
        assert client.answer().status == 200


def long_line(size: int) -> bytes:
    """A good head with a request line of this size, without its CRLF."""
    path = b"/" + b"x" * (size - len(b"GET / HTTP/1.1"))
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n"


def long_head(size: int) -> bytes:
    """A good head of this size, with its last empty line."""
    start = LINE + HOST + b"X: "
    return start + b"y" * (size - len(start + END)) + END


def many_fields(number: int) -> bytes:
    """A good head with this many fields."""
    return LINE + HOST + b"X: y\r\n" * (number - 1) + b"\r\n"


@rule("long-line")
def test_long_line(shared: Running) -> None:
    assert len(long_line(100).split(b"\r\n")[0]) == 100
    with shared.client(long_line(8192)) as client:
        assert client.answer().status == 404
    for size in (8193, 8200, 20_000):
        assert refusal(shared, long_line(size)) == 414, size


@rule("long-head")
def test_long_head(shared: Running) -> None:
    assert len(long_head(16384)) == 16384
    with shared.client(long_head(16384)) as client:
        assert client.answer().status == 200
    for size in (16385, 16386, 16387, 16400, 60_000):
        assert refusal(shared, long_head(size)) == 431, size


@rule("many-fields")
def test_many_fields(shared: Running) -> None:
    assert many_fields(5).count(b":") == 5
    with shared.client(many_fields(100)) as client:
        assert client.answer().status == 200
    for number in (101, 102, 1000):
        assert refusal(shared, many_fields(number)) == 431, number


@rule("limit-at-once")
def test_limit_at_once(shared: Running) -> None:
    # Nothing more is sent and the head never ends: a server that waits
    # for its end would answer after 10 s.
    for data, status in [
        (b"GET /" + b"x" * 8192, 414),
        (LINE + HOST + b"X: " + b"y" * 16384, 431),
        (LINE + HOST + b"X: y\r\n" * 3000, 431),
    ]:
        for chunk in (len(data), 1000):
            with shared.client() as client:
                for start in range(0, len(data), chunk):
                    client.send_if_open(data[start:start + chunk])
                assert client.answer(timeout=9).status == status


BODIES = [
    (b"POST / HTTP/1.1\r\n", b"Content-Length: %d\r\n", 405),
    (b"GET / HTTP/1.1\r\n", b"Content-Length: %d\r\n", 200),
    (b"GET /missing HTTP/1.1\r\n", b"Content-Length: %d\r\n", 404),
    (b"BREW / HTTP/1.1\r\n", b"Content-Length: %d\r\n", 501),
    (b"PUT / HTTP/1.1\r\n", b"Transfer-Encoding: chunked\r\n", 405),
    (b"GET / HTTP/1.1\r\n", b"Transfer-Encoding: chunked\r\n", 200),
    (b"POST / HTTP/1.1\r\n", b"transfer-encoding:, Chunked\r\n", 405),
]


@rule("body")
def test_body(shared: Running) -> None:
    for line, field, status in BODIES:
        if b"%d" in field:
            field, body = field % len(GET), GET
        else:
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GET), GET)
        head = line + HOST + field + b"\r\n"
        for pieces in ([head + body], [head, body], [head + body + GET]):
            with shared.client() as client:
                for piece in pieces:
                    client.send_if_open(piece)
                answers = read_answers(client.rest())
            assert [(a.status, a.closes) for a in answers] == [(status, True)]


@rule("body")
def test_body_never_sent(shared: Running) -> None:
    data = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n"
    assert refusal(shared, data) == 405


@rule("expect")
def test_expect(shared: Running) -> None:
    fields = HOST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    for method, status in ((b"POST", 405), (b"GET", 200)):
        with shared.client(method + b" / HTTP/1.1\r\n" + fields) as client:
            answer = client.answer()
            assert (answer.status, answer.closes) == (status, True)
            client.send_if_open(b"abc")
            assert client.rest() == b""


FILLER = b"x" * 300_000


def assert_whole_refusal(shared: Running, data: bytes, status: int) -> None:
    # A close with bytes unread is a reset, and a reset throws away what
    # the client has not read yet. Often: it depends on the moment.
    for _ in range(10):
        with shared.client() as client:
            client.send(data)
            answers = read_answers(client.rest())
            assert [a.status for a in answers] == [status]


@rule("whole-refusal")
def test_whole_refusal(shared: Running) -> None:
    length = HOST + b"Content-Length: 300000\r\n\r\n"
    for data, status in [
        (b"GET /" + FILLER, 414),
        (LINE + HOST + b"X: " + FILLER, 431),
        (LINE + HOST + b"X: y\r\n" * 50_000, 431),
        (b"POST / HTTP/1.1\r\n" + length + FILLER, 405),
        (b"BREW / HTTP/1.1\r\n" + length + FILLER, 501),
    ]:
        assert_whole_refusal(shared, data, status)


@rule("no-version")
def test_whole_refusal_of_gibberish(shared: Running) -> None:
    assert_whole_refusal(shared, b"nonsense\r\n" + FILLER, 400)
