"""ApacheBench: its command line, and what its output says.

Facts about ab 2.3 that this file knows, so that no other has to:

- It speaks HTTP/1.0 and opens a connection for each request; ``-k`` asks
  to keep it.
- It sends one request alone, and all others when that is answered: with
  a server that waits, a load of 20 rounds takes the time of 21.
- ``-t`` sets ``-n 50000``; only an ``-n`` after it counts.
- It stops at ``-t`` when something happens. If nothing happens any more
  it waits for ``-s`` (30 s), so somebody has to stop it from outside.
- On an interrupt it prints what it has, as if it had finished, without
  its line "Finished" or "..done", and exits with status 0 or 1.
- Without ``-r`` the first reset ends it, and all figures are lost. With
  ``-r`` a request that failed is *complete* as well, and counts up to
  three times as failed (Receive, Length, Exceptions): a server that died
  looks very fast. `parse` takes them apart.
- The right length is that of the first response. If the first request
  fails it is 0, and every good response counts as failed (Length).
- A response that is not 2xx is complete and not failed.
- It prints times in whole milliseconds.
"""

import re
from dataclasses import dataclass

from tools.data.results import Run

MANY = 1_000_000  # requests: more than a run ended by -t can make
PERCENTILES = (50, 66, 75, 80, 90, 95, 98, 99)


@dataclass(frozen=True)
class Load:
    """What ab shall do.

    clients: connections at a time; requests: at most so many in all;
    seconds: at most so long (whole seconds), None: no limit;
    keep_alive: ``-k``; go_on: ``-r``, count errors and go on.
    """

    clients: int
    requests: int
    seconds: int | None = None
    keep_alive: bool = False
    go_on: bool = True

    def command(self, url: str, program: tuple[str, ...]) -> list[str]:
        """The command line, ``("ab",)`` or another program in front."""
        words = [*program]
        if self.keep_alive:
            words.append("-k")
        if self.go_on:
            words.append("-r")
        if self.seconds is not None:  # before -n: see above
            words += ["-t", str(self.seconds)]
        return [*words, "-n", str(self.requests), "-c", str(self.clients), url]


ABORTED = (  # what ab says when it gives up, and what that means
    ("Too many open files", "ab reached the limit of open files"),
    ("Can(not|'t) assign requested address",
     "no local port was free for another connection"),
    ("Connection refused", "the server refused the connection"),
    ("Connection reset by peer", "a connection was reset"),
    ("Broken pipe", "a connection was closed while ab was sending"),
    ("timeout specified has expired|(Operation|Connection) timed out",
     "no response came before ab's timeout"),
)


def parse(text: str) -> tuple[Run, bool]:
    """The figures in an output of ab, and whether ab came to its end.

    A run with an error has no figures: ab gave up, was used wrongly, or
    the text is not ab's.
    """
    complete = _number(r"Complete requests:", text)
    seconds = _number(r"Time taken for tests:", text)
    if complete is None or seconds is None:
        return _why_none(text), True
    failed = min(_failed(text), int(complete))
    good = int(complete) - failed
    rate = _number("Requests per second:", text) or 0.0
    if failed:
        rate = good / seconds if seconds else 0.0
    body = _number("Document Length:", text)
    total = _number("Total transferred:", text)
    ended = re.search(r"^Finished |\.\.done$", text, re.M)
    return Run(
        "", good, failed, int(_number("Non-2xx responses:", text) or 0),
        seconds, rate, _latency(text) if good else {},
        int(body) if body and good else None,
        total / good if total and good else None,
    ), ended is not None


def version(text: str) -> str | None:
    """The version in the output of ``ab -V``, such as 2.3."""
    found = re.search(r"ApacheBench, Version (\d+(?:\.\d+)*)", text)
    return found[1] if found else None


def _number(label: str, text: str) -> float | None:
    """The number behind a label at the start of a line."""
    found = re.search(rf"^{label}\s+(\d+(?:\.\d+)?)\b", text, re.M)
    return float(found[1]) if found else None


def _failed(text: str) -> int:
    """Requests that failed. ab counts one up to three times."""
    kinds = re.search(
        r"^\s+\(Connect: (\d+), Receive: (\d+), Length: (\d+), "
        r"Exceptions: (\d+)\)", text, re.M,
    )
    if kinds is None:
        return int(_number(r"Failed requests:", text) or 0)
    connect, receive, length, exceptions = map(int, kinds.groups())
    if _number(r"Document Length:", text) == 0:
        length = 0  # the first request failed: this says nothing
    return connect + max(receive, length, exceptions)


def _latency(text: str) -> dict[str, float]:
    """Milliseconds: min, mean, stdev, p50 and other percentiles, max."""
    row = re.search(
        r"^Total:\s+(\d+)\s+(\d+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s*$", text,
        re.M,
    )
    if row is None:
        return {}
    low, mean, deviation, median, high = map(float, row.groups())
    found = {"min": low, "mean": mean, "stdev": deviation, "p50": median}
    for percent in PERCENTILES:
        # ab prints no percentiles for a single request.
        value = _number(rf" +{percent}%", text)
        found[f"p{percent}"] = high if value is None else value
    return found | {"max": high}


def _why_none(text: str) -> Run:
    """A run that says why an output holds no figures."""
    requests = int(_number("Total of", text) or 0)
    after = f" after {requests} requests" if requests else ""
    why = f"ab ended{after} without figures"
    for pattern, meaning in ABORTED:
        if re.search(pattern, text):
            return Run("", requests, error=f"ab gave up{after}: {meaning}")
    if usage := re.search(r"^ab: (.+)$", text, re.M):
        why = f"ab does not accept its command: {usage[1]}"
    elif version(text) is None:
        why = "the output is not ab's"
    return Run("", requests, error=why)
