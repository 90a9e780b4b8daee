"""The list of peers: other people's servers, measured beside ours.

``./bench.sh --peers NAMES`` measures them, the site shows the figures.
Adding one is an entry in PEERS (and a file in tools/bench/peers).
"""

from dataclasses import dataclass

PYTHON = "{python}"  # the interpreter of the peers' own environment
ON = "tools.bench.peers.on_"
APP = "tools.bench.peers.app"


@dataclass(frozen=True)
class Peer:
    """One server with the same page, started with one worker.

    name: what users type, as in ``--peers nginx,node``; title: a few
    words; about: what it is, in a sentence; start: its command line, from
    the root of the repository, with {python}, {host}, {port}, {folder}
    (an empty folder of its own), {ours} (the interpreter of the tools) and
    {site} (a folder to serve) to be filled in; packages: what pip has
    to install for it; module: what must then be importable; get: how to
    get its program, if it is not a Python package; since: the oldest
    Python it runs on.
    """

    name: str
    title: str
    about: str
    start: tuple[str, ...]
    packages: tuple[str, ...] = ()
    module: str = ""
    get: str = ""
    since: tuple[int, int] = (3, 11)

    @property
    def is_python(self) -> bool:
        """True if it runs in the peers' own Python environment."""
        return self.start[0] == PYTHON


def _script(name: str, title: str, about: str) -> Peer:
    """A peer that is tools/bench/peers/on_NAME.py."""
    start = (PYTHON, "-m", ON + name, "{host}", "{port}")
    return Peer(name, title, about, start, (name,), name)


def _app(
    name: str, title: str, about: str, start: str, *packages: str
) -> Peer:
    """A peer that runs an application; start: behind ``python -m``."""
    words = (PYTHON, "-m", *start.split(), "--backlog", "4096")
    return Peer(name, title, about, words, (name, *packages), name)


def _loop(name: str, about: str, since: tuple[int, int] = (3, 11)) -> Peer:
    """That of asyncio on another event loop."""
    start = (PYTHON, "-m", f"{ON}asyncio", "{host}", "{port}", name)
    title = f"asyncio.Protocol by hand, on {name}"
    return Peer(name, title, about, start, (name,), name, since=since)


PEERS = (
    Peer(
        "nginx", "nginx, return 200",
        "The web server in C that others are compared with; the page is "
        "in its configuration.",
        ("nginx", "-p", "{folder}", "-e", "stderr", "-c", "nginx.conf"),
        get="apt install nginx-light, or brew install nginx",
    ),
    Peer(
        "node", "Node's http",
        "JavaScript's event loop, libuv, with its own HTTP server.",
        ("node", "tools/bench/peers/node.js", "{host}", "{port}"),
        get="apt install nodejs, or brew install node",
    ),
    Peer(
        "asyncio", "asyncio.Protocol by hand",
        "The standard library's event loop with the least HTTP that does.",
        (PYTHON, "-m", f"{ON}asyncio", "{host}", "{port}"),
        module="asyncio",
    ),
    _loop("uvloop", "asyncio's interface on libuv, written in Cython."),
    _loop(
        "blazio", "asyncio's interface on io_uring, written in Zig.",
        (3, 12),
    ),
    _script(
        "trio", "trio's streams by hand",
        "An event loop of its own with structured concurrency, written in "
        "Python.",
    ),
    _script(
        "tornado", "Tornado",
        "A web framework with its own HTTP server on asyncio's loop.",
    ),
    _script(
        "aiohttp", "aiohttp",
        "A web framework on asyncio's loop, its HTTP parser in C.",
    ),
    _script(
        "gevent", "gevent, pywsgi",
        "Greenlets: blocking code that switches wherever it would wait.",
    ),
    _script(
        "eventlet", "eventlet, wsgi",
        "Greenlets too, the older of the two.",
    ),
    _app(
        "uvicorn", "uvicorn (ASGI)",
        "Runs ASGI applications, here with httptools on uvloop.",
        f"uvicorn {APP}:asgi --host {{host}} --port {{port}} --workers 1 "
        "--loop uvloop --http httptools --lifespan off --no-access-log "
        "--log-level warning", "uvloop", "httptools",
    ),
    _app(
        "granian", "granian (ASGI)",
        "Runs ASGI applications on a server in Rust.",
        f"granian {APP}:asgi --interface asgi --host {{host}} "
        "--port {port} --workers 1 --no-access-log --log-level warning",
        "uvloop",
    ),
    _app(
        "gunicorn", "gunicorn (WSGI), four threads",
        "Runs WSGI applications in processes; with threads, because its "
        "plain worker keeps no connection open.",
        f"gunicorn {APP}:wsgi --bind {{host}}:{{port}} --workers 1 "
        "--worker-class gthread --threads 4 --keep-alive 60 "
        "--log-level warning",
    ),
)


def by_name(name: str) -> Peer:
    """The peer called name. Raises KeyError if there is none."""
    return {peer.name: peer for peer in PEERS}[name]


def select(names: str) -> list[Peer]:
    """The peers in a list such as "nginx,node"; "all" means all of them.

    Raises ValueError with a sentence if one does not exist, or there is
    none in the list.
    """
    wanted = {name.strip() for name in names.split(",")} - {""}
    known = [peer.name for peer in PEERS]
    if not wanted:
        raise ValueError("--peers names no peer")
    for name in sorted(wanted - {"all", *known}):
        raise ValueError(
            f"no peer is called {name!r}; there are {', '.join(known)}, "
            "and all"
        )
    return [p for p in PEERS if "all" in wanted or p.name in wanted]
