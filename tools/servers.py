"""The one list of servers. Tests, bench and site read it; nothing else does.

docs/reference/house.md says what else a new server needs. SKETCHES stand
beside it: they are measured and tried like servers, and promise nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

YES = "yes"
NO = "no"
POOL = "up to the pool"  # yes for as many clients as there are threads

# The table of lessons: what a step can do that the one before could not.
LESSONS = {
    "silent": "a silent client does not hold up the others",
    "overlap": "waiting overlaps: n clients in about one delay",
    "threads": "threads stay the same from 1 to 200 clients",
    "keep_alive": "keeps connections open (keep-alive)",
    "cores": "computing uses every core",
    "batching": "system calls per request fall below one as load grows",
}


@dataclass(frozen=True)
class Server:
    """One server file and what it promises.

    name: what users type, as in ``--only 03-pool``; step: its folder's;
    file: its path from the root of the repository; title: a few words;
    waits: how it waits, for chart labels; lessons: a value of YES, NO or
    POOL for each key of LESSONS, in the order of LESSONS; workers: how
    many it is recorded with, the same on every machine, 0 if it takes no
    ``--workers``; options: what its command line needs to be
    this variant; exempt: names of rules of the contract
    (``tools/rules.py``) that do not hold for it, each with the reason;
    kept_since: of these, what holds from a version of Python on.
    """

    name: str
    step: int
    file: str
    title: str
    waits: str
    lessons: dict[str, str]
    workers: int = 0
    options: tuple[str, ...] = ()
    exempt: tuple[tuple[str, str], ...] = ()
    kept_since: tuple[tuple[str, tuple[int, int]], ...] = ()

    @property
    def path(self) -> Path:
        """The server's file."""
        return ROOT / self.file

    @property
    def exemptions(self) -> dict[str, str]:
        """Rule name -> why it does not hold here, or did not before."""
        since = {
            name: f" (until Python {major}.{minor - 1})"
            for name, (major, minor) in self.kept_since
        }
        return {n: why + since.get(n, "") for n, why in self.exempt}

    def is_exempt(self, rule: str, python: Sequence[int]) -> bool:
        """Does this rule not hold with this version of Python?"""
        since = dict(self.kept_since).get(rule)
        return rule in self.exemptions and (
            since is None or tuple(python) < since
        )


def _lessons(*values: str) -> dict[str, str]:
    return dict(zip(LESSONS, values, strict=True))


# Step 01 stays as short as http.server lets it be. What that lets pass is
# part of its lesson; each of these is a test that has to fail.
HTTP_SERVER_LETS_PASS = (
    ("no-host", "http.server does not look at Host"),
    ("two-hosts", "http.server does not look at Host"),
    ("space-before-colon", "it reads the head as an e-mail's, leniently"),
    ("obs-fold", "it reads the head as an e-mail's, and unfolds lines"),
    ("nul", "http.server lets NUL pass"),
    ("bare-cr", "a bare CR is part of the value for it"),
    ("bare-lf", "a bare LF is a line end for it"),
    ("bad-method", "it answers 501 to any word that it does not know"),
    ("bad-name", "it passes over lines that it does not understand"),
    ("spaces", "it splits the request line at any white space"),
    ("bad-length", "it leaves Content-Length to the handler"),
    ("two-lengths", "it leaves Content-Length to the handler"),
    ("coding-and-length", "it looks at neither of the two"),
    ("coding", "it does not look at Transfer-Encoding"),
    ("version", "it takes this for HTTP/0.9: a page, no status line"),
    ("no-version", "it takes GET / for HTTP/0.9: a page, no status line; "
     "until Python 3.13 it answers other nonsense likewise"),
    ("long-line", "its own limit for a line is 64 KiB"),
    ("long-head", "it limits each line, not the head"),
    ("many-fields", "it counts the empty line as a field: 99, not 100"),
    ("limit-at-once", "it reads whole lines before it looks at them"),
    ("empty-line", "an empty line ends the connection for it"),
    ("dribble", "its time-out begins again with each byte"),
    ("nonsense", "it answers some requests without a status line"),
    ("well-written", "it says HTTP/1.0, and Connection twice in errors"),
    ("later-version", "it answers in HTTP/1.0, whatever it was asked in"),
    ("bad-host", "http.server does not look at Host"),
    ("bad-target", "it leaves the target to the handler"),
    ("misdirected", "it leaves the target to the handler"),
    ("explained", "it takes most of these for requests"),
    ("refused-head", "it takes most of these for requests"),
)
# What http.server keeps all the same, from this version of Python on.
HTTP_SERVER_KEEPS = (("many-fields", (3, 15)),)

