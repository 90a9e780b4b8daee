"""Refusing: what a server does not take, and how it says so.

Wrong requests differ from a good one in a single thing, so that only
the rule in question can be the reason for the refusal.
"""

import re

from tests.marks import by_rule, in_web, rule
from tests.process import Running
from tools.common.raw_client import (
    GET,
    HOST,
    NoResponse,
    Response,
    read_responses,
)

LINE = b"GET / HTTP/1.1\r\n"
DATE = re.compile(  # RFC 9110, section 5.6.7: IMF-fixdate
    "(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} [A-Z][a-z]{2} 20[0-9]{2} "
    "[0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
)
END = b"\r\n\r\n"

# Each table: rule, the status expected, what differs from a good request.
# First lines, followed by a good head.
LINES = [
    ("nul", 400, [b"GET /\0 HTTP/1.1"]),
    ("bare-cr", 400, [b"GET /\r HTTP/1.1"]),
    ("bad-method", 400, [
        b"G(T / HTTP/1.1", b"G\xc3\xa9T / HTTP/1.1", b" / HTTP/1.1",
    ]),
    ("spaces", 400, [
        b"GET  / HTTP/1.1", b"GET /  HTTP/1.1", b"GET / HTTP/1.1 ",
        b" GET / HTTP/1.1", b"GET\t/ HTTP/1.1", b"GET /a b HTTP/1.1",
    ]),
    ("bad-target", 400, [line + b" HTTP/1.1" for line in (
        b"GET *", b"GET x", b"GET ?", b"POST x", b"BREW x", b"GET test:80",
        b"CONNECT te|st:80", b"GET /#x", b"GET /%", b"GET /?%zz",
        b'GET /"', b"GET /?{}", b"GET /[x]", b"GET /\\", b"GET http:///",
        b"GET http://:80/", b"GET http://me@test/", b"GET http://test:x/",
        b"GET 1://test/", b"GET http:/test", b"GET //te^st",
    )]),
    ("misdirected", 421, [
        b"GET https://test/ HTTP/1.1", b"POST HTTPS://test/ HTTP/1.1",
        b"GET ftp://test/ HTTP/1.1", b"GET https:/// HTTP/1.1",
    ]),
    ("version", 505, [
        b"GET / HTTP/2.0", b"GET / HTTP/3.0", b"GET / HTTP/0.9",
    ]),
    ("no-version", 400, [
        b"GET / HTTX/1.1", b"GET / http/1.1", b"GET / HTTP/1.x",
        b"GET / HTTP/", b"GET /", b"GET / HTTP/1", b"GET / HTTP/3",
        b"GET / HTTP/01.01", b"GET / HTTP/1.10",
    ]),
]
# Fields behind a good Host.
FIELDS = [
    ("two-hosts", 400, [b"Host: b", b"X: y\r\nhost: a"]),
    ("space-before-colon", 400, [b"X\t: y"]),
    ("obs-fold", 400, [b"X: y\r\n z", b"X: y\r\n\tz: z"]),
    ("nul", 400, [b"X: y\0z"]),
    ("bare-cr", 400, [b"X: y\rz", b"X: y\r"]),
    ("bad-name", 400, [b"X(Y): z", b": z", b"no colon", b"X\xff: z"]),
    ("bad-length", 400, [b"Content-Length: " + length for length in (
        b"x", b"-1", b"+1", b"1 1", b"0x1", b"", b"\xb2", b"9" * 19,
        b"1" * 5000,
    )]),
    ("two-lengths", 400, [
        b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length: 1, 2",
    ]),
    ("coding-and-length", 400, [
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Content-Length: 0\r\ntransfer-encoding: chunked",
    ]),
    ("coding", 400, [b"Transfer-Encoding: " + coding for coding in (
        b"gzip", b"", b"identity", b"chunked, gzip", b"chunked, chunked",
        b"chunked\r\nTransfer-Encoding: chunked", b'"chunked"',
        b"chun ked", b"xchunked", b"chunked;x=1", b"g(z, chunked",
        b"\xa0chunked",
    )]),
    ("coding", 501, [
        b"Transfer-Encoding: gzip, chunked",
        b'Transfer-Encoding: gzip\t; a = "b" ,\tchunked',
        b"Transfer-Encoding: gzip;q=1\r\nTransfer-Encoding: Chunked",
    ]),
]
# What is no host, even with a good target.
NO_HOSTS = (
    b"a b", b"a/b", b"me@test", b"test:x", b"test:1:2", b"%zz", b"[::1",
    b"::1", b"[]", b"[1]", b"[:::]", b"[test]", b"[::1]x", b"t\xe9st",
)
WHOLE = [
    ("no-host", 400, [LINE + b"X: y" + END, LINE + b"\r\n"]),
    ("bad-host", 400, [LINE + b"Host: " + host + END for host in NO_HOSTS]),
    ("bad-host", 400, [
        b"GET http://test/ HTTP/1.1\r\nHost: te st" + END,
        b"GET / HTTP/1.0\r\nHost: te st" + END,
    ]),
    ("space-before-colon", 400, [LINE + b"Host : test" + END]),
    ("obs-fold", 400, [LINE + b" X: y\r\n" + HOST + b"\r\n"]),
    ("bare-lf", 400, [
        LINE + HOST + b"X: y\n\r\n", LINE + b"Host: test\r\n\n",
        b"GET / HTTP/1.1\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\nHost: test\n\n",
    ]),
    ("coding", 400, [
        b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked" + END,
    ]),
    ("version", 505, [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]),
    ("no-version", 400, [
        b"GET\r\n\r\n", b"\x16\x03\x01\x02\0\x01\r\n\r\n",  # TLS
    ]),
]
# Rule, what is sent, the status expected.
WRONG: list[tuple[str, bytes, int]] = [
    (name, begin + wrong + end, status)
    for table, begin, end in (
        (LINES, b"", b"\r\n" + HOST + b"\r\n"),
        (FIELDS, LINE + HOST, END),
        (WHOLE, b"", b""),
    )
    for name, status, wrongs in table for wrong in wrongs
]


