"""Files: what 07 answers with --directory, on each engine."""

import atexit
import contextlib
import dataclasses
import functools
import os
import random
import re
import shutil
import signal
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

import pytest

from tests.beside import beside_with
from tests.conftest import Shared
from tests.marks import by_rule, rule, slow
from tests.process import (
    PATIENCE,
    PYPY,
    Running,
    eventually,
    load,
    running,
    started,
    take,
    why_no_uring,
)
from tests.test_faults import leave
from tests.test_running import assert_refused, run
from tools.common.raw_client import Client, NoResponse, Response
from tools.servers import ROOT, Server

STEP = range(7, 8)
SECRET = b"nobody outside may read this"
PAGE = b"this is page.html\n"
LARGE = 20_000_000  # bytes: more than the kernel's buffers hold
CHANGED = 1_000_000_000  # when the files were changed: in 2001
OLDER = datetime.fromtimestamp(CHANGED, UTC)
BEFORE, SINCE, AFTER = (
    formatdate(CHANGED + d, usegmt=True) for d in (-1, 0, 1)
)
NONSENSE_DATES = ["soon", "", "0", "Fri, 99 Foo 2026 25:00:00 GMT"]
# Sizes where one buffer, page or part ends and the next begins.
SIZES = [0, 1, 248, *(
    size + more for size in (2048, 4096, 16384, 65536, 131072, 262144)
    for more in (-1, 0, 1)
), 524289, 1048575, 1048576, 1048577]  # fmt: skip
TEXTS = [
    "index.html", "page.html", "a.css", "a.js", "a.svg", "a.json", "a.txt",
    "a.xml", "a.png", "a.ico", "a.woff2", "a.gz", "unknown.qqq", "unknown",
    "with space.txt", "caf\u00e9.txt", "100%.txt", "a+b.txt", "%41.txt",
    "what?.txt", ".html",
]
LINKS = {
    "inside.txt": "a.txt", "sub/inside.txt": "../a.txt", "inside": "real",
    "inside-absolute.txt": "{site}/a.txt", "out.txt": "../secret.txt",
    "out-absolute.txt": "{site}/../secret.txt", "out": "..",
    "out-beside": "../site-secret", "out-absolute": "/etc",
    "twice.txt": "out.txt", "loop": "loop", "dangling": "nothing",
    "itself": ".",
}
Own = Callable[[str, bytes], Path]


def bytes_of(seed: object, size: int) -> bytes:
    return random.Random(str(seed)).randbytes(size)


def write(path: Path, data: bytes, changed: float = CHANGED) -> None:
    """Write a file, and when it was changed."""
    path.write_bytes(data)
    os.utime(path, (changed, changed))


def with_engine(server: Server, *options: str) -> Server:
    """The server on its engine: io_uring where there is no other."""
    engine = "emulated" if "emulated" in server.options else "uring"
    if engine == "uring" and why_no_uring():
        pytest.skip(why_no_uring())
    return dataclasses.replace(server, options=("--engine", engine, *options))


def with_files(server: Server) -> Server:
    """The server on its engine, with the files."""
    return with_engine(server, "--directory", str(tree()))


ONE_TREE = threading.Lock()


def tree() -> Path:
    """The directory to serve, also for tests that wait side by side."""
    with ONE_TREE:
        return made_tree()


@functools.cache
def made_tree() -> Path:
    """Such a directory, which goes when we end.

    Beside it stands what must not come out.
    """
    outside = Path(tempfile.mkdtemp(prefix="files-"))
    atexit.register(shutil.rmtree, outside, ignore_errors=True)
    site = outside / "site"
    (outside / "site-secret").mkdir()
    for name in ("sub", "empty", "with space", "evil.example", "real",
                 "\\evil.example", "a\r\nSet-Cookie: b=c"):
        (site / name).mkdir(parents=True)
    for name in ("secret.txt", "site-secret/secret.txt", "index.html"):
        write(outside / name, SECRET)
    write(site / "sub" / "index.html", b"<p>sub\n")
    write(site / "sub" / "page.html", b"<p>page in sub\n")
    write(site / "real" / "file.txt", b"real\n")
    write(site / "large.bin", bytes_of("large", LARGE))
    for number in SIZES:
        write(site / f"size-{number}.bin", bytes_of(number, number))
    for name in TEXTS:
        write(site / name, f"this is {name}\n".encode())
    for name, target in LINKS.items():
        (site / name).symlink_to(target.format(site=site))
    os.mkfifo(site / "fifo")
    return site


@pytest.fixture
def own() -> Iterator[Own]:
    """Makes files for one test, which may change them."""
    made: list[Path] = []

    def make(name: str, data: bytes) -> Path:
        made.append(tree() / f"own-{os.getpid()}-{name}")
        write(made[-1], data)
        return made[-1]

    yield make
    for path in made:
        path.unlink(missing_ok=True)


