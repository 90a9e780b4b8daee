"""What a request tells of its client, and who closes first.

A server behind a balancer sees the balancer's address. Two things can tell
it the client's: a field of the request, or a line before it, for which the
server must be made. And who keeps an idle connection longer than its peer
does may send a request into it at the moment at which the peer closes.
"""

import socket
import tempfile
from dataclasses import replace
from pathlib import Path

from tools.bench.hosts.balancer import NO_CHECK, Balancer, Balancing
from tools.bench.hosts.lost import causes
from tools.bench.hosts.rig import Case, Measured, Rig, run
from tools.bench.server import free_port

HELP = "what a request tells of its client; who closes first"
CLIENT = "203.0.113.7"  # addresses for documentation (RFC 5737)
CLAIM = "X-Forwarded-For: 198.51.100.1\r\n"  # anybody can write this
TOLD, UNEXPECTED = "who the client is", "a PROXY line, not expected"
FORWARD = Balancing(check=NO_CHECK, frontend=("option forwardfor",))
PROXY = Balancing(check=NO_CHECK, server="send-proxy")
WAYS = {  # what the client says beside its request, and the setting
    "nothing": ("", Balancing(check=NO_CHECK)),
    "X-Forwarded-For": ("", FORWARD),
    "X-Forwarded-For, and a claim": (CLAIM, FORWARD),
    "PROXY line": ("", PROXY),
}

SECONDS = 10.0  # for one of those

IDLE_SECONDS = 5.0  # a server of ours keeps an idle connection so long
BURST_RATE = 1500.0  # requests/s
APART_SECONDS = 1.6  # the bursts of one load from those of the next
PAUSE = 1e-9  # requests/s
LATER = (0.0, 0.01, 0.02, 0.04)  # seconds after those 5
# Some milliseconds of work: a server that is never busy hears of a request
# in time, nearly always.
WORK = ("--compute", "50000")
RETRY_ON = "retry-on conn-failure empty-response"
# The client's connection may be idle for a minute, a host's as well.
MINUTE = ("timeout http-keep-alive 60s", "timeout client 60s")
POOL = "pool-purge-delay 60s"
IDLE = {
    "the server closes first": Balancing(
        check=NO_CHECK, server=POOL, backend=("retries 0",), defaults=MINUTE
    ),
    "the server closes first, retry-on": Balancing(
        check=NO_CHECK, server=POOL, backend=(RETRY_ON,), defaults=MINUTE
    ),
    # Without a pool, the connection to a host ends with the client's.
    "the balancer closes first": Balancing(
        check=NO_CHECK, backend=("retries 0", "http-reuse never"),
        defaults=("timeout http-keep-alive 4s",),
    ),
}


def cases(smoke: bool) -> list[Case]:
    """The two ways to tell; and idle connections."""
    clients, later = (30, LATER[1:2]) if smoke else (80, LATER)
    one, *beside = [
        Case(
            server="06", variant=name, delay=0.0, keep=True, seed=0,
            options=WORK,
            phases=bursts(number * APART_SECONDS, clients, later),
            balancing=balancing,
        )
        for number, (name, balancing) in enumerate(IDLE.items())
    ]
    return [
        Case(
            server="06", variant=name, delay=0.0, phases=((20.0, 1.0),),
            balancing=balancing,
        )
        for name, balancing in ((TOLD, FORWARD), (UNEXPECTED, PROXY))
    ] + [replace(one, beside=tuple(beside))]


def bursts(
    first: float, clients: int, later: tuple[float, ...]
) -> tuple[tuple[float, float], ...]:
    """All clients at once, then again when their connections are so old.

    first: seconds before; later: how many more seconds than a server keeps
    them. Nothing is due in a pause but one request as it begins.
    """
    burst = (BURST_RATE, (clients - 0.5) / BURST_RATE)
    phases = [(PAUSE, first), burst]
    for seconds in later:
        phases += [(PAUSE, IDLE_SECONDS - burst[1] + seconds), burst]
    return tuple(phases)


def measure(rig: Rig) -> list[Measured]:
    """The loads; and what a server is told."""
    texts = heads(rig) if rig.case.variant == TOLD else {}
    return [
        Measured(responses, causes(each, responses), texts=texts)
        for each, load in zip(rig.all, rig.load_all(), strict=True)
        for responses in (load.result(),)
    ]


def heads(rig: Rig) -> dict[str, str]:
    """What a server gets, by how it is told who the client is."""
    client = "127.0.0.1"
    if rig.cabled:
        client = CLIENT
        run("ip", "addr", "add", f"{client}/32", "dev", "lo")
    with socket.create_server((rig.address[0], 0)) as server:
        server.settimeout(SECONDS)
        return {
            name: head(rig, server, said, balancing, client)
            for name, (said, balancing) in WAYS.items()
        }


def head(
    rig: Rig, server: socket.socket, said: str, balancing: Balancing,
    client: str,
) -> str:
    """What a server gets when this client says this to a balancer."""
    host, port = server.getsockname()
    with (
        tempfile.TemporaryDirectory(dir=rig.folder) as folder,
        Balancer(
            balancing, [("h1", f"{host}:{port}")], (host, free_port()),
            Path(folder),
        ) as balancer,
        socket.create_connection(
            balancer.address, SECONDS, (client, 0)
        ) as asking,
    ):
        asking.sendall(
            "GET / HTTP/1.1\r\nHost: example.com\r\n"
            f"{said}Connection: close\r\n\r\n".encode()
        )
        connection, _ = server.accept()
        received = b""
        with connection:
            connection.settimeout(SECONDS)
            while b"\r\n\r\n" not in received:
                received += connection.recv(4096)
    return received.decode("ascii")
