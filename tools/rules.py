"""The rules every server obeys, each with the place to read about it.

Tests name their rule (``@rule("bare-lf")``), a failure shows it, and
``exempt`` in tools/servers.py lists the rules that do not hold for a
server, by these names.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """One promise of the contract: its part, its text, where to read."""

    part: str
    text: str
    where: str


def _part(part: str, rules: dict[str, tuple[str, str]]) -> dict[str, Rule]:
    return {name: Rule(part, *rule) for name, rule in rules.items()}


RULES: dict[str, Rule] = _part("Running", {
    "help": (
        "--help explains every option, with its unit and default",
        "contract, Running",
    ),
    "usage": (
        "nonsense options give one sentence and exit status 2",
        "contract, Running",
    ),
    "port-in-use": (
        "a port that is taken gives one sentence and exit status 1",
        "man 2 bind, EADDRINUSE",
    ),
    "ready-line": (
        "when ready, and only then, one flushed line says where",
        "contract, Running",
    ),
    "only-local": (
        "listens on 127.0.0.1 unless told otherwise",
        "contract, Running",
    ),
    "stop": (
        "SIGINT and SIGTERM stop an idle server, exit status 0",
        "man 7 signal",
    ),
    "stop-open": (
        "open connections without a request do not hold up the end",
        "RFC 9112, section 9.6",
    ),
    "stop-finishes": (
        "requests under way are answered before the server ends",
        "RFC 9112, section 9.6",
    ),
    "stop-refuses": (
        "who comes after the signal is not served",
        "contract, Running",
    ),
    "stop-late": (
        "a request that takes longer is cut 5 s after the signal",
        "contract, Running",
    ),
    "stop-twice": (
        "a second signal stops at once",
        "contract, Running",
    ),
    "closing-line": (
        "the last line counts requests, connections, CPU and memory",
        "man 2 getrusage",
    ),
    "restart": (
        "starting again on the same port at once works",
        "man 7 socket, SO_REUSEADDR",
    ),
}) | _part("Answering", {
    "page": (
        "GET / is answered 200 with an HTML page of 249 bytes",
        "RFC 9110, section 9.3.1",
    ),
    "same-page": (
        "the page is the same, byte for byte, at every step",
        "contract, Answering",
    ),
    "work": (
        "a page takes --delay seconds and --compute iterations",
        "contract, Answering",
    ),
    "date": (
        "Date is there and right",
        "RFC 9110, section 6.6.1",
    ),
    "head": (
        "HEAD gets the head GET would get, and no body",
        "RFC 9110, section 9.3.2",
    ),
    "query": (
        "the query string is ignored",
        "RFC 3986, section 3.4",
    ),
    "not-found": (
        "another path is answered 404",
        "RFC 9110, section 15.5.5",
    ),
    "not-allowed": (
        "another known method is answered 405 with Allow: GET, HEAD",
        "RFC 9110, section 15.5.6",
    ),
    "not-implemented": (
        "an unknown method is answered 501",
        "RFC 9110, section 15.6.2",
    ),
    "options": (
        "OPTIONS * is answered 405 or 200",
        "RFC 9110, section 9.3.7",
    ),
    "errors": (
        "errors have a short HTML body, its length, and no delay",
        "RFC 9110, section 15.5",
    ),
    "absolute-form": (
        "GET http://host/ is GET /",
        "RFC 9112, section 3.2.2",
    ),
    "percent": (
        "percent-encoded variants of / reach no other path",
        "RFC 3986, section 2.1; RFC 9110, section 4.2.3",
    ),
    "keep-11": (
        "HTTP/1.1 keeps the connection (01 and 02: always closes)",
        "RFC 9112, section 9.3",
    ),
    "close-11": (
        "HTTP/1.1 closes after Connection: close, in any list and case",
        "RFC 9110, section 7.6.1",
    ),
    "close-10": (
        "HTTP/1.0 closes after the answer",
        "RFC 9112, section 9.3",
    ),
    "keep-10": (
        "HTTP/1.0 keeps on Connection: keep-alive and says so",
        "RFC 9112, section 9.3; RFC 2068, section 19.7.1",
    ),
    "pipelining": (
        "pipelined requests are answered in order, each completely",
        "RFC 9112, section 9.3.2",
    ),
    "bytewise": (
        "bytes arriving one at a time give the same answers",
        "RFC 9112, section 2.2",
    ),
    "pieces": (
        "bytes arriving in any pieces give the same answers",
        "RFC 9112, section 2.2",
    ),
    "empty-line": (
        "an empty line before the request line is skipped",
        "RFC 9112, section 2.2",
    ),
    "half-close": (
        "a client that half-closes still gets its answers",
        "man 2 shutdown; RFC 9112, section 9.6",
    ),
}) | _part("Refusing", {
    "no-host": (
        "HTTP/1.1 without Host is answered 400",
        "RFC 9112, section 3.2",
    ),
    "two-hosts": (
        "several Host fields are answered 400",
        "RFC 9112, section 3.2",
    ),
    "space-before-colon": (
        "white space before a colon is answered 400",
        "RFC 9112, section 5.1",
    ),
    "obs-fold": (
        "a folded line is answered 400",
        "RFC 9112, section 5.2",
    ),
    "nul": (
        "NUL in the head is answered 400",
        "RFC 9110, section 5.5",
    ),
    "bare-cr": (
        "a CR without LF in the head is answered 400",
        "RFC 9112, section 2.2",
    ),
    "bare-lf": (
        "an LF without CR as a line end is answered 400",
        "RFC 9112, section 2.2",
    ),
    "bad-method": (
        "a method that is not a token is answered 400",
        "RFC 9110, sections 5.6.2 and 9.1",
    ),
    "bad-name": (
        "a field name that is not a token is answered 400",
        "RFC 9110, sections 5.1 and 5.6.2",
    ),
    "spaces": (
        "several spaces in the request line are answered 400",
        "RFC 9112, section 3",
    ),
    "bad-length": (
        "a Content-Length that is not digits is answered 400",
        "RFC 9110, section 8.6; RFC 9112, section 6.3",
    ),
    "two-lengths": (
        "Content-Length fields that differ are answered 400",
        "RFC 9112, section 6.3",
    ),
    "coding-and-length": (
        "Transfer-Encoding with Content-Length is answered 400",
        "RFC 9112, section 6.1",
    ),
    "version": (
        "a version that is not HTTP/1.x is answered 505",
        "RFC 9110, section 15.6.6",
    ),
    "no-version": (
        "gibberish instead of a version is answered 400",
        "RFC 9112, section 2.3",
    ),
    "long-line": (
        "a request line over 8 KiB is answered 414",
        "RFC 9112, section 3; RFC 9110, section 15.5.15",
    ),
    "long-head": (
        "a head over 16 KiB is answered 431",
        "RFC 6585, section 5",
    ),
    "many-fields": (
        "a head of over 100 fields is answered 431",
        "RFC 6585, section 5",
    ),
    "limit-at-once": (
        "the limits hold while bytes arrive, not after all have come",
        "RFC 9112, section 3; RFC 6585, section 5",
    ),
    "body": (
        "a body is never read as a request; its answer closes",
        "RFC 9112, sections 6.3 and 9.6",
    ),
    "expect": (
        "Expect: 100-continue gets the final answer and no 100",
        "RFC 9110, section 10.1.1",
    ),
    "whole-refusal": (
        "a refused client that sent too much reads the whole answer",
        "RFC 9112, section 9.6",
    ),
    "drain-ends": (
        "what a refused client goes on sending is read for a moment only",
        "RFC 9112, section 9.6",
    ),
}) | _part("Standing up to clients", {
    "silent": (
        "who connects and says nothing is dropped after 10 s",
        "RFC 9110, section 15.5.9",
    ),
    "dribble": (
        "who sends a byte a second is dropped 10 s after its first",
        "RFC 9110, section 15.5.9",
    ),
    "idle": (
        "a kept connection is dropped after 5 s without a request",
        "RFC 9112, section 9.5",
    ),
    "spare": (
        "a browser's spare, silent connection costs 10 s at most",
        "RFC 9112, section 9.4",
    ),
    "reset": (
        "resets at any moment leave nothing behind and harm nobody",
        "man 7 tcp, ECONNRESET; man 7 socket, SO_LINGER",
    ),
    "slow-reader": (
        "who never reads costs little memory and is dropped in 10 s",
        "man 2 send, EAGAIN",
    ),
    "no-descriptors": (
        "without free descriptors it waits, and goes on when some are",
        "man 2 accept, EMFILE",
    ),
    "nonsense": (
        "10,000 damaged requests: each an answer or a close, no harm",
        "RFC 9112, section 2.2",
    ),
    "never-mixed": (
        "every client gets its own answers, whatever the others send",
        "RFC 9112, section 9.3.2",
    ),
    "worker-killed": (
        "07: a killed worker is replaced and the others go on",
        "man 2 waitpid",
    ),
    "parent-killed": (
        "07: a killed parent leaves no worker behind",
        "man 2 PR_SET_PDEATHSIG; man 2 pipe",
    ),
}) | _part("Files", {
    "file": (
        "--directory: a file comes byte for byte, with its type",
        "RFC 9110, sections 8.3, 8.6 and 9.3.1",
    ),
    "file-head": (
        "a file has a date, a strong tag and Accept-Ranges; HEAD the same",
        "RFC 9110, sections 8.8, 9.3.2 and 14.3",
    ),
    "file-name": (
        "a path is percent-decoded once, its query is ignored",
        "RFC 3986, sections 2.1 and 3.4",
    ),
    "file-no-work": (
        "files do not wait and do not compute",
        "contract, Answering",
    ),
    "file-keep": (
        "files obey the rules for keeping connections and pipelines",
        "RFC 9112, section 9.3",
    ),
    "file-large": (
        "a large file comes whole, however slowly it is read",
        "man 2 sendmsg; man 2 mmap",
    ),
    "file-left": (
        "who leaves in the middle of a file leaves nothing behind",
        "man 7 tcp, ECONNRESET",
    ),
    "file-changes": (
        "what changes on disk shows with the next request",
        "RFC 9110, section 8.8",
    ),
    "file-under-way": (
        "a file that changes while it is sent harms nobody",
        "RFC 9112, section 8; man 2 mmap, SIGBUS",
    ),
    "index": (
        "a directory is its index.html, never a listing",
        "RFC 3986, section 3.3",
    ),
    "moved": (
        "a directory without its slash is answered 301, on this server",
        "RFC 9110, sections 10.2.2 and 15.4.2; RFC 3986, section 4.2",
    ),
    "no-way-out": (
        "no path leads out of the directory",
        "RFC 9110, section 17.3; man 7 symlink",
    ),
    "only-files": (
        "what is not a regular file is answered 404, and nobody waits",
        "man 7 inode; man 7 fifo",
    ),
    "if-none-match": (
        "If-None-Match with the tag, weakly compared, is answered 304",
        "RFC 9110, sections 13.1.2 and 15.4.5",
    ),
    "if-modified-since": (
        "If-Modified-Since is answered 304 unless the file is newer",
        "RFC 9110, sections 5.6.7 and 13.1.3",
    ),
    "if-match": (
        "If-Match without the tag, strongly compared, is answered 412",
        "RFC 9110, sections 13.1.1 and 13.1.4",
    ),
    "if-order": (
        "several conditions are judged in the order of the RFC",
        "RFC 9110, section 13.2.2",
    ),
    "range": (
        "one range of bytes is answered 206 with these bytes",
        "RFC 9110, sections 14.1.2, 14.4 and 15.3.7",
    ),
    "range-beyond": (
        "a range behind the end is answered 416 with the size",
        "RFC 9110, sections 14.4 and 15.5.17",
    ),
    "range-ignored": (
        "several ranges, other units and nonsense get the whole file",
        "RFC 9110, section 14.2",
    ),
    "if-range": (
        "If-Range gives the part of this very file, else the whole",
        "RFC 9110, section 13.1.5",
    ),
    "file-errors": (
        "with files, other methods and requests are refused as always",
        "RFC 9110, sections 15.5.6 and 15.6.2",
    ),
    "file-descriptors": (
        "without free descriptors for files it survives, and goes on",
        "man 2 open, EMFILE",
    ),
    "directory": (
        "--directory must name a directory: else one sentence, status 2",
        "contract, Running",
    ),
}) | _part("Engines and workers", {
    "engine": (
        "--engine takes the one asked for, or says why it cannot",
        "man 2 io_uring_setup",
    ),
    "engine-auto": (
        "where io_uring is forbidden, one sentence says what is used",
        "man 2 io_uring_setup, EPERM; man 2 seccomp",
    ),
    "engine-error": (
        "a real error is shown and not hidden by another engine",
        "man 2 io_uring_setup, ENOMEM and EMFILE",
    ),
    "worker-kind": (
        "workers are processes with a GIL, threads without, or as asked",
        "PEP 703",
    ),
    "worker-replaced": (
        "while a killed worker is replaced, no client is turned away",
        "man 7 socket, SO_REUSEPORT; man 2 waitpid",
    ),
    "worker-unable": (
        "a worker that cannot start ends the server with one sentence",
        "man 2 getrlimit, RLIMIT_NOFILE",
    ),
})