@pytest.fixture
def shared(server: Server, one_server: Shared) -> Iterator[Running]:
    """As in conftest.py, with the files."""
    # Dates of the web are in GMT, whatever the machine's time zone is.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "XYZ-5:30")
        process = one_server.get(with_files(server))
    before = [each.pid for each in process.processes()]
    yield process
    after = [each.pid for each in process.processes()]
    found = (process.status(), process.complaints, after)
    if found != (None, "", before):
        one_server.server = None
        raise AssertionError(f"(exit status, stderr, pids): {found}")


def request(target: str, *fields: str, method: str = "GET") -> bytes:
    """A request for a target."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def ask(
    process: Running, target: str, *fields: str, method: str = "GET"
) -> Response:
    """The answer to one request; the connection must be good for more."""
    with process.client(request(target, *fields, method=method)) as client:
        response = client.response(head=method == "HEAD")
        if response.closes:
            assert client.rest() == b""
        else:
            assert_goes_on(client)
        return response


def assert_goes_on(client: Client) -> None:
    """The next answer is as it should be, and nothing follows."""
    response = client.ask(request("/page.html"))
    assert (response.status, response.body) == (200, PAGE), response
    assert client.taken == len(client.received), client.received


# What comes back for a target.


TARGETS: list[tuple[str, str, bytes | None, tuple[int, ...]]] = [
    ("file-name", """
     /%70age.html /page.html? /page.html?a=1&b=%20
     /page.html?/../../secret.txt /page.html?%7a%25 http://test/page.html
     http://test:80/page.html?q HTTP://other/%70age.html
     """, PAGE, (200,)),
    ("file-name", "/ /?q http://test/ http://test http://test?q",
     b"this is index.html\n", (200,)),
    ("file-name", "/with%20space.txt", b"this is with space.txt\n", (200,)),
    ("file-name", "/caf%C3%A9.txt /caf%c3%a9.txt",
     "this is caf\u00e9.txt\n".encode(), (200,)),
    ("file-name", "/100%25.txt", b"this is 100%.txt\n", (200,)),
    ("file-name", "/a+b.txt /a%2Bb.txt", b"this is a+b.txt\n", (200,)),
    ("file-name", "/%2541.txt", b"this is %41.txt\n", (200,)),
    ("file-name", "/what%3F.txt", b"this is what?.txt\n", (200,)),
    ("file-name", f"""
     /missing /missing/page.html /page.html/ /page.html/x /Page.html
     /%41.txt /a%2520b.txt /loop /dangling /loop/x /%ff.txt
     /%ED%A0%80.txt /%0d%0a http://test/missing /itself/missing /*
     /{"x" * 300} /{"x" * 5000} /{"x/" * 2500}
     """, None, (404,)),
    ("index", "/sub/ /sub/?q=1 /itself/sub/ /%73ub/", b"<p>sub\n", (200,)),
    ("index", "/empty/ /with%20space/ /real/", None, (404,)),
    ("no-way-out", r"""
     /../secret.txt /../site-secret/secret.txt
     /../../../../../../../../etc/passwd /sub/../../secret.txt /sub/.. /..
     /../ /%2e%2e/secret.txt /%2E%2e/secret.txt /%2E%2e%2fsecret.txt
     /%2e%2e%2F%2e%2e%2Fetc%2Fpasswd /.%2e/secret.txt /%2e./secret.txt
     /..%2fsecret.txt /..%5csecret.txt /..\secret.txt
     /sub%2f..%2f..%2fsecret.txt /%252e%252e/secret.txt
     /%252e%252e%252fsecret.txt /%c0%ae%c0%ae/secret.txt
     /%uff0e%uff0e/secret.txt //etc/passwd ///etc/passwd /%2fetc/passwd
     /%2Fetc%2Fpasswd //secret.txt /sub%2fpage.html /sub%2Findex.html
     /page.html%00 /page.html%00.txt /%00 /%00/../secret.txt /sub\page.html
     /sub%5cpage.html /% /%2 /%zz /page.html% /page.html%2 /%-1.txt /%+1
     /out.txt /out-absolute.txt /twice.txt /itself/out.txt /out /out/
     /out/secret.txt /out/index.html /out/site/page.html/../../secret.txt
     /out-beside /out-beside/ /out-beside/secret.txt /out-absolute
     /out-absolute/ /out-absolute/passwd http://test/../secret.txt
     http://test/%2e%2e/secret.txt file:///etc/passwd ftp://test/page.html
     /.../secret.txt /..;/secret.txt /~root secret.txt ../secret.txt * ?
     /page.html?%zz%
     """, None, (400, 404, 421)),
    ("no-way-out", """
     /inside.txt /sub/inside.txt /inside-absolute.txt /itself/inside.txt
     /itself/itself/a.txt
     """, b"this is a.txt\n", (200,)),
    ("no-way-out", "/inside/file.txt", b"real\n", (200,)),
]  # fmt: skip


@by_rule(TARGETS, STEP)
def test_targets(shared: Running, name: str) -> None:
    for _, targets, body, statuses in (r for r in TARGETS if r[0] == name):
        for target in targets.split():
            response = ask(shared, target)
            assert response.status in statuses, (target, response)
            assert body in (None, response.body), (target, response)
            for secret in (SECRET, b"root:", b"file.txt"):
                assert secret not in response.raw, (target, response)
            if response.status == 404:
                assert response.get("Content-Type").startswith("text/html")
                assert b"404" in response.body
            if not response.closes:
                head = ask(shared, target, method="HEAD")
                assert head.status == response.status


TYPES = {
    "page.html": "text/html; charset=utf-8",
    "a.css": "text/css; charset=utf-8",
    "a.js": "text/javascript; charset=utf-8",
    "a.svg": r"image/svg\+xml; charset=utf-8",
    "a.json": "application/json; charset=utf-8",
    "a.txt": "text/plain; charset=utf-8",
    "a.xml": "(application|text)/xml; charset=utf-8",
    "a.png": "image/png",
    "a.ico": r"image/(x-icon|vnd\.microsoft\.icon)",
    "a.woff2": "font/woff2",
    "a.gz": "application/gzip",
    "unknown.qqq": "application/octet-stream",
    "unknown": "application/octet-stream",
    ".html": "(application/octet-stream|text/html; charset=utf-8)",
    "sub/": "text/html; charset=utf-8",
}


@rule("file", STEP)
def test_types(shared: Running) -> None:
    for name, kind in TYPES.items():
        response = ask(shared, f"/{name}")
        assert response.status == 200
        assert re.fullmatch(kind, response.get("Content-Type")), response
        assert not response.get("Content-Encoding"), "it is sent as it is"
        assert not response.get("Transfer-Encoding")


@rule("file", STEP)
def test_sizes(shared: Running) -> None:
    with shared.client() as client:
        for size in SIZES:
            response = client.ask(request(f"/size-{size}.bin"))
            assert response.get("Content-Length") == str(size)
            assert response.body == bytes_of(size, size), size
            head = request(f"/size-{size}.bin", method="HEAD")
            response = client.ask(head, head=True)
            assert response.get("Content-Length") == str(size)
        assert client.taken == len(client.received)


@rule("file-head", STEP)
def test_file_head(shared: Running) -> None:
    get = ask(shared, "/page.html")
    assert get.get("Last-Modified") == SINCE
    assert get.get("Accept-Ranges") == "bytes"
    assert re.fullmatch(r'"[!#-~]+"', get.get("ETag")), "a strong tag"
    off = parsedate_to_datetime(get.get("Date")) - datetime.now(UTC)
    assert abs(off.total_seconds()) < PATIENCE
    assert len(get.fields) == len(dict(get.fields)), "each field once"
    head = ask(shared, "/page.html", method="HEAD")
    assert head.status == 200
    assert {**dict(head.fields), "Date": ""} == {
        **dict(get.fields), "Date": "",
    }
    tags = {ask(shared, f"/size-{n}.bin").get("ETag") for n in SIZES}
    assert len(tags) == len(SIZES), "different files have different tags"


@rule("file-head", STEP)
def test_odd_dates(shared: Running, own: Own) -> None:
    path = own("odd", b"odd\n")
    future = time.time() + 1_000_000
    for changed in (0, 1, -1, -100_000, 2**31, 2**33, 2**38, 2**39, future):
        try:
            os.utime(path, (changed, changed))
        except (OSError, OverflowError):  # more than this disk can say
            continue
        response = ask(shared, f"/{path.name}")
        assert (response.status, response.body) == (200, b"odd\n"), changed
        # No date in the future: RFC 9110, section 8.8.2.1.
        if changed == future and (text := response.get("Last-Modified")):
            date = parsedate_to_datetime(text)
            assert date <= parsedate_to_datetime(response.get("Date"))


@rule("file-no-work", STEP)
def test_files_do_not_wait(server: Server) -> None:
    work = ("--delay", "3600", "--compute", "1000000000")
    with running(with_files(server), *work) as process:
        for target, status in (
            ("/page.html", 200), ("/", 200), ("/missing", 404),
            ("/sub", 301), ("/out.txt", 404),
        ):
            assert ask(process, target).status == status


ELSEWHERE = r"""
//evil.example //evil.example/.. //evil.example/%2e%2e ///evil.example
/%2Fevil.example /%2fevil.example/.. /\evil.example /%5Cevil.example
/.//evil.example /sub/..//evil.example //evil.example?x
/%09/evil.example http://test//evil.example http://evil.example//sub
//sub //itself/sub /..//sub http:////evil.example
/a%0d%0aSet-Cookie:%20b=c
"""


@rule("moved", STEP)
def test_no_redirect_elsewhere(shared: Running) -> None:
    # Browsers take a path that begins with two slashes, or with a
    # slash and a backslash, for another server.
    for target in ELSEWHERE.split():
        response = ask(shared, target)
        place = response.get("Location").removeprefix("http://test")
        assert response.status in (301, 400, 404), response
        assert place.startswith("/") or not place, response
        assert not re.match(r"/[\t\r\n]*[/\\]", place), response
        assert not response.get("Set-Cookie")


@rule("only-files", STEP)
def test_only_regular_files(shared: Running) -> None:
    with contextlib.suppress(OSError):
        os.mknod(tree() / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.path.relpath(tree() / "socket"))
    with shared.client() as other:
        for name in ("fifo", "device", "socket", "fifo/", "fifo/x") * 3:
            assert ask(shared, f"/{name}").status == 404
            other.ask(request("/page.html"))


@rule("only-files", STEP)
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(shared: Running, own: Own) -> None:
    path = own("unreadable", SECRET)
    path.chmod(0)
    assert ask(shared, f"/{path.name}").status in (403, 404)


@pytest.mark.thorough
@rule("no-way-out", STEP)
def test_a_link_that_turns_round(shared: Running, own: Own) -> None:
    # Whoever looks where a link leads, and then follows it again,
    # comes to another place sometimes.
    link = own("turning", b"")
    over = threading.Event()

    def turn() -> None:
        new = link.with_suffix(".new")
        while not over.is_set():
            for target in ("real", "../site-secret"):
                new.symlink_to(tree() / target)
                new.replace(link)

    write(tree().parent / "site-secret" / "file.txt", SECRET)
    turning = threading.Thread(target=turn)
    turning.start()
    try:
        for _ in range(40):
            with shared.client() as client:
                client.send(request(f"/{link.name}/file.txt") * 50)
                for _ in range(50):
                    response = client.response()
                    assert response.status in (200, 301, 404)
                    assert SECRET not in response.raw, "it led out"
    finally:
        over.set()
        turning.join()


# Conditions, ranges, refusals.


# Rule, fields, the status; TAG stands for the tag of FILE.
CONDITIONS: list[tuple[str, list[str], int]] = [
    ("if-none-match", ["If-None-Match: TAG"], 304),
    ("if-none-match", ["if-none-match:TAG"], 304),
    ("if-none-match", ["If-None-Match: W/TAG"], 304),
    ("if-none-match", ['If-None-Match: "x", TAG'], 304),
    ("if-none-match", ['If-None-Match: "x,y" , W/"z",W/TAG,"u"'], 304),
    ("if-none-match", ['If-None-Match: "x"', "If-None-Match: TAG"], 304),
    ("if-none-match", ["If-None-Match: TAG", 'If-None-Match: "x"'], 304),
    ("if-none-match", ["If-None-Match: *"], 304),
    *[("if-none-match", [f"If-None-Match: {each}"], 200)
      for each in ('"x"', '"x", "y"', "", "x", '"*"')],
    ("if-none-match", ["X-If-None-Match: TAG"], 200),
    *[("if-modified-since", [f"If-Modified-Since: {each}"], 304) for each in (
        SINCE, AFTER, "Fri, 31 Dec 2100 23:59:59 GMT",
        # The two older ways to write a date (RFC 9110, section 5.6.7).
        OLDER.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        OLDER.strftime("%a %b %e %H:%M:%S %Y"),
    )],
    *[("if-modified-since", [f"If-Modified-Since: {each}"], 200) for each in (
        BEFORE, "Thu, 01 Jan 1970 00:00:00 GMT", "Thu Jan  1 00:00:00 1970",
        "Sunday, 06-Nov-94 08:49:37 GMT",  # this is not 2094
        *NONSENSE_DATES,
    )],
    ("if-modified-since", [f"If-Modified-Since: {AFTER}"] * 2, 200),
    ("if-match", [f"If-Unmodified-Since: {BEFORE}"] * 2, 200),
    *[("if-match", [f"If-Match: {each}"], 200)
      for each in ("TAG", '"x", TAG', "*")],
    *[("if-match", [f"If-Match: {each}"], 412)
      for each in ('"x"', '"x", "y"', "W/TAG")],
    *[("if-match", [f"If-Unmodified-Since: {each}"], 200)
      for each in (SINCE, AFTER, *NONSENSE_DATES)],
    ("if-match", [f"If-Unmodified-Since: {BEFORE}"], 412),
    # A tag says more than a date.
    ("if-order", ['If-None-Match: "x"', f"If-Modified-Since: {AFTER}"], 200),
    ("if-order", ["If-None-Match: TAG", f"If-Modified-Since: {BEFORE}"], 304),
    ("if-order", [f"If-Modified-Since: {AFTER}", 'If-None-Match: "x"'], 200),
    ("if-order", ["If-Match: TAG", f"If-Unmodified-Since: {BEFORE}"], 200),
    ("if-order", ['If-Match: "x"', f"If-Unmodified-Since: {AFTER}"], 412),
    # What protects from harm comes before what saves time.
    ("if-order", ['If-Match: "x"', "If-None-Match: TAG"], 412),
    ("if-order", ["If-Match: TAG", "If-None-Match: TAG"], 304),
    ("if-order", ["If-Match: TAG", 'If-None-Match: "x"'], 200),
    ("if-order",
     [f"If-Unmodified-Since: {BEFORE}", "If-None-Match: TAG"], 412),
    ("if-order",
     [f"If-Unmodified-Since: {AFTER}", f"If-Modified-Since: {AFTER}"], 304),
]  # fmt: skip


FULL = bytes_of(4097, 4097)
FILE = "/size-4097.bin"
PARTS = [  # what is wanted, the first and the last byte that come
    ("0-0", 0, 0), ("0-499", 0, 499), ("500-999", 500, 999),
    ("500-", 500, 4096), ("4096-", 4096, 4096), ("4096-4096", 4096, 4096),
    ("-5", 4092, 4096), ("-1", 4096, 4096), ("0-", 0, 4096),
    ("0-4096", 0, 4096), ("0-4097", 0, 4096), ("-4097", 0, 4096),
    ("-9999", 0, 4096), ("4000-99999", 4000, 4096),
    ("0-" + "9" * 40, 0, 4096), ("007-008", 7, 8),
]
PART = "Range: bytes=1-3"
BEYOND = "Range: bytes=9999-"
DIGITS = "9" * 6000  # more than Python turns into a number unasked
# Rule, method and target, fields (TAG: as above), the statuses expected,
# and for some a field of the answer, or the bytes of its body.
Row = tuple[str, str, list[str], tuple[int, ...], str | bytes]
EXCHANGES: list[Row] = [
    *[("range-beyond", f"GET {FILE}", [f"Range: bytes={wanted}"], (416,),
       "Content-Range: bytes */4097") for wanted in (
        "4097-", "4097-4097", "99999-100000", "-0", "9" * 40 + "-",
    )],
    *[("range-beyond", "GET /size-0.bin", [f"Range: bytes={wanted}"], (416,),
       "Content-Range: bytes */0") for wanted in ("0-", "0-0", "1-", "-0")],
    # The last bytes of none are satisfiable (14.1.2): the whole of it.
    *[("range-beyond", "GET /size-0.bin", [f"Range: bytes=-{n}"], (200,), b"")
      for n in (1, 5)],
    *[("range-ignored", f"GET {FILE}", [f"Range: {wanted}"], (200,), FULL)
      for wanted in (
        "bytes=0-0,2-3", "bytes=0-0, -1", "lines=0-1", "bytes=", "bytes",
        "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=0-x", "bytes=--1",
        "bytes=1", "bytes 0-1", "", "bytes=0x0-0x1", "bytes=+1-2",
        "bytes=1_0-2_0", "bytes=\u00b2-", "0-1", "bytes=0-1;x", ",",
    )],
    *[("range-ignored", f"HEAD {FILE}", [field], (200,),
       "Content-Length: 4097") for field in (PART, BEYOND)],
    ("range-ignored", "GET /missing", [PART], (404,), ""),
    ("range-ignored", "GET /sub", [PART], (301,), ""),
    ("range-ignored", f"POST {FILE}", [PART], (405,), ""),
    *[("range-ignored", f"GET {FILE}", [f"Range: bytes={wanted}"],
       (200, 206, 416), "")
      for wanted in (f"{DIGITS}-", f"0-{DIGITS}", f"-{DIGITS}")],
    ("if-range", f"GET {FILE}", [PART, "If-Range: TAG"], (206,), FULL[1:4]),
    *[("if-range", f"GET {FILE}", [PART, f"If-Range: {other}"], (200,), FULL)
      for other in ('"x"', "W/TAG", SINCE, BEFORE, AFTER, "nonsense", "*", "",
                    'TAG, "x"')],
    # Alone it means nothing, and a range that cannot be is not asked.
    ("if-range", f"GET {FILE}", ["If-Range: TAG"], (200,), FULL),
    ("if-range", f"GET {FILE}", [BEYOND, "If-Range: TAG"], (416,), ""),
    ("if-range", f"GET {FILE}", [BEYOND, 'If-Range: "x"'], (200,), FULL),
    # Conditions come before ranges.
    *[(name, f"{method} {FILE}", fields, (status,),
       FULL * (status == 200 and method == "GET") if status < 400 else "")
      for name, fields, status in CONDITIONS for method in ("GET", "HEAD")],
    ("if-order", f"GET {FILE}", ["If-None-Match: TAG", PART], (304,), b""),
    ("if-order", f"GET {FILE}", [f"If-Modified-Since: {SINCE}", PART],
     (304,), b""),
    ("if-order", f"GET {FILE}", ['If-Match: "x"', PART], (412,), ""),
    ("if-order", f"GET {FILE}", [f"If-Unmodified-Since: {BEFORE}", PART],
     (412,), ""),
    # And they need a file to judge.
    ("if-order", "GET /missing", ["If-None-Match: *"], (404,), ""),
    ("if-order", "GET /missing", ["If-Match: *"], (404, 412), ""),
    *[("file-errors", f"{method} {target}", [], (status,), field)
      for target in ("/page.html", "/", "/missing", "/sub", "/../secret.txt")
      for method, status, field in (
        *[(method, 405, "Allow: GET, HEAD")
          for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE")],
        ("BREW", 501, ""),
    )],
    *[("moved", f"{method} {target}", [], (301,), f"Location: {place}")
      for method in ("GET", "HEAD") for target, place in (
        ("/sub", "/sub/"), ("/sub?a=1&b=/%20", "/sub/?a=1&b=/%20"),
        ("/with%20space", "/with%20space/"), ("/empty", "/empty/"),
        ("/inside", "/inside/"), ("/itself/sub", "/itself/sub/"),
        ("http://test/sub?q", "/sub/?q"),
    )],
    ("file-errors", "OPTIONS *", [], (200, 405), ""),
    ("file-errors", "GET /page.html", ["Content-Length: 4"], (200,), PAGE),
    ("file-errors", "POST /page.html", ["Content-Length: 4"], (405,), ""),
    ("file-errors", "GET /page.html", ["Range : bytes=0-0"], (400,), ""),
    ("file-errors", f"GET /{'x' * 8200}", [], (414,), ""),
    ("file-errors", "GET /page.html", ["X: " + "x" * 17000], (431,), ""),
    ("file-errors", "GET  /page.html", [], (400,), ""),
    ("file-errors", "GET /caf\u00e9.txt", [], (400,), ""),
]  # fmt: skip


@by_rule(EXCHANGES, STEP)
def test_exchanges(shared: Running, name: str) -> None:
    tag = ask(shared, FILE, method="HEAD").get("ETag")
    for _, asked, fields, statuses, must in (
        row for row in EXCHANGES if row[0] == name
    ):
        method, _, target = asked.partition(" ")
        filled = [field.replace("TAG", tag) for field in fields]
        response = ask(shared, target, *filled, method=method)
        what = asked, filled, response
        assert response.status in statuses, what
        if isinstance(must, bytes):
            assert response.body == must, what
        elif must:
            field, _, value = must.partition(": ")
            found = response.get(field).removeprefix("http://test")
            assert found == value, what
        if response.status == 200:
            assert not response.get("Content-Range"), what
        if response.status in (200, 304) and target == FILE:
            # With all that RFC 9110, section 15.4.5 wants of a 304.
            assert response.get("ETag") == tag, what
            assert response.get("Last-Modified") == SINCE, what
            assert response.get("Date"), what
            assert response.get("Content-Length") in (
                ("4097",) if response.status == 200 else ("", "4097")
            ), what
        if response.status > 400 and method != "HEAD":
            assert len(response.body) < 1000, what
            assert str(response.status).encode() in response.body, what
        whole = response.status in (400, 414, 431) or any(
            field.startswith("Content-Length") for field in fields
        )
        assert response.closes == whole, what


@rule("range", STEP)
def test_range(shared: Running) -> None:
    for wanted, first, last in PARTS:
        response = ask(shared, FILE, f"Range: bytes={wanted}")
        assert response.status == 206, response
        assert response.body == FULL[first : last + 1]
        assert response.get("Content-Range") == f"bytes {first}-{last}/4097"
        assert response.get("Content-Length") == str(last + 1 - first)
        assert response.get("Content-Type") == "application/octet-stream"
        assert response.get("Last-Modified") == SINCE
        assert response.get("ETag") and response.get("Date")


@rule("range", STEP)
def test_ranges_make_the_file(shared: Running) -> None:
    # At every offset within a page, and in the middle of a large file.
    large = bytes_of("large", LARGE)
    with shared.client() as client:
        for target, whole, first, last in (
            *[(FILE, FULL, n, n + 240) for n in range(0, 4097, 241)],
            ("/large.bin", large, 9_999_999, 10_000_001),
            ("/large.bin", large, 1 << 20, (1 << 21) - 1),
        ):
            field = f"Range: bytes={first}-{last}"
            response = client.ask(request(target, field))
            assert response.body == whole[first : last + 1]


# Connections.


CONVERSATION: list[tuple[bytes, int, bytes | None]] = [
    (request("/page.html"), 200, PAGE),
    (request("/size-65537.bin"), 200, bytes_of(65537, 65537)),
    (request("/size-65537.bin", method="HEAD"), 200, b""),
    (request("/missing"), 404, None), (request("/size-0.bin"), 200, b""),
    (request("/sub"), 301, None),
    (request("/size-4097.bin", "Range: bytes=-1"), 206, FULL[-1:]),
    (request("/a.txt", "If-None-Match: *"), 304, b""),
    (request("/a.txt", 'If-Match: "x"'), 412, None),
    (request("/a.txt", "Range: bytes=99-"), 416, None),
    (request("/a.txt", method="BREW"), 501, None),
    (request("/a.txt", method="POST"), 405, None),
    (request("/size-1048577.bin"), 200, bytes_of(1048577, 1048577)),
    (request("/sub/"), 200, b"<p>sub\n"),
]  # fmt: skip


@rule("file-keep", STEP)
def test_files_and_connections(shared: Running) -> None:
    keep = b"GET /size-65537.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    with shared.client(keep) as client:
        response = client.response()
        assert len(response.body) == 65537
        assert response.get("Connection").lower() == "keep-alive"
        assert client.ask(keep).status == 200
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


def talk(process: Running, seed: int) -> None:
    """One client's own sequence of files, at once or in pieces."""
    draw = random.Random(seed)
    steps = draw.choices(CONVERSATION, k=draw.randrange(1, 30))
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


