"""``./bench.sh labs wsgi``: what does WSGI cost?

The two loads of `labs.chain` on servers with the least HTTP that does, and
on WSGI servers with the same loops and the same pages, in turns.
"""

from labs.chain import measure as chain
from tools.bench.session import Option, Session
from tools.peers import PYTHON, Peer

HELP = (
    "coroutines.py, gevent and eventlet with and without WSGI, and waitress, "
    "with the load of 2010 (about 10 minutes)"
)
SUITE = "labs-wsgi"
OPTIONS: tuple[Option, ...] = ()  # those of the lab chain: --fetches ...


def _wsgi(name: str, title: str, *words: str, get: str = "") -> Peer:
    start = (PYTHON, "-m", *words[:1], "{host}", "{port}", *words[1:])
    packages = (get,) if get else ()
    return Peer(f"{name}-wsgi", title, "", start, packages, get or "socket")


PLAIN = [chain.PEERS[name] for name in ("coroutines", "gevent", "eventlet")]
WSGI = [
    _wsgi("coroutines", "our own loop", "labs.wsgi.on_coroutines"),
    _wsgi("gevent", "pywsgi", "labs.wsgi.on", "gevent", get="gevent"),
    _wsgi("eventlet", "wsgi", "labs.wsgi.on", "eventlet", get="eventlet"),
    _wsgi("waitress", "threads", "labs.wsgi.on", "waitress", get="waitress"),
]


def measure(session: Session) -> int:
    """Every server, with both loads."""
    return chain.compare(session, [*PLAIN, *WSGI], SUITE)
