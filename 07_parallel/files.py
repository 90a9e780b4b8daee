"""Files for --directory: which one a request means, and how much of it.

Nothing here sends: it turns a request into a response's head and a part
of a file. The file is mapped into memory and not read: the engines give
its pages to the kernel, which mostly has them already, so not one byte
of it is copied into our own memory. What is not in its cache the kernel
reads from the disk, and meanwhile this worker waits.

Sources: RFC 9110, sections 13 (conditions) and 14 (ranges), and RFC
3986 for what a target may look like.
"""

from __future__ import annotations

import calendar
import errno
import functools
import mmap
import os
import re
import stat
import sys
import time
import urllib.parse
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

OPEN_FILES = 128  # kept open and mapped by each worker
NORESERVE = 0x4000 if sys.platform == "linux" else 0  # for mmap
NOT_FOUND = (
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM,
    errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO,
)  # fmt: skip
PART = 256 * 1024  # bytes of a file to send at a time

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".gif": "image/gif",
    ".gz": "application/gzip",
    ".htm": "text/html; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".map": "application/json; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".py": "text/x-python; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
    ".xml": "application/xml; charset=utf-8",
}

SAFE = "%/:@!$&'()*+,;=~"  # may stand in a path, RFC 3986, 3.3
TARGET = re.compile(r"(?:https?://[^/?#]+)?([^?#]*)(\?[^#]*)?", re.I)
BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
CONDITIONS = re.compile(
    rb"^(if-match|if-unmodified-since|if-none-match|if-modified-since"
    rb"|if-range|range):(.*)\r$",
    re.IGNORECASE | re.MULTILINE,
)
RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII | re.IGNORECASE)
# An HTTP date, and two that are obsolete (RFC 9110, section 5.6.7).
DATES = (
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S %Y",
)
ETAGS = re.compile(r'(?:W/)?("[^"]*")')


class File:
    """A file in memory; let go with the last reference to it."""

    def __init__(self, path: str) -> None:
        """Open and map. Raises OSError, also if it is not a file."""
        # Not to wait: a FIFO without a writer would hold us up.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, path)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError(errno.ENOENT, path)
            self.size = found.st_size
            self.memory = None
            if self.size:  # an empty file cannot be mapped
                # Private and writable because ctypes asks for memory
                # that may be written; we do not write, so nothing is
                # copied, and no memory has to be set aside for that.
                self.memory = mmap.mmap(
                    descriptor, self.size, mmap.MAP_PRIVATE | NORESERVE,
                    mmap.PROT_READ | mmap.PROT_WRITE,
                )  # fmt: skip
        finally:
            os.close(descriptor)
        self.version = version_of(found)
        self.modified = found.st_mtime_ns // 10**9  # never rounded up
        self.etag = f'"{found.st_mtime_ns:x}-{self.size:x}"'
        extension = os.path.splitext(path)[1].lower()
        self.type = TYPES.get(extension, "application/octet-stream")


class Transfer:
    """A response in progress: a head, and a part of a file."""

    def __init__(
        self, head: bytes, file: File | None, start: int, size: int
    ) -> None:
        self.head = head
        self.memory = file.memory if file and size else None
        self.start = start
        self.size = size if self.memory else 0

    def advance(self, sent: int) -> None:
        """So many bytes more are with the kernel."""
        of_head = min(sent, len(self.head))
        self.head = self.head[of_head:]
        self.start += sent - of_head
        self.size -= sent - of_head

    def part(self) -> tuple[bytes, mmap.mmap, int, int]:
        """What to send next: head, file, from where, how much."""
        assert self.memory
        return self.head, self.memory, self.start, min(self.size, PART)

    @property
    def done(self) -> bool:
        """Is there nothing left to send?"""
        return not self.head and not self.size


class Wanted(NamedTuple):
    """What decides about the head of a response."""

    method: bytes
    connection: str  # of the response, or ""
    fields: tuple[tuple[bytes, bytes], ...]  # conditions and range