@rule("file-keep", STEP)
def test_files_never_mix(shared: Running) -> None:
    with ThreadPoolExecutor(8) as pool:
        talks = [pool.submit(talk, shared, seed) for seed in range(24)]
        for each in talks:
            each.result()


@slow
@rule("file-descriptors", STEP)
@beside_with(60)
def test_no_descriptors_for_files(server: Server) -> None:
    limit = 48
    files = with_files(server)
    with running(files, "--workers", "1", descriptors=limit) as process:
        ask(process, "/page.html")
        crowd = [process.client() for _ in range(limit)]
        assert eventually(lambda: process.processes()[-1].num_fds() >= limit)
        for size, client in zip(SIZES * 3, crowd, strict=False):
            client.send_if_open(request(f"/size-{size}.bin"))
        for client in crowd[:10]:
            with contextlib.suppress(NoResponse):
                response = client.response(timeout=0.2)
                assert response.status in (200, 404, 500, 503)
        for client in crowd:
            client.close()
        for size in (1, 4096, 65536):
            target = f"/size-{size}.bin"
            assert ask(process, target).body == bytes_of(size, size)


# Large files, slow readers.


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
def test_large_files_in_a_row(shared: Running) -> None:
    expected = bytes_of("large", LARGE)
    with shared.client(request("/large.bin") * 2) as client:
        for _ in range(2):
            body = begun(client)
            client.received = body[LARGE:]  # the next answer
            assert rest_of(client, body[:LARGE]) == expected
        assert_goes_on(client)


