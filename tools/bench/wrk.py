"""wrk: its command line, and what its output says.

Facts about wrk 4 that this file knows, so that no other has to:

- It speaks HTTP/1.1 and keeps its connections; where a server closes one
  after a response, it opens another.
- It runs for a time, not for a number of requests, and counts the moments
  it takes to begin and to end: ``-d 1s`` prints 1.10s.
- Every response counts as a request, errors too (Non-2xx or 3xx responses).
  So does one that came after ``--timeout``: it is a timeout as well, but
  has no part in the latencies.
- A request whose connection breaks is a read error and no request.
- It assumes that a client wanted to go on at the mean pace, and adds the
  latencies of the requests that a slow response held up ("coordinated
  omission"): its tail is longer than that of the responses that came.
- A time has a unit, from us to h; so has a number of bytes (1024 each).
- On an interrupt it prints what it has, as if it had finished, after a
  shorter time than it announced.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from tools.bench import preflight
from tools.data.results import Run

PERCENTILES = (50, 75, 90, 99)
DIFFER = "tools/bench/differ.lua"  # from the root of the repository
TIMEOUT_SECONDS = 10  # a response after this is none
MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0}
TIME = r"([\d.]+)(us|ms|s|m|h)"
BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Load:
    """What wrk shall do.

    clients: connections kept open; seconds: how long (whole seconds);
    threads: of wrk itself, each with its part of the connections; differ:
    does each request have another target? keep_alive: always.
    """

    clients: int
    seconds: int
    threads: int = 1
    differ: bool = False
    keep_alive: ClassVar = True

    def command(
        self, url: str, program: tuple[str, ...] = ("wrk",)
    ) -> list[str]:
        """The command line."""
        return [
            *program, f"-t{self.threads}", f"-c{self.clients}",
            f"-d{self.seconds}s", "--timeout", f"{TIMEOUT_SECONDS}s",
            "--latency", *(["-s", DIFFER] if self.differ else []), url,
        ]


def parse(text: str) -> tuple[Run, bool]:
    """The figures in an output of wrk, and whether wrk came to its end.

    A run with an error has no figures: wrk could not connect, was used
    wrongly, or the text is not wrk's.
    """
    announced = re.search(rf"^Running {TIME} test @ ", text, re.M)
    done = re.search(
        rf"^  (\d+) requests in {TIME}, ([\d.]+)([KMGT]?)B read", text, re.M
    )
    rate = re.search(r"^Requests/sec:\s+([\d.]+)", text, re.M)
    if announced is None or done is None or rate is None:
        return Run("", error=_why_none(text)), True
    kinds = re.search(
        r"^  Socket errors: connect (\d+), read (\d+), write (\d+), "
        r"timeout (\d+)", text, re.M,
    )
    errors = [int(count) for count in kinds.groups()] if kinds else [0]
    bad = re.search(r"^  Non-2xx or 3xx responses: (\d+)", text, re.M)
    came, late = int(done[1]), errors[-1]
    requests = max(came - late, 0)
    seconds = _ms(done[2], done[3]) / 1000
    per_second = float(rate[1])
    if late:
        per_second = requests / seconds if seconds else 0.0
    read = float(done[4]) * BYTES[done[5]]
    return Run(
        "", requests, sum(errors), int(bad[1]) if bad else 0, seconds,
        per_second, _latency(text) if requests else {},
        response_bytes=read / came if came else None,
    ), seconds >= _ms(announced[1], announced[2]) / 1000


def version() -> str | None:
    """The version of the wrk that is installed; None: there is none."""
    # Debian's says "wrk debian/4.1.0-3+b2 [epoll]", one of one's own
    # "wrk 4.2.0 [epoll]".
    found = re.search(
        r"^wrk \D*(\d+(?:\.\d+)+)", preflight.output_of("wrk", "-v")
    )
    return found[1] if found else None


def _ms(number: str, unit: str) -> float:
    """A time in milliseconds."""
    return float(number) * MS[unit]


def _latency(text: str) -> dict[str, float]:
    """Milliseconds: mean, stdev, max and, if printed, percentiles."""
    row = re.search(rf"^    Latency +{TIME} +{TIME} +{TIME} ", text, re.M)
    if row is None:
        return {}
    found = {"mean": _ms(row[1], row[2]), "stdev": _ms(row[3], row[4])}
    for percent in PERCENTILES:
        line = re.search(rf"^ +{percent}% +{TIME}\s*$", text, re.M)
        if line:
            found[f"p{percent}"] = _ms(line[1], line[2])
    return found | {"max": _ms(row[5], row[6])}


def _why_none(text: str) -> str:
    """Why an output holds no figures."""
    if refused := re.search(r"^unable to connect to \S+ (.+)$", text, re.M):
        return f"wrk could not connect: {refused[1].lower()}"
    if usage := re.search(r"^(?:wrk: )?(.+)\n+Usage: wrk ", text):
        return f"wrk does not accept its command: {usage[1]}"
    if "wrk" not in text and "test @" not in text:
        return "the output is not wrk's"
    return "wrk ended without figures"
