"""The list of peers: other people's servers, measured beside ours.

``./bench.sh --peers NAMES`` measures them, the site shows the figures.
Adding one is an entry in PEERS (and a function in tools/bench/peers/on.py).
"""

from dataclasses import dataclass

PYTHON = "{python}"  # the interpreter of the peers' own environment
FILES = "tools.bench.peers"
APP = f"{FILES}.page"


@dataclass(frozen=True)
class Peer:
    """One server with the same page, started with one worker.

    name: what users type, as in ``--peers nginx,node``; title: a few
    words; start: its command line, from the root of the repository, with
    {python}, {host}, {port}, {folder} (an empty folder of its own), {ours}
    (the interpreter of the tools) and {site} (a folder to serve) to be
    filled in; packages: what pip has to install for it; get: how to get
    its program, if it is not a Python package.
    """

    name: str
    title: str
    start: tuple[str, ...]
    packages: tuple[str, ...] = ()
    get: str = ""

    @property
    def is_python(self) -> bool:
        """True if it runs in the peers' own Python environment."""
        return self.start[0] == PYTHON


def by_hand(
    file: str, name: str, title: str, packages: tuple[str, ...] = ()
) -> Peer:
    """A peer that is a function called name in a file of ours."""
    start = (PYTHON, "-m", f"{FILES}.{file}", name, "{host}", "{port}")
    return Peer(name, title, start, packages)


def node(file: str, title: str) -> Peer:
    """A peer that is a file of ours in JavaScript."""
    start = ("node", f"tools/bench/peers/{file}", "{host}", "{port}")
    get = "apt install nodejs, or brew install node"
    return Peer("node", title, start, get=get)


def _app(name: str, title: str, start: str, *more: str) -> Peer:
    """A peer that runs an application; start: behind ``python -m NAME``."""
    words = (PYTHON, "-m", name, *start.split(), "--backlog", "4096")
    return Peer(name, title, words, (name, *more))


PEERS = (
    Peer(
        "nginx", "nginx, return 200",
        ("nginx", "-p", "{folder}", "-e", "stderr", "-c", "nginx.conf"),
        get="apt install nginx-light, or brew install nginx",
    ),
    node("node.js", "Node's http"),
    by_hand("on", "asyncio", "asyncio.Protocol by hand"),
    by_hand(
        "on", "uvloop", "asyncio.Protocol by hand, on uvloop", ("uvloop",)
    ),
    by_hand("on", "trio", "trio's streams by hand", ("trio",)),
    by_hand("on", "tornado", "Tornado", ("tornado",)),
    by_hand("on", "gevent", "gevent, pywsgi", ("gevent",)),
    by_hand("on", "eventlet", "eventlet, wsgi", ("eventlet",)),
    _app(
        "uvicorn", "uvicorn (ASGI)",
        f"{APP}:asgi --host {{host}} --port {{port}} --workers 1 "
        "--loop uvloop --http httptools --lifespan off --no-access-log "
        "--log-level warning", "uvloop", "httptools",
    ),
    _app(
        "granian", "granian (ASGI)",
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
