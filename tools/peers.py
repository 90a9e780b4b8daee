"""The list of peers: other people's servers, measured beside ours.

``./bench.sh --peers NAMES`` measures them, the site shows the figures.
Adding one is an entry in PEERS (and a function in tools/bench/peers/on.py).
"""

from dataclasses import dataclass

PYTHON = "{python}"  # the interpreter of the peers' own environment
APP = "tools.bench.peers.page"


@dataclass(frozen=True)
class Peer:
    """One server with the same page, started with one worker.

    name: what users type, as in ``--peers nginx,node``; title: a few
    words; about: what it is, in a sentence; start: its command line, from
    the root of the repository, with {python}, {host}, {port}, {folder}
    (an empty folder of its own), {ours} (the interpreter of the tools) and
    {site} (a folder to serve) to be filled in; packages: what pip has
    to install for it; module: what must then be importable; get: how to
    get its program, if it is not a Python package.
    """

    name: str
    title: str
    about: str
    start: tuple[str, ...]
    packages: tuple[str, ...] = ()
    module: str = ""
    get: str = ""

    @property
    def is_python(self) -> bool:
        """True if it runs in the peers' own Python environment."""
        return self.start[0] == PYTHON


def _on(name: str, title: str, about: str, *packages: str) -> Peer:
    """A peer that is a function of tools/bench/peers/on.py."""
    start = (PYTHON, "-m", "tools.bench.peers.on", "{host}", "{port}", name)
    return Peer(name, title, about, start, packages, name)


def _app(name: str, about: str, start: str, *packages: str) -> Peer:
    """A peer that runs an application; start: behind ``python -m NAME``."""
    words = (PYTHON, "-m", name, *start.split(), "--backlog", "4096")
    return Peer(name, f"{name} (ASGI)", about, words, (name, *packages), name)


PEERS = (
    Peer(
        "nginx", "nginx, return 200",
        "The web server in C that others are compared with.",
        ("nginx", "-p", "{folder}", "-e", "stderr", "-c", "nginx.conf"),
        get="apt install nginx-light, or brew install nginx",
    ),
    Peer(
        "node", "Node's http", "JavaScript's event loop, libuv.",
        ("node", "tools/bench/peers/node.js", "{host}", "{port}"),
        get="apt install nodejs, or brew install node",
    ),
    _on("asyncio", "asyncio.Protocol by hand",
        "The standard library's event loop with the least HTTP that does."),
    _on("uvloop", "asyncio.Protocol by hand, on uvloop",
        "asyncio's interface on libuv, written in Cython.", "uvloop"),
    _on("trio", "trio's streams by hand",
        "An event loop of its own with structured concurrency.", "trio"),
    _on("tornado", "Tornado",
        "A web framework with its own HTTP server.", "tornado"),
    _on("gevent", "gevent, pywsgi",
        "Blocking code that switches wherever it would wait.", "gevent"),
    _on("eventlet", "eventlet, wsgi",
        "Greenlets too, the older of the two.", "eventlet"),
    _app(
        "uvicorn", "Here with httptools on uvloop.",
        f"{APP}:asgi --host {{host}} --port {{port}} --workers 1 "
        "--loop uvloop --http httptools --lifespan off --no-access-log "
        "--log-level warning", "uvloop", "httptools",
    ),
    _app(
        "granian", "A server in Rust.",
        f"{APP}:asgi --interface asgi --host {{host}} --port {{port}} "
        "--workers 1 --no-access-log --log-level warning", "uvloop",
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
