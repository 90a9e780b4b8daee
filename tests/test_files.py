"""Files: what 07 responds with for --directory, decided in process.

files.py and file_client.py decide; what the engines make of it is in
test_sending.py, which takes its directory from here.
"""

import atexit
import contextlib
import errno
import functools
import os
import random
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.marks import Patch, by_rule, rule
from tests.process import PATIENCE, load
from tools.common.raw_client import Response, read_response
from tools.servers import ROOT

STEP = range(7, 8)
MODULE = ROOT / "07_parallel" / "file_client.py"
SECRET = b"nobody outside may read this"
PAGE = b"this is page.html\n"
LARGE = 20_000_000  # bytes: more than the kernel's buffers hold
FILE = "/size-4097.bin"
PART, BEYOND = "Range: bytes=1-3", "Range: bytes=9999-"
DIGITS = "9" * 6000  # more than Python turns into a number unasked
CHANGED = 1_000_000_000  # when the files were changed: in 2001
OLDER = datetime.fromtimestamp(CHANGED, UTC)
BEFORE, SINCE, AFTER = (
    formatdate(CHANGED + d, usegmt=True) for d in (-1, 0, 1)
)
OLD_DATES = (  # two older ways to write one (RFC 9110, section 5.6.7)
    OLDER.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
    OLDER.strftime("%a %b %e %H:%M:%S %Y"),
)
NONSENSE_DATES = ["soon", "", "0", "Fri, 99 Foo 2026 25:00:00 GMT"]
# Sizes where one buffer, page or part ends and the next begins.
SIZES = [0, 1, 248, *(
    size + more for size in (2048, 4096, 16384, 65536, 131072, 262144)
    for more in (-1, 0, 1)
), 524289, 1048575, 1048576, 1048577]  # fmt: skip
TEXTS = [
    "index.html", "page.html", "a.css", "a.PNG", "a.txt", "a.gz",
    "unknown.qqq", "unknown", "with space.txt", "caf\u00e9.txt", "100%.txt",
    "a+b.txt", "%41.txt", "what?.txt", ".html",
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


@functools.cache
def bytes_of(seed: object, size: int) -> bytes:
    return random.Random(str(seed)).randbytes(size)


FULL = bytes_of(4097, 4097)


def write(path: Path, data: bytes, changed: float = CHANGED) -> None:
    """Write a file, and when it was changed."""
    path.write_bytes(data)
    os.utime(path, (changed, changed))


@functools.cache
def tree() -> Path:
    """The directory to serve, which goes when we end.

    Beside it stands what must not come out.
    """
    outside = Path(tempfile.mkdtemp(prefix="files-"))
    atexit.register(shutil.rmtree, outside, ignore_errors=True)
    site = outside / "site"
    (outside / "site-secret").mkdir()
    for name in ("sub", "empty", "with space", "evil.example", "real",
                 "\\evil.example", "a\r\nSet-Cookie: b=c"):
        (site / name).mkdir(parents=True)
    for name in ("secret.txt", "site-secret/secret.txt", "index.html",
                 "site-secret/file.txt"):
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
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
        sock.bind(os.path.relpath(site / "socket"))
    return site


@pytest.fixture
def own() -> Iterator[Own]:
    """Makes files for one test, which may change them."""
    made: list[Path] = []

    def make(name: str, data: bytes) -> Path:
        made.append(tree() / f"own-{name}")
        write(made[-1], data)
        return made[-1]

    yield make
    for path in made:
        path.unlink(missing_ok=True)


def request(target: str, *fields: str, method: str = "GET") -> bytes:
    """A request for a target."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test", *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def respond(client: Any, data: bytes) -> bytes:
    """All that a new FileClient sends for these bytes."""
    client.data_received(data)
    sent = b""
    while client.next.value in ("work", "send"):
        if client.next.value == "work":
            client.work_done()
            continue
        part = client.unsent
        if client.transfer:
            head, memory, start, size = client.transfer.part()
            part = head + memory[start : start + size]
        assert part, "a transfer without an end"
        sent += part
        client.data_sent(len(part))
    return sent


class Site:
    """The files of a directory, without a socket."""

    def __init__(self, directory: str) -> None:
        self.connect = load(MODULE).client_for(directory)

    def ask(self, target: str, *fields: str, method: str = "GET") -> Response:
        """One response; the connection must then end, or be good."""
        data = request(target, *fields, method=method)
        # Its fields are of no concern to the first one.
        another = request("/page.html", "If-None-Match: *")
        sent = respond(self.connect(-1), data + another)
        response = read_response(sent, head=method == "HEAD")
        assert response, sent
        rest = sent[len(response.raw):]
        if response.closes:
            assert rest == b""
        else:
            following = read_response(rest)
            assert following and following.raw == rest
            assert following.status == 304
        return response


@pytest.fixture
def site(monkeypatch: Patch) -> Iterator[Site]:
    """The files, where the clock is not in GMT as dates are."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XYZ-5:30")
        time.tzset()
        yield Site(str(tree()))
    time.tzset()