@pytest.mark.thorough
@rule("file-large", STEP)
def test_large_file_read_slowly(shared: Running) -> None:
    with Client(shared.port, receive_buffer=16384) as client:
        body = begin_large(client, "large.bin", "Connection: close")
        for number in range(12):  # small pieces with breaks
            time.sleep(1.5 if number == 6 else 0.05)
            body += take(client.socket, 300_000, 4096)
            ask(shared, "/page.html")
        whole = rest_of(client, body, LARGE + 1)
        assert whole == bytes_of("large", LARGE)


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
@beside_with(50)
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
        spent = process.cpu()
        time.sleep(1)
        assert process.threads() <= before + 4
        spent = process.cpu() - spent
        assert spent < 0.5, f"{spent:.1f} CPU seconds in 1 s: a busy loop"
        last = clients.pop()
        for client in clients:
            client.reset()
        assert rest_of(last, begun(last)) == bytes_of("large", LARGE)
        last.close()


@slow
@pytest.mark.thorough
@rule("file-left", STEP)
@beside_with(60)
def test_who_never_reads_a_file_is_dropped(server: Server) -> None:
    with running(with_files(server)) as process:
        open_large(process)
        before = process.warm_up()
        begin = time.monotonic()
        clients = stuck(process, 4)

        def gone() -> bool:
            return process.descriptors() <= before[0]

        assert eventually(lambda: not gone(), PATIENCE)
        assert eventually(gone, PATIENCE, every=0.1), "never dropped"
        took = time.monotonic() - begin
        assert took > 9.5, f"dropped after {took:.1f} s already"
        for client in clients:
            client.close()
        process.assert_at_rest(before)