def assert_well_written(response: Response) -> None:
    """It is as a sender has to write it, down to each blank."""
    first, *lines = response.raw.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert re.fullmatch(rb"HTTP/1\.1 [1-5][0-9]{2} [\t -~]*", first), first
    for line in lines:
        assert re.fullmatch(rb"[A-Za-z-]+:( [!-~]+)+", line), line
    names = [name for name, _ in response.fields]
    assert {"Date", "Content-Type", "Content-Length"} <= set(names)
    assert len(names) == len(set(names)), "each once"
    assert not {"Transfer-Encoding", "Trailer", "Upgrade"} & set(names)
    assert response.get("Connection") in ("", "close", "keep-alive")
    assert DATE.fullmatch(response.get("Date")), response


def only_response(
    shared: Running, data: bytes, to_head: bool = False
) -> Response:
    """The one response to data, which must close."""
    with shared.client(data) as client:
        response = client.response(head=to_head)
        assert response.closes, response
        assert client.rest() == b"", "one response, then the end"
        return response


@in_web
@by_rule(WRONG)
def test_wrong(shared: Running, name: str) -> None:
    failures = []
    for _, data, status in [row for row in WRONG if row[0] == name]:
        # The same when a good request follows: it is never looked at.
        for sent in (data, data + GET):
            try:
                found: object = only_response(shared, sent).status
            except NoResponse as error:
                found = error
            if found != status:
                failures.append((sent, found, f"expected {status}"))
    assert not failures