def of_file(fields: str, *values: str) -> list[str]:
    """Requests for FILE; fields: lines, with {} for one of the values."""
    return [f"{FILE}\n{fields.format(each)}" for each in values or [""]]


EMPTY = "/size-0.bin\nRange: bytes="
ERROR = 0  # some refusal
# Rule, the status, a field of the response or its body if that matters,
# and the requests for it: targets, or a list of them with their fields, a
# line each, and another method than GET. TAG stands for the tag of FILE.
EXCHANGES: list[tuple[str, int, str | bytes, str | list[str]]] = [
    ("file-name", 200, PAGE, """
     /%70age.html /page.html? /page.html?a=1&b=%20
     /page.html?/../../secret.txt /page.html?%7a%25 http://test/page.html
     http://test:80/page.html?q HTTP://other/%70age.html
     """),
    ("file-name", 200, b"this is index.html\n",
     "/ /?q http://test/ http://test http://test?q"),
    *[("file-name", 200, f"this is {name}\n".encode(), targets)
      for name, targets in (
        ("with space.txt", "/with%20space.txt"), ("%41.txt", "/%2541.txt"),
        ("caf\u00e9.txt", "/caf%C3%A9.txt /caf%c3%a9.txt"),
        ("100%.txt", "/100%25.txt"), ("a+b.txt", "/a+b.txt /a%2Bb.txt"),
        ("what?.txt", "/what%3F.txt"),
    )],
    ("file-name", 404, "Content-Type: text/html; charset=utf-8", f"""
     /missing /missing/page.html /page.html/ /page.html/x /Page.html
     /%41.txt /a%2520b.txt /loop /dangling /loop/x /%ff.txt
     /%ED%A0%80.txt /%0d%0a http://test/missing /itself/missing /*
     /{"x" * 300} /{"x" * 5000} /{"x/" * 2500}
     """),
    ("index", 200, b"<p>sub\n", "/sub/ /sub/?q=1 /itself/sub/ /%73ub/"),
    ("index", 404, "", "/empty/ /with%20space/ /real/"),
    ("no-way-out", ERROR, "", r"""
     /../secret.txt /../site-secret/secret.txt /../../../../../../etc/passwd
     /sub/../../secret.txt /sub/.. /.. /../ /%2e%2e/secret.txt
     /%2E%2e%2fsecret.txt /.%2e/secret.txt /%2e./secret.txt /..%2fsecret.txt
     /..%5csecret.txt /..\secret.txt /sub%2f..%2f..%2fsecret.txt
     /%252e%252e%252fsecret.txt /%c0%ae%c0%ae/secret.txt
     /%uff0e%uff0e/secret.txt //etc/passwd ///etc/passwd /%2Fetc%2Fpasswd
     //secret.txt /sub%2fpage.html /page.html%00 /page.html%00.txt /%00
     /%00/../secret.txt /sub\page.html /sub%5cpage.html /% /%2 /%zz
     /page.html% /page.html%2 /%-1.txt /%+1 /out.txt /out-absolute.txt
     /twice.txt /itself/out.txt /out /out/ /out/secret.txt /out/index.html
     /out/site/page.html/../../secret.txt /out-beside /out-beside/
     /out-beside/secret.txt /out-absolute /out-absolute/passwd
     http://test/../secret.txt http://test/%2e%2e/secret.txt
     file:///etc/passwd ftp://test/page.html /.../secret.txt
     /..;/secret.txt /~root secret.txt ../secret.txt * ?
     /page.html?%zz%
     """),
    ("no-way-out", 200, b"this is a.txt\n", """
     /inside.txt /sub/inside.txt /inside-absolute.txt /itself/inside.txt
     /itself/itself/a.txt
     """),
    ("no-way-out", 200, b"real\n", ["/inside/file.txt"]),
    *[("file", 200, f"Content-Type: {kind}", [f"/{name}"])
      for name, kind in (
        ("page.html", "text/html; charset=utf-8"), ("a.PNG", "image/png"),
        ("sub/", "text/html; charset=utf-8"), ("a.gz", "application/gzip"),
        ("a.css", "text/css; charset=utf-8"),
        *[(name, "application/octet-stream")
          for name in ("unknown.qqq", "unknown", ".html")],
    )],
    ("if-none-match", 304, b"", of_file(
        "If-None-Match: {}", "TAG", "W/TAG", '"x", TAG', "*",
        '"x,y" , W/"z",W/TAG,"u"', '"x"\nIf-None-Match: TAG',
        'TAG\nIf-None-Match: "x"',
    )),
    ("if-none-match", 304, b"", of_file("if-none-match:TAG")),
    ("if-none-match", 200, FULL, of_file(
        "If-None-Match: {}", '"x"', '"x", "y"', "", "x", '"*"',
    )),
    ("if-none-match", 200, FULL, of_file("X-If-None-Match: TAG")),
    ("if-modified-since", 304, b"", of_file(
        "If-Modified-Since: {}", SINCE, AFTER, *OLD_DATES,
        "Fri, 31 Dec 2100 23:59:59 GMT",
    )),
    ("if-modified-since", 200, FULL, of_file(
        "If-Modified-Since: {}", BEFORE, "Thu, 01 Jan 1970 00:00:00 GMT",
        "Thu Jan  1 00:00:00 1970", *NONSENSE_DATES,
        "Sunday, 06-Nov-94 08:49:37 GMT",  # this is not 2094
        f"{AFTER}\nIf-Modified-Since: {AFTER}",
    )),
    ("if-match", 200, FULL, of_file(
        "If-Unmodified-Since: {}", SINCE, AFTER, *NONSENSE_DATES,
        f"{BEFORE}\nIf-Unmodified-Since: {BEFORE}",
    )),
    ("if-match", 200, FULL, of_file("If-Match: {}", "TAG", '"x", TAG', "*")),
    ("if-match", 412, "", of_file(f"If-Unmodified-Since: {BEFORE}")),
    ("if-match", 412, "", of_file(
        "If-Match: {}", '"x"', '"x", "y"', "W/TAG",
    )),
    # A tag says more than a date; and what protects from harm comes
    # before what saves time, both before ranges.
    ("if-order", 200, FULL, of_file(
        "{}", f'If-None-Match: "x"\nIf-Modified-Since: {AFTER}',
        f'If-Modified-Since: {AFTER}\nIf-None-Match: "x"',
        f"If-Match: TAG\nIf-Unmodified-Since: {BEFORE}",
        'If-Match: TAG\nIf-None-Match: "x"',
    )),
    ("if-order", 304, b"", of_file(
        "{}", f"If-None-Match: TAG\nIf-Modified-Since: {BEFORE}",
        "If-Match: TAG\nIf-None-Match: TAG",
        f"If-Unmodified-Since: {AFTER}\nIf-Modified-Since: {AFTER}",
        f"If-None-Match: TAG\n{PART}", f"If-Modified-Since: {SINCE}\n{PART}",
    )),
    ("if-order", 412, "", of_file(
        "{}", f'If-Match: "x"\nIf-Unmodified-Since: {AFTER}',
        'If-Match: "x"\nIf-None-Match: TAG', f'If-Match: "x"\n{PART}',
        f"If-Unmodified-Since: {BEFORE}\nIf-None-Match: TAG",
        f"If-Unmodified-Since: {BEFORE}\n{PART}",
    )),
    ("if-order", 404, "", [  # they need a file to judge
        f"/missing\n{field}: *" for field in ("If-Match", "If-None-Match")
    ]),
    *[("range", 206, f"Content-Range: bytes {found}/4097",
       of_file("Range: bytes={}", *wanted.split())) for found, wanted in (
        ("0-0", "0-0"), ("0-499", "0-499"), ("500-999", "500-999"),
        ("500-4096", "500-"), ("4096-4096", "4096- 4096-4096 -1"),
        ("4092-4096", "-5"), ("4000-4096", "4000-99999"), ("7-8", "007-008"),
        ("0-4096", f"0- 0-4096 0-4097 -4097 -9999 0-{DIGITS} -{DIGITS}"),
    )],
    ("range-beyond", 416, "Content-Range: bytes */4097", of_file(
        "Range: bytes={}", "4097-", "4097-4097", "99999-100000", "-0",
        f"{DIGITS}-",
    )),
    ("range-beyond", 416, "Content-Range: bytes */0", [
        f"{EMPTY}0-", f"{EMPTY}0-0", f"{EMPTY}1-", f"{EMPTY}-0",
    ]),
    # The last bytes of none are satisfiable (14.1.2): the whole of it.
    ("range-beyond", 200, b"", [f"{EMPTY}-1", f"{EMPTY}-5"]),
    ("range-ignored", 200, FULL, of_file(
        "Range: {}", "bytes=0-0,2-3", "bytes=0-0, -1", "lines=0-1", "bytes=",
        "bytes", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=0-x",
        "bytes=--1", "bytes=1", "bytes 0-1", "", "bytes=0x0-0x1",
        "bytes=+1-2", "bytes=1_0-2_0", "bytes=\u00b2-", "0-1",
        "bytes=0-1;x", ",",
    )),
    ("range-ignored", 404, "", [f"/missing\n{PART}"]),
    ("range-ignored", 301, "", [f"/sub\n{PART}"]),
    ("range-ignored", 405, "", [f"POST {FILE}\n{PART}"]),
    ("if-range", 206, FULL[1:4], of_file(f"{PART}\nIf-Range: TAG")),
    ("if-range", 416, "", of_file(f"{BEYOND}\nIf-Range: TAG")),
    # Alone it means nothing, and a range that cannot be is not asked.
    ("if-range", 200, FULL, of_file(
        "{}", "If-Range: TAG", f'{BEYOND}\nIf-Range: "x"',
    )),
    ("if-range", 200, FULL, of_file(
        f"{PART}\nIf-Range: {{}}", '"x"', "W/TAG", SINCE, BEFORE, AFTER,
        "nonsense", "*", "", 'TAG, "x"',
    )),
    ("file-errors", 405, "Allow: GET, HEAD", [
        f"POST {target}"
        for target in ("/page.html", "/", "/missing", "/sub", "/../page.html")
    ]),
    ("file-errors", 501, "", ["BREW /page.html", "BREW /missing"]),
    ("file-errors", 405, "", ["OPTIONS *", "POST /a.txt\nContent-Length: 4"]),
    ("file-errors", 200, PAGE, ["/page.html\nContent-Length: 4"]),
    ("file-errors", 400, "", [
        "GET  /page.html", "/caf\u00e9.txt", "/page.html\nRange : bytes=0-0",
    ]),
    *[("moved", 301, f"Location: {place}", [target]) for target, place in (
        ("/sub", "/sub/"), ("/sub?a=1&b=/%20", "/sub/?a=1&b=/%20"),
        ("/with%20space", "/with%20space/"), ("/empty", "/empty/"),
        ("/inside", "/inside/"), ("/itself/sub", "/itself/sub/"),
        ("http://test/sub?q", "/sub/?q"),
        ("/%5Cevil.example", "/%5Cevil.example/"),
        ("/a%0d%0aSet-Cookie:%20b=c", "/a%0d%0aSet-Cookie:%20b=c/"),
    )],
    # Browsers take a path that begins with two slashes, or with a
    # slash and a backslash, for another server.
    ("moved", ERROR, "Location: ", r"""
     //evil.example //evil.example/.. //evil.example/%2e%2e /.//evil.example
     ///evil.example /%2Fevil.example /%2fevil.example/.. //evil.example?x
     /sub/..//evil.example /%09/evil.example http://test//evil.example //sub
     http://evil.example//sub //itself/sub /..//sub /\evil.example
     http:////evil.example
     """),
]  # fmt: skip