# Changes on disk.


@rule("file-changes", STEP)
def test_changes_show_at_once(shared: Running, own: Own) -> None:
    path = own("change.txt", b"")
    target = f"/{path.name}"
    with shared.client() as client:

        def shows(status: int, body: bytes | None, more: str = "") -> Response:
            response = client.ask(request(target + more))
            assert (response.status, body) in (
                (status, None), (response.status, response.body)
            ), response
            return response

        tags = []
        for number in range(6):
            data = f"{number:03}\n".encode()  # always the same size
            write(path, data, CHANGED + number)
            for _ in range(2):
                response = shows(200, data)
                since = formatdate(CHANGED + number, usegmt=True)
                assert response.get("Last-Modified") == since
            tags.append(response.get("ETag"))
        assert len(set(tags)) == 6
        field = f"If-None-Match: {', '.join(tags[:5])}"
        assert client.ask(request(target, field)).status == 200
        for data in (b"now it is longer\n", b""):
            write(path, data, CHANGED + 5)
            shows(200, data)
        path.unlink()
        shows(404, None)
        path.mkdir()
        shows(301, None)
        shows(404, None, "/")
        path.rmdir()
        path.symlink_to("../secret.txt")
        shows(404, None)
        path.unlink()
        write(path, b"new again\n")
        shows(200, b"new again\n")
        replacement = path.with_suffix(".new")
        write(replacement, b"put there\n")
        replacement.replace(path)
        shows(200, b"put there\n")


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more" * 1_000_000)


def replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"other" * 1_000_000)
    other.replace(path)


@rule("file-under-way", STEP)
@pytest.mark.parametrize("change", [grow, replace, Path.unlink, os.utime])
def test_file_changes_under_way(
    shared: Running, own: Own, change: Callable[[Path], None]
) -> None:
    data = bytes_of("under way", LARGE)
    path = own("under-way.bin", data)
    with shared.client() as client:
        body = begin_large(client, path.name)
        change(path)
        assert rest_of(client, body) == data
        assert_goes_on(client)


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
        # the middle: never is there an answer behind a wrong length.
        body = rest_of(client, body)
        if len(body) == LARGE:
            assert body == data
            assert client.response().body == PAGE
        else:
            assert body[:left] == data[: min(left, len(body))]
        assert_goes_on(other)
        assert ask(shared, f"/{path.name}").body == data[:left]


def test_a_slow_client_has_time_for_what_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = load(ROOT / "07_parallel" / "file_client.py")
    queued = [1_000_000]
    monkeypatch.setattr(module, "bytes_queued", lambda fd: queued[0])
    client = module.FileClient(None, 5)
    client.wait_for(module.SEND, 10)
    client.sent = 4_000_000
    client.check_progress()
    seconds = 3_000_000 / module.SLOWEST
    assert seconds - 1 < client.time_left() <= seconds
    queued[0] -= 1000  # a little more does not make its time shorter
    client.check_progress()
    assert client.time_left() > seconds - 1
    client.wait_for(module.SEND, 10)
    client.check_progress()  # nothing more: its time does not grow
    assert client.time_left() <= 10


