"""``./bench.sh labs chain``: coroutine servers, measured as in 2010.

Each serves a page with a number by the least HTTP that does, on its
library's sockets, so that the loops are compared. Two loads, as in the
Syncless benchmark: 100,000 requests of 100 clients with ab, and 10,000
fetches one after the other, each of the number in the last response. What
number the chain ends at is known: nothing can be skipped.
"""

import re
import socket
import time
from functools import partial

from labs.chain.number import BODY, FIRST, following
from tools.bench.ab import Load
from tools.bench.cost import Meter
from tools.bench.peers import start
from tools.bench.server import ServerError
from tools.bench.session import Refused, Session, number_option, some_of
from tools.bench.table import figure, spread
from tools.data.results import Point, Run
from tools.peers import PYTHON, Peer

HELP = (
    "coroutines.py, asyncio, gevent, eventlet, tornado and node with the "
    "load of 2010 (about 8 minutes)"
)
SUITE = "labs-chain"
FETCHES = 10_000
REQUESTS = 100_000
CLIENTS = 100
REPEATS = 3
WARM_UP = 200  # fetches
FETCH_SECONDS = 10.0  # for one response of the chain
# Whatever fields a server adds, there are no bytes around the page.
PAGE = re.compile(
    rb"HTTP/1\.[01] 200 OK\r\n(?:[^\r\n]+\r\n)*\r\n"
    + re.escape(BODY).replace(b"%d", rb"(\d+)")
)
RECV_SIZE = 4096
ON = "labs.chain.on_"


def _python(name: str, how: str, *packages: str) -> Peer:
    words = (PYTHON, "-m", ON + name, "{host}", "{port}")
    module = packages[0] if packages else "socket"
    return Peer(name, how, "", words, packages, module)


# The servers of the comparison; their title says what each is on.
PEERS = {
    peer.name: peer
    for peer in (
        _python("coroutines", "our own loop"),
        _python("asyncio", "streams"),
        _python("gevent", "StreamServer", "gevent"),
        _python("eventlet", "green threads", "eventlet"),
        _python("tornado", "IOStream", "tornado"),
        Peer(
            "node", "net", "",
            ("node", "labs/chain/on_node.js", "{host}", "{port}"),
            get="apt install nodejs, or brew install node",
        ),
    )
}


OPTIONS = (
    ("--servers", {
        "metavar": "LIST", "type": some_of([*PEERS], "server"),
        "default": tuple(PEERS), "help": f"only these of {', '.join(PEERS)}",
    }),
    number_option("--fetches", 1, 10**7, FETCHES, "one after the other"),
    number_option("--requests", 1, 10**8, REQUESTS, "at the same time"),
    number_option("--chain-clients", 1, 10_000, CLIENTS, "that make them"),
)  # fmt: skip


def measure(session: Session) -> int:
    """Every server, with both loads."""
    peers = [PEERS[name] for name in session.options.servers]
    return compare(session, peers, SUITE)


def compare(session: Session, peers: list[Peer], suite: str) -> int:
    """These servers in turns, and a table; the exit status.

    Raises Refused.
    """
    options = session.options
    load = Load(options.chain_clients, options.requests)
    if load.clients > load.requests:
        raise Refused(
            f"{load.clients} clients cannot share {load.requests} requests"
        )
    missing = start.missing(peers, session.say)
    there = [peer for peer in peers if peer.name not in missing]
    session.results.tools.update(start.versions(there))
    points = {
        p.name: Point(p.name, suite, load.clients, 0.0, variant=p.title)
        for p in peers
    }
    session.rounds([
        (points[p.name],
         partial(measure_one, session, p, options.fetches, load))
        for p in there
    ], REPEATS)  # fmt: skip
    for name, why in missing.items():
        session.skip(points[name], why)
    session.show(
        {
            "server": lambda p: p.server,
            "on": lambda p: p.variant,
            "requests/s": spread("requests_per_second"),
            "CPU us": figure("cpu_ms", "{:.1f}", 0.001),
            "chain/s": spread("chain_per_second"),
            "chain CPU us": figure("chain_cpu_ms", "{:.1f}", 0.001),
        }
    )
    return session.status()


def measure_one(session: Session, peer: Peer, fetches: int, load: Load) -> Run:
    """The chain, then the parallel load, against one fresh server.

    The requests/s and the CPU of the run are those of the parallel load;
    Run.extra has those of the chain. Raises ServerError.
    """
    with start.start(peer, page=b"") as process:
        chain(process.port, WARM_UP)
        meter = Meter(process)
        begun = time.perf_counter()
        end = chain(process.port, fetches)
        took = time.perf_counter() - begun
        cost = meter.read()
        one = session.load(process, load, name=peer.name)
    cpu = cost.cpu_user + cost.cpu_system
    one.extra = {
        "chain_per_second": round(fetches / took, 3),
        "chain_cpu_ms": round(1000 * cpu / fetches, 6),
        "chain_fetches": float(fetches),
        "chain_end": float(end),
    }
    left = load.requests - one.requests
    if one.error is None and left > 0:
        one.error = f"{left} of {load.requests} requests got no response"
    return one


def chain(port: int, fetches: int) -> int:
    """Fetch one page after the other; the number that the last one names.

    Raises ServerError if a page names a wrong one, or is no page.
    """
    this = FIRST
    for done in range(1, fetches + 1):
        try:
            page = fetch(port, this)
        except OSError as error:
            why = error.strerror or str(error)
            raise ServerError(f"fetch {done} failed: {why}") from error
        link = PAGE.fullmatch(page)
        if link is None:
            raise ServerError(f"fetch {done} has no page as a response")
        last, this = this, int(link[1])
        if this != following(last):
            raise ServerError(
                f"fetch {done}: page {last} names {this} instead of "
                f"{following(last)}"
            )
    return this


def fetch(port: int, page: int) -> bytes:
    """Head and body of one page, on a connection of its own."""
    # The start page has no number, as the benchmark's.
    path = f"/{page}" if page != FIRST else "/"
    with socket.create_connection(("127.0.0.1", port), FETCH_SECONDS) as sock:
        sock.sendall(b"GET %b HTTP/1.0\r\n\r\n" % path.encode())
        parts = []
        while data := sock.recv(RECV_SIZE):
            parts.append(data)
    return b"".join(parts)