@by_rule(EXCHANGES, STEP)
def test_exchanges(site: Site, name: str) -> None:
    tag = site.ask(FILE).get("ETag")
    for _, status, must, requests in (r for r in EXCHANGES if r[0] == name):
        if isinstance(requests, str):
            requests = requests.split()
        for text in requests:
            asked, *fields = text.replace("TAG", tag).split("\n")
            method, _, target = asked.rpartition(" ")
            response = site.ask(target, *fields, method=method or "GET")
            what = asked, fields, response
            found = response.status
            assert found == status or (not status and 400 <= found < 422), what
            if isinstance(must, bytes):
                assert response.body == must, what
            elif must:
                field, _, value = must.partition(": ")
                assert response.get(field) == value, what
            check_response(response, target, tag)
            with_body = "Content-Length" in text
            assert response.closes == (found in (400, 414, 421, 431)
                                       or with_body), what
            if not method:  # a range is for GET alone
                head = site.ask(target, *fields, method="HEAD")
                wanted = 200 if found in (206, 416) else found
                assert head.status == wanted, (what, head)
                check_response(head, target, tag)


def check_response(response: Response, target: str, tag: str) -> None:
    """What holds for every response, and for all with FILE."""
    for absent in (SECRET, b"root:", b"\nSet-Cookie:", b"Content-Encoding"):
        assert absent not in response.raw, response
    status = response.status
    if status >= 400 and response.body:
        assert len(response.body) < 1000, response
        assert str(status).encode() in response.body, response
    place = response.get("Content-Range")
    assert bool(place) == (status in (206, 416)), response
    if target == FILE and status in (200, 206, 304):  # 15.4.5
        assert response.get("ETag") == tag, response
        assert response.get("Last-Modified") == SINCE, response
        assert response.get("Date"), response
        length = {200: "4097", 304: ""}.get(status, str(len(response.body)))
        assert response.get("Content-Length") == length, response
    if status == 206:
        first, last = place.split()[1].partition("/")[0].split("-")
        assert response.body == FULL[int(first) : int(last) + 1], response
        assert response.get("Content-Type") == "application/octet-stream"


