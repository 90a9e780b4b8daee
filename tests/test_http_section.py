"""HTTP in web.py: bytes in, a request or an error out."""

import random
from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.process import load
from tests.test_faults import GOOD, PIECES, damaged
from tests.test_refusing import WRONG, long_head, long_line, many_fields
from tools.common.raw_client import GET, read_response
from tools.servers import ROOT


@pytest.fixture(scope="module")
def http() -> ModuleType:
    """web.py of step 02; test_folders.py compares the others with it."""
    return load(ROOT / "02_sockets" / "web.py")


# Hypothesis finds the same examples every time: stable, and a failure
# can be repeated.
checked = settings(deadline=None, derandomize=True, max_examples=100)

streams = st.lists(
    st.sampled_from(GOOD + PIECES) | st.binary(max_size=12), max_size=7
).map(b"".join)
spoiled = st.integers(0, 10**9).map(lambda n: damaged(random.Random(n)))
cuts = st.lists(st.integers(0, 600), max_size=12)


def outcome(http: ModuleType, pieces: list[bytes]) -> list[object]:
    """What a server makes of these pieces, as in its own loop."""
    found: list[object] = []
    received = b""
    for piece in pieces:
        received += piece
        while True:
            try:
                request = http.parse(received)
            except http.BadRequest as error:
                return [*found, (error.status, error.reason)]
            if request is None:
                break
            found.append(request)
            received = received[request.size:]
            if not request.keep_alive:
                return found
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Data in pieces, cut at these places (and their multiples)."""
    marks = sorted({p * 37 % (len(data) + 1) for p in places})
    ends = [*marks, len(data)]
    return [data[a:b] for a, b in zip([0, *marks], ends, strict=True)]


def bytewise(data: bytes) -> list[bytes]:
    return [data[i:i + 1] for i in range(len(data))]


@checked
@given(data=streams, places=cuts)
@example(data=long_line(8192), places=[1])
@example(data=long_line(8193), places=[1])
@example(data=long_head(16384), places=[1])
@example(data=long_head(16385), places=[1])
@example(data=many_fields(101), places=[1])
@example(data=b"\r\n" + long_head(16383), places=[1])
def test_pieces_do_not_matter(
    http: ModuleType, data: bytes, places: list[int]
) -> None:
    whole = outcome(http, [data])
    assert outcome(http, cut(data, places)) == whole
    if len(data) < 1000:
        assert outcome(http, bytewise(data)) == whole


def test_pieces_of_the_wrong(http: ModuleType) -> None:
    for _, data, status in WRONG:
        whole = outcome(http, [data])
        assert [e[0] for e in whole] == [status]  # type: ignore[index]
        assert outcome(http, bytewise(data)) == whole


@settings(checked, max_examples=1000)
@given(data=st.binary(max_size=400) | streams | spoiled)
def test_nothing_else_is_raised(http: ModuleType, data: bytes) -> None:
    """A request or a refusal."""
    try:
        request = http.parse(data)
    except http.BadRequest as error:
        assert error.status in (400, 414, 421, 431, 501, 505)
        to_head = data.removeprefix(b"\r\n").startswith(b"HEAD ")
        raw = http.error_response(error)
        response = read_response(raw, to_head)
        assert response and response.closes and response.status == error.status
        assert raw.endswith(b"\r\n\r\n") == to_head, "without a body"
        return
    if request is not None:
        assert 0 < request.size <= len(data)
        assert request.minor in range(10)
        assert request.status in (200, 404, 405, 501)
        assert http.parse(data[:request.size]) == request
        assert http.parse(bytearray(data)) == request


@pytest.mark.parametrize("status", [400, 408, 414, 421, 431, 501, 503, 505])
def test_refusals_say_if_trying_again_helps(
    http: ModuleType, status: int
) -> None:
    error = http.BadRequest(status, "because")
    response = read_response(http.error_response(error))
    words = b"may help" if status in (408, 503) else b"will not help"
    assert response and b"because" in response.body
    assert b"Trying again " + words in response.body


@checked
@given(data=streams)
def test_error_is_final(http: ModuleType, data: bytes) -> None:
    """Once refused, no further bytes could have made it good."""
    try:
        http.parse(data)
    except http.BadRequest:
        for more in (b"\r\n\r\n", GET, b"\n", b" ", b"a: b\r\n\r\n"):
            with pytest.raises(http.BadRequest):
                http.parse(data + more)


@checked
@given(
    method=st.sampled_from([b"GET", b"HEAD", b"POST", b"BREW"]),
    target=st.sampled_from([b"/", b"/?q", b"/missing", b"http://a/"]),
    minor=st.integers(0, 9),
    tokens=st.lists(
        st.sampled_from(["close", "keep-alive", "x", "CLOSE", "Keep-Alive"]),
        max_size=3,
    ),
    length=st.none() | st.integers(0, 10**18 - 1),
)
def test_good_requests(
    http: ModuleType, method: bytes, target: bytes, minor: int,
    tokens: list[str], length: int | None,
) -> None:
    data = b"%b %b HTTP/1.%d\r\nhost:a\r\n" % (method, target, minor)
    if tokens:
        data += f"Connection: {', '.join(tokens)}\r\n".encode()
    if length is not None:
        data += b"Content-Length: %d\r\n" % length
    data += b"\r\n"
    request = http.parse(data + b"more")
    words = {token.lower() for token in tokens}
    keeps = "close" not in words and (minor > 0 or "keep-alive" in words)
    there = 404 if target == b"/missing" else 200
    assert request == http.Request(
        method=method, target=target, minor=minor,
        status={b"BREW": 501, b"POST": 405}.get(method, there),
        keep_alive=keeps and not length,
        closes=not keeps and not length,
        size=len(data),
    )
    for keep in (True, False):
        raw = http.respond(request, keep)
        response = read_response(raw, method == b"HEAD")
        assert response and response.status == request.status
        assert response.closes == (not keep)
        said = response.get("Connection") == "keep-alive"
        assert said == (keep and minor == 0)


@pytest.mark.parametrize("rest", [b"", GET[3:]])
def test_a_method_longer_than_any_line(http: ModuleType, rest: bytes) -> None:
    # RFC 9112, section 3: 501, since no method that we know is so long.
    with pytest.raises(http.BadRequest) as caught:
        http.parse(b"A" * (http.MAX_LINE + 1) + rest)
    assert caught.value.status == 501
