"""``./bench.sh labs receive``: which size for recv?

lab.py beside this file receives small requests, then uploads, with each
size, a fresh process each time and in turns. Its figures become points.
"""

import itertools
import sys
from functools import partial

from tools.bench.experiments.lab import figures_of
from tools.bench.outcome import keep_raw
from tools.bench.session import Session, number_option
from tools.bench.table import figure, spread
from tools.data.results import Point, Run

HELP = (
    "recv with 64 bytes to 64 KiB, for small requests and for uploads of "
    "1 MB (about a minute)"
)
FILE = "labs/receive/lab.py"
SIZES = (64, 256, 1024, 4096, 16_384, 65_536)
BODIES = {"receive-small": 0, "receive-upload": 1_000_000}  # bytes, by suite
REPEATS = 5
PATIENCE = 300.0  # seconds for one program

OPTIONS = (
    number_option("--small", 1, 10**7, 20_000, "requests without a body"),
    number_option("--uploads", 1, 10**6, 100, "requests of 1 MB"),
)


def measure(session: Session) -> int:
    """Every size, with both kinds of requests."""
    many = (session.options.small, session.options.uploads)
    session.rounds([
        (Point("receiver", suite, 1, 0.0, keep_alive=True,
               variant=f"recv({size})"),
         partial(one_round, session, size, body, requests))
        for ((suite, body), requests), size in itertools.product(
            zip(BODIES.items(), many, strict=True), SIZES
        )
    ], REPEATS)  # fmt: skip
    for suite, body in BODIES.items():
        kind = f"requests with a body of {body:,} bytes"
        session.show(
            {
                "receiver": lambda p: p.variant,
                "calls/request": figure("recv_calls_per_request", "{:.1f}"),
                "CPU us": spread("cpu_ms", "{:,.1f}", 0.001),
            },
            points=session.results.suite(suite), title=kind,
        )
    return session.status()


def one_round(session: Session, size: int, body: int, requests: int) -> Run:
    """One run of the lab. Raises LabError."""
    words = [FILE, "--size", f"{size}", "--body", f"{body}",
             "--requests", f"{requests}"]  # fmt: skip
    text, said = figures_of([sys.executable, *words], PATIENCE)
    one = Run(" ".join(["python3", *words]), requests)
    one.seconds = round(said["seconds"], 6)
    one.requests_per_second = round(requests / said["seconds"], 3)
    one.cpu_user = round(said["cpu_user"], 6)
    one.cpu_system = round(said["cpu_system"], 6)
    one.extra = {"recv_calls_per_request": said["recv_calls"] / requests}
    keep_raw(session.folder, f"receive {body}", one.command, text)
    return one