@rule("no-way-out", STEP)
def test_a_link_that_turns_round(
    site: Site, own: Own, monkeypatch: Patch
) -> None:
    """A link is not followed again after a look at where it leads."""
    link = own("turning", b"")
    look = os.path.realpath

    def turn(path: Any, **named: Any) -> str:
        found: str = look(path, **named)
        link.unlink()
        link.symlink_to("../site-secret")
        return found

    link.unlink()
    link.symlink_to("real")
    monkeypatch.setattr(os.path, "realpath", turn)
    response = site.ask(f"/{link.name}/file.txt")
    assert (response.status, response.body) == (200, b"real\n")
    assert site.ask(f"/{link.name}/file.txt").status == 404


@rule("file-head", STEP)
def test_file_head(site: Site) -> None:
    get = site.ask("/page.html")
    assert get.get("Last-Modified") == SINCE
    assert get.get("Accept-Ranges") == "bytes"
    assert re.fullmatch(r'"[!#-~]+"', get.get("ETag")), "a strong tag"
    off = parsedate_to_datetime(get.get("Date")) - datetime.now(UTC)
    assert abs(off.total_seconds()) < PATIENCE
    assert len(get.fields) == len(dict(get.fields)), "each field once"
    head = site.ask("/page.html", method="HEAD")
    assert {**dict(head.fields), "Date": ""} == {
        **dict(get.fields), "Date": "",
    }
    tags = {site.ask(f"/size-{n}.bin").get("ETag") for n in SIZES}
    assert len(tags) == len(SIZES), "different files have different tags"