@rule("file-under-way", STEP)
def test_a_file_is_not_younger_than_it_is(
    server: Server, shared: Running, own: Own
) -> None:
    path = own("young.txt", b"young")
    os.utime(path, ns=(0, 1_000_000_000 * 10**9 + 999_999_999))
    response = ask(shared, f"/{path.name}")
    assert response.get("Last-Modified") == "Sun, 09 Sep 2001 01:46:40 GMT"


@pytest.mark.thorough
@rule("file-under-way", STEP)
def test_files_that_change_all_the_time(server: Server, own: Own) -> None:
    path = own("restless.bin", b"x" * 3_000_000)
    data = request(f"/{path.name}") + request("/page.html")

    def fetch(process: Running) -> None:
        for _ in range(10):
            with process.client(data * 2) as client:
                try:
                    for number in range(4):
                        response = client.response()
                        if number % 2:
                            assert response.body == PAGE
                        elif response.status == 200:
                            assert set(response.body) <= {0, 120}
                        else:
                            assert response.status == 404
                except NoResponse:
                    assert client.ended, "neither an answer nor the end"

    with running(with_files(server)) as process:
        ask(process, "/page.html")
        pids = [each.pid for each in process.processes()]
        draw = random.Random(3)
        with ThreadPoolExecutor(6) as pool:
            done = [pool.submit(fetch, process) for _ in range(6)]
            while not all(each.done() for each in done):
                kind = draw.random()
                if kind < 0.4:
                    os.truncate(path, draw.choice([0, 1, 5000, 70_000]))
                elif kind < 0.8:
                    with path.open("r+b") as file:
                        file.write(b"x" * draw.choice([70_000, 3_000_000]))
                else:
                    path.unlink()
                    path.write_bytes(b"x" * 2_000_000)
                time.sleep(draw.choice([0, 0.001, 0.005]))
            for each in done:
                each.result()
        assert ask(process, "/page.html").status == 200
        assert [each.pid for each in process.processes()] == pids