class Files:
    """The files of one directory, and nothing outside it."""

    def __init__(self, directory: str) -> None:
        self.root = os.path.realpath(directory)
        self.place = functools.lru_cache(maxsize=512)(self.find_place)
        self.open: dict[str, File] = {}  # used last comes last

    def respond(
        self, method: bytes, target: bytes, head: bytes, connection: str
    ) -> Transfer | int:
        """The response to GET or HEAD, or the status of an error.

        connection: its Connection field, "" for none.
        """
        path, slash = self.place(target)
        if not path:
            return 404
        fields = tuple(CONDITIONS.findall(head))
        wanted = Wanted(method, connection, fields)
        try:
            return respond(self.file(path), wanted)
        except IsADirectoryError:
            return failure(wanted, 301, f"Location: {slash}\r\n")
        except ValueError:  # no path at all
            return 404
        except OSError as error:  # there is none for you; or not now
            return 404 if error.errno in NOT_FOUND else 503

    def find_place(self, target: bytes) -> tuple[str, str]:
        """Where a target leads to, and the target with a slash more.

        Both are empty if it can lead nowhere.
        """
        match = TARGET.fullmatch(target.decode("latin-1"))
        path = self.locate(match[1] or "/") if match else None
        if match is None or path is None:
            return "", ""
        # Quoted: a browser takes a backslash for a slash.
        slash = urllib.parse.quote(match[1], safe=SAFE) + "/"
        return path, slash + (match[2] or "")

    def locate(self, path: str) -> str | None:
        """Where in our directory a path of a target leads to."""
        if BAD_ESCAPE.search(path) or not path.startswith("/"):
            return None
        names = [
            os.fsdecode(urllib.parse.unquote_to_bytes(name))
            for name in path[1:].split("/")
        ]
        for name in names:
            if name in (".", "..") or "/" in name or "\0" in name:
                return None
        if "" in names[:-1]:  # "//": no file is called that
            return None
        names[-1] = names[-1] or "index.html"
        return os.path.join(self.root, *names)

    def file(self, path: str) -> File:
        """The file at this path. Raises OSError if we may not tell."""
        found = self.open.pop(path, None)
        if not found or found.version != version_of(os.stat(path)):
            # Follow all symbolic links, then look where we are.
            real = os.path.realpath(path, strict=True)
            if not real.startswith(os.path.join(self.root, "")):
                raise FileNotFoundError(errno.ENOENT, path)
            found = File(real)
        self.open[path] = found  # the last one: it was used last
        if len(self.open) > OPEN_FILES:
            del self.open[next(iter(self.open))]
        return found


def version_of(found: os.stat_result) -> tuple[int, int, int, int]:
    """Changes when a file is changed, or replaced by another one."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def respond(file: File, wanted: Wanted) -> Transfer:
    """The response for a file that exists (RFC 9110, 13.2.2)."""
    start, size = 0, file.size
    status = 200
    if wanted.fields:
        fields: dict[bytes, str] = {}
        for name, value in wanted.fields:  # repeated: one list
            before = fields.get(name.lower())
            text = value.strip(b" \t").decode("latin-1")
            text = text if before is None else f"{before}, {text}"
            fields[name.lower()] = text
        status = precondition(file, fields)
        if status == 200 and wanted.method == b"GET":
            status, start, size = part(file, fields)
    if status in (412, 416):
        extra = f"Content-Range: bytes */{file.size}\r\n"
        return failure(wanted, status, extra if status == 416 else "")
    now = int(time.time())
    head = file_head(
        file.etag, file.modified, file.type, file.size, status, start,
        size, wanted.connection, now,
    )  # fmt: skip
    if wanted.method == b"HEAD" or status == 304:
        size = 0
    return Transfer(head, file, start, size)


def precondition(file: File, fields: dict[bytes, str]) -> int:
    """200, 304 or 412: do the request's conditions hold?"""
    if b"if-match" in fields:
        # Compared strongly: a weak tag never matches.
        tags = re.sub(r'W/"[^"]*"', "", fields[b"if-match"])
        if not matches(file, tags):
            return 412
    elif b"if-unmodified-since" in fields:
        date = seconds(fields[b"if-unmodified-since"])
        if date is not None and file.modified > date:
            return 412
    if b"if-none-match" in fields:
        if matches(file, fields[b"if-none-match"]):
            return 304
    elif b"if-modified-since" in fields:
        date = seconds(fields[b"if-modified-since"])
        if date is not None and file.modified <= date:
            return 304
    return 200