@rule("file-head", STEP)
def test_odd_dates(site: Site, own: Own) -> None:
    path = own("odd", b"odd\n")
    future = time.time() + 1_000_000
    for changed in (0, 1, -1, -100_000, 2**31, 2**33, 2**38, 2**39, future):
        try:
            os.utime(path, (changed, changed))
        except (OSError, OverflowError):  # more than this disk can say
            continue
        response = site.ask(f"/{path.name}")
        assert (response.status, response.body) == (200, b"odd\n"), changed
        # No date in the future: RFC 9110, section 8.8.2.1.
        date = parsedate_to_datetime(response.get("Last-Modified"))
        assert date <= parsedate_to_datetime(response.get("Date"))
    os.utime(path, ns=(0, CHANGED * 10**9 + 999_999_999))
    found = site.ask(f"/{path.name}").get("Last-Modified")
    assert found == SINCE, "a file is not younger than it is"


@by_rule([("only-files",), ("file-descriptors",)], STEP)
def test_a_file_that_cannot_be_opened(
    site: Site, monkeypatch: Patch, name: str
) -> None:
    wanted = {errno.EACCES: 404, errno.EPERM: 404}
    if name == "file-descriptors":
        wanted = {errno.EMFILE: 503, errno.ENFILE: 503, errno.ENOMEM: 503}
    for number, status in wanted.items():
        with monkeypatch.context() as patch:
            error = OSError(number, "refused")
            patch.setattr(os, "open", Mock(side_effect=error))
            sent = respond(site.connect(-1), request("/a.txt"))
        assert sent.startswith(b"HTTP/1.1 %d " % status)
        assert site.ask("/a.txt").status == 200, "it goes on"
        site = Site(str(tree()))  # which has nothing open