# The option.


@rule("directory", STEP)
def test_directory_must_be_one(server: Server) -> None:
    for name in ("missing", "page.html", "page.html/", "fifo", "loop"):
        wrong = with_engine(server, "--directory", f"{tree()}/{name}")
        done = run(server, "--port", "0", *wrong.options)
        assert_refused(done, 2)
        assert name.strip("/") in done.stderr


@pytest.mark.thorough
@rule("directory", STEP)
def test_directory_by_other_names(server: Server) -> None:
    site = tree()
    link = site.parent / f"link-{os.getpid()}-{server.name}"
    link.symlink_to("site")
    for name in (
        str(link), f"{site}/", os.path.relpath(site), f"{site}/sub/..",
        f"{site}//.",
    ):
        with running(with_engine(server, "--directory", name)) as process:
            assert ask(process, "/").body == b"this is index.html\n"
            assert ask(process, "/inside.txt").status == 200
            for target in ("/out.txt", "/out/secret.txt", "/../secret.txt"):
                response = ask(process, target)
                assert response.status == 404
                assert SECRET not in response.raw


@rule("directory", STEP)
def test_without_directory_no_files(server: Server) -> None:
    with running(with_engine(server)) as process:
        for target in ("/page.html", "/server.py", "/07_parallel/server.py"):
            with process.client(request(target)) as client:
                assert client.response().status == 404