# One for each status that a refusal can have at once.
REFUSED = [
    (400, b"%b / HTTP/1.1\r\n\r\n"),
    (400, b"%b / HTTP/1.1\r\nHost: test\r\n : \r\n\r\n"),
    (421, b"%b https://test/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    (414, b"%b /" + b"x" * 9000),
    (431, b"%b / HTTP/1.1\r\n" + b"X: y\r\n" * 101),
    (501, b"%b / HTTP/1.1\r\n" + HOST
     + b"Transfer-Encoding: gzip, chunked" + END),
    (505, b"%b / HTTP/2.0\r\n" + HOST + b"\r\n"),
]


@in_web
@rule("explained")
def test_explained(shared: Running) -> None:
    for status, data in REFUSED:
        response = only_response(shared, data % b"GET")
        assert response.status == status
        assert_well_written(response)
        text = response.body.decode().partition("<p>")[2]
        title, _, why = text.partition(":")
        assert title.startswith(f"{status} ") and len(why) > 10, response
        assert "again" in why, "does it help to try again?"
        assert status != 505 or "HTTP/1.1" in why


@in_web
@rule("refused-head")
def test_refused_head(shared: Running) -> None:
    for status, data in REFUSED:
        for before in (b"", b"\r\n"):
            head = before + data % b"HEAD"
            response = only_response(shared, head, to_head=True)
            assert response.status == status
            assert int(response.get("Content-Length")) > 0


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


# Rule, what makes a head of a size, the largest, its status, and that of
# one with more.
LIMITS = [
    ("long-line", long_line, 8192, 404, 414),
    ("long-head", long_head, 16384, 200, 431),
    ("many-fields", many_fields, 100, 200, 431),
]


@in_web
@by_rule(LIMITS)
def test_limits(shared: Running, name: str) -> None:
    assert len(long_line(100).split(b"\r\n")[0]) == 100
    assert len(long_head(16384)) == 16384
    assert many_fields(5).count(b":") == 5
    ((make, most, good, refused),) = (r[1:] for r in LIMITS if r[0] == name)
    with shared.client(make(most)) as client:
        assert client.response().status == good
    for size in (most + 1, most + 2, most + 16, 4 * most):
        assert only_response(shared, make(size)).status == refused, size


@rule("limit-at-once")
def test_limit_at_once(shared: Running) -> None:
    # Nothing more is sent and the head never ends: a server that waits
    # for its end would respond with 408, or not at all.
    for data, status in [
        (b"GET /" + b"x" * 8192, 414),
        (LINE + HOST + b"X: " + b"y" * 16384, 431),
        (LINE + HOST + b"X: y\r\n" * 3000, 431),
    ]:
        for chunk in (len(data), 1000):
            with shared.client() as client:
                for start in range(0, len(data), chunk):
                    client.send_if_open(data[start:start + chunk])
                assert client.response().status == status


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
                responses = read_responses(client.rest())
            found = [(each.status, each.closes) for each in responses]
            assert found == [(status, True)]


@rule("expect")
def test_expect(shared: Running) -> None:
    fields = HOST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    for line, status in (
        (b"POST / HTTP/1.1\r\n", 405), (LINE, 200),
        (b"POST / HTTP/1.0\r\n", 405),  # there it has no meaning
    ):
        with shared.client(line + fields) as client:
            response = client.response()
            assert (response.status, response.closes) == (status, True)
            client.send_if_open(b"abc")
            assert client.rest() == b""


FILLER = b"x" * 300_000
LENGTH = HOST + b"Content-Length: 300000\r\n\r\n" + FILLER
# Rule, what is sent, the status of the one response.
LONG = [
    ("whole-refusal", b"GET /" + FILLER, 414),
    ("whole-refusal", LINE + HOST + b"X: " + FILLER, 431),
    ("whole-refusal", LINE + HOST + b"X: y\r\n" * 50_000, 431),
    ("whole-refusal", b"POST / HTTP/1.1\r\n" + LENGTH, 405),
    ("whole-refusal", b"BREW / HTTP/1.1\r\n" + LENGTH, 501),
    ("no-version", b"GET /\r\n" + FILLER, 400),
]


@by_rule(LONG)
def test_whole_refusal(shared: Running, name: str) -> None:
    # A close with bytes unread is a reset, and a reset throws away what
    # the client has not read yet. Often: it depends on the moment.
    for data, status in (row[1:] for row in LONG * 10 if row[0] == name):
        with shared.client() as client:
            client.send(data)
            responses = read_responses(client.rest())
            assert [each.status for each in responses] == [status]