@rule("file-changes", STEP)
def test_changes_show_at_once(site: Site, own: Own) -> None:
    path = own("change.txt", b"old\n")
    new = path.with_suffix(".new")
    write(new, b"put in its place\n")

    def later(data: bytes, seconds: int) -> Callable[[], None]:
        return lambda: write(path, data, CHANGED + seconds)

    tags: list[str] = []
    steps: list[tuple[Callable[[], object], int, bytes]] = [
        (lambda: None, 200, b"old\n"),
        (later(b"new\n", 1), 200, b"new\n"),  # of the same size
        (later(b"old\n", 2), 200, b"old\n"),
        (later(b"longer than that\n", 2), 200, b"longer than that\n"),
        (later(b"", 2), 200, b""),
        (path.unlink, 404, b""), (path.mkdir, 301, b""),
        (path.rmdir, 404, b""),
        (lambda: path.symlink_to("../secret.txt"), 404, b""),
        (path.unlink, 404, b""),
        (later(b"new again\n", 0), 200, b"new again\n"),
        (lambda: new.replace(path), 200, b"put in its place\n"),
    ]
    for number, (change, status, body) in enumerate(steps):
        change()
        field = f"If-None-Match: {', '.join(tags)}"
        response = site.ask(f"/{path.name}", field)
        assert response.status == status, (number, response)
        if status == 200:
            assert response.body == body, (number, response)
            date = formatdate(path.stat().st_mtime, usegmt=True)
            assert response.get("Last-Modified") == date
            tags.append(response.get("ETag"))
            again = site.ask(f"/{path.name}", f"If-None-Match: {tags[-1]}")
            assert again.status == 304, (number, again)


@rule("file-under-way", STEP)
def test_file_changes_under_way(site: Site, own: Own) -> None:
    data = bytes_of("under way", 1_000_000)
    path, new = own("under-way.bin", data), own("new.bin", b"other")
    changes: list[Callable[[], object]] = [
        lambda: os.utime(path), lambda: os.truncate(path, 2_000_000),
        path.unlink, lambda: new.replace(path),
    ]
    for change in changes:
        write(path, data)
        client = site.connect(-1)
        client.data_received(request(f"/{path.name}"))
        change()
        assert respond(client, b"").endswith(data)


@rule("file-under-way", STEP)
def test_a_file_is_shortened_while_it_is_opened(
    site: Site, own: Own, monkeypatch: Patch
) -> None:
    path = own("shorter.txt", b"x" * 10_000)
    look = os.fstat

    def shorten(descriptor: int) -> os.stat_result:
        found = look(descriptor)
        os.truncate(path, 0)
        return found

    monkeypatch.setattr(os, "fstat", shorten)
    assert site.ask(f"/{path.name}").status == 404


@rule("directory", STEP)
def test_directory_by_other_names() -> None:
    link = tree().parent / "link"
    link.symlink_to("site")
    for name in (
        str(link), f"{tree()}/", os.path.relpath(tree()),
        f"{tree()}/sub/..", f"{tree()}//.",
    ):
        site = Site(name)
        assert site.ask("/").body == b"this is index.html\n"
        assert site.ask("/inside.txt").status == 200
        for target in ("/out.txt", "/out/secret.txt", "/../secret.txt"):
            response = site.ask(target)
            assert response.status == 404
            assert SECRET not in response.raw


def test_a_slow_client_has_time_for_what_it_took(monkeypatch: Patch) -> None:
    module = load(MODULE)
    queued = [1_000_000]
    monkeypatch.setattr(module, "bytes_queued", lambda fd: queued[0])
    client = module.FileClient(None, 5)
    monkeypatch.setitem(client.wait_for.__globals__, "clock", lambda: 0.0)
    client.wait_for(module.SEND, 10)
    client.sent = 4_000_000
    client.check_progress()
    assert client.deadline == 3_000_000 / module.SLOWEST
    queued[0] -= 1000  # a little more does not make its time shorter
    client.check_progress()
    assert client.deadline == 3_000_000 / module.SLOWEST
    client.wait_for(module.SEND, 10)
    client.check_progress()  # nothing more: its time does not grow
    assert client.deadline == 10


@rule("file-left", STEP)
def test_who_never_reads_a_file_is_dropped(
    site: Site, monkeypatch: Patch
) -> None:
    client, now = site.connect(-1), [0.0]
    monkeypatch.setitem(client.wait_for.__globals__, "clock", lambda: now[0])
    client.data_received(request("/large.bin"))
    for size in (len(client.unsent), 100_000):
        assert client.next.value == "send"
        assert client.deadline == now[0] + 10
        now[0] += 5
        client.data_sent(size)
    client.timed_out()
    assert client.next.value == "close"