SERVERS = (
    Server(
        "01", 1, "01_httpserver/server.py",
        "http.server, one request at a time", "one at a time",
        _lessons(NO, NO, YES, NO, NO, NO),
        exempt=HTTP_SERVER_LETS_PASS, kept_since=HTTP_SERVER_KEEPS,
    ),
    Server(
        "02", 2, "02_sockets/server.py",
        "a blocking socket by hand", "one at a time",
        _lessons(NO, NO, YES, NO, NO, NO),
    ),
    Server(
        "03", 3, "03_threading/server.py",
        "one thread per connection", "a thread each",
        _lessons(YES, YES, NO, YES, NO, NO),
    ),
    Server(
        "03-pool", 3, "03_threading/pool.py",
        "a fixed pool of threads", "ten threads",
        _lessons(POOL, POOL, YES, YES, NO, NO), workers=10,
    ),
    Server(
        "04", 4, "04_selectors/server.py",
        "one thread, many sockets; the work blocks", "readiness",
        _lessons(YES, NO, YES, YES, NO, NO),
    ),
    Server(
        "05", 5, "05_timer/server.py",
        "the same loop, its timers in a heap", "a heap of timers",
        _lessons(YES, YES, YES, YES, NO, NO),
    ),
    Server(
        "05-threads", 5, "05_timer/threads.py",
        "the same loop, a Timer thread per wait", "a timer thread each",
        _lessons(YES, YES, NO, YES, NO, NO),
    ),
    Server(
        "06", 6, "06_asyncio/server.py",
        "coroutines on asyncio streams", "await",
        _lessons(YES, YES, YES, YES, NO, NO),
    ),
    Server(
        "06-executor", 6, "06_asyncio/executor.py",
        "blocking work in an executor", "the executor's threads",
        _lessons(YES, POOL, POOL, YES, NO, NO), workers=6,
    ),
    Server(
        "06-protocol", 6, "06_asyncio/protocol.py",
        "callbacks on asyncio.Protocol", "callbacks",
        _lessons(YES, YES, YES, YES, NO, NO),
    ),
    Server(
        "06-coroutines", 6, "06_asyncio/coroutines.py",
        "coroutines on a loop of our own", "await, our loop",
        _lessons(YES, YES, YES, YES, NO, NO),
    ),
    Server(
        "07", 7, "07_parallel/server.py",
        "completions, a worker per core", "completions",
        _lessons(YES, YES, YES, YES, YES, YES), workers=2,
    ),
    Server(
        "07-emulated", 7, "07_parallel/server.py",
        "the same without io_uring", "completions",
        # A selector underneath still makes a call for each receive
        # and each send.
        _lessons(YES, YES, YES, YES, YES, NO), workers=2,
        options=("--engine", "emulated"),
    ),
)

STEPS = range(1, SERVERS[-1].step + 1)

# The sketch in front of each server.py, tried as that server is.
SKETCHES = tuple(
    replace(
        server, name=f"{server.name}-sketch", file="tools/sketch.py",
        title=f"the sketch of {server.name}", workers=0, exempt=(),
        options=(server.file.replace("server.py", "sketch.py"),),
    )
    for server in SERVERS if server.name.isdecimal()
)


def by_name(name: str) -> Server:
    """The server or sketch called name. Raises KeyError if there is none."""
    return {one.name: one for one in (*SERVERS, *SKETCHES)}[name]


def select(
    words: str, among: Sequence[Server] = SERVERS
) -> list[Server]:
    """Servers for a list like ``03,06-protocol`` in the order of ``among``.

    A bare number takes every server of its step (``03``: 03 and
    03-pool; ``3`` too), a full name one. Raises ValueError with a
    sentence for a word that names nothing.
    """
    chosen: set[str] = set()
    for word in filter(None, (part.strip() for part in words.split(","))):
        if word.isdecimal():
            found = {
                s.name for s in among
                if s.step == int(word) and s not in SKETCHES
            }
        else:
            found = {s.name for s in among if s.name == word}
        if not found:
            names = ", ".join(s.name for s in among)
            raise ValueError(
                f"no server is called {word!r}; there are {names}"
            )
        chosen |= found
    return [s for s in among if s.name in chosen]