def matches(file: File, tags: str) -> bool:
    """Is the file's tag one of these? "*" stands for any."""
    return tags.strip() == "*" or file.etag in ETAGS.findall(tags)


@functools.lru_cache(maxsize=256)
def seconds(date: str) -> int | None:
    """An HTTP date in seconds since 1970; None if it is not one.

    A condition with an invalid date is ignored (RFC 9110, 13.1.3).
    """
    for form in DATES:
        try:
            return calendar.timegm(time.strptime(date, form))
        except ValueError:
            pass
    return None


def part(file: File, fields: dict[bytes, str]) -> tuple[int, int, int]:
    """(status, start, size): which bytes of the file are wanted.

    One range gets a response (RFC 9110, section 14.2); several, or what
    is not understood, get the whole file, as the section allows.
    """
    whole = 200, 0, file.size
    match = RANGE.fullmatch(fields.get(b"range", ""))
    if match is None or not any(match.groups()):
        return whole
    # A date does not do: the file may have changed twice in that
    # second, and the client have a part of the first (13.1.5).
    if fields.get(b"if-range") not in (None, file.etag):
        return whole
    if not match[1]:  # the last bytes
        size = min(number(match[2]), file.size)
        if not file.size and number(match[2]):
            return whole  # satisfiable, but 206 has no words for it
        start = file.size - size
    else:
        start = number(match[1])
        last = number(match[2]) if match[2] else file.size - 1
        if match[2] and last < start:  # not a range at all
            return whole
        size = min(last, file.size - 1) - start + 1
    if size <= 0:
        return 416, 0, 0
    return 206, start, size


def number(digits: str) -> int:
    """A number, or one that is larger than any file."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) < 19 else 10**18


def date_of(modified: int) -> str:
    """When the file was last changed, as an HTTP date, not later
    than now (RFC 9110, section 8.8.2.1)."""
    return formatdate(min(modified, time.time()), usegmt=True)


@functools.lru_cache(maxsize=256)
def file_head(
    etag: str, modified: int, kind: str, whole: int, status: int,
    start: int, size: int, connection: str, now: int,
) -> bytes:  # fmt: skip
    """The head for (a part of) a file, for all requests of a second."""
    lines = [
        *first_lines(status, now),
        f"ETag: {etag}",
        f"Last-Modified: {date_of(modified)}",
        "Accept-Ranges: bytes",
    ]
    if status != 304:
        lines.append(f"Content-Type: {kind}")
        lines.append(f"Content-Length: {size}")
    if status == 206:
        last = start + size - 1
        lines.append(f"Content-Range: bytes {start}-{last}/{whole}")
    return finish(lines, connection)


def failure(wanted: Wanted, status: int, field: str) -> Transfer:
    """A response with a short page and one more field."""
    title = f"{status} {HTTPStatus(status).phrase}"
    body = f"<!doctype html>\n<title>{title}</title>\n<p>{title}\n"
    lines = [
        *first_lines(status, int(time.time())),
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        field.rstrip("\r\n"),
    ]
    head = finish([line for line in lines if line], wanted.connection)
    if wanted.method != b"HEAD":
        head += body.encode()
    return Transfer(head, None, 0, 0)


def first_lines(status: int, now: int) -> list[str]:
    """The status line and the date."""
    return [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Date: {formatdate(now, usegmt=True)}",
    ]


def finish(lines: list[str], connection: str) -> bytes:
    """A head as bytes."""
    if connection:
        lines = [*lines, f"Connection: {connection}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
