"""The built-in load client, for machines without ab.

It takes the options of ab that we use and prints the same figures in the
same form, so that one parser reads both. It is written in Python and so
slower than ab: the fastest servers have to wait for it.

Try it:  python3 -m tools.bench.client -n 100 -c 10 http://127.0.0.1:8000/
"""

import argparse
import asyncio
import contextlib
import re
import signal
import statistics
import sys
import time
import urllib.parse
from dataclasses import dataclass, field

from tools.bench.ab import PERCENTILES

LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)\r", re.I)
KEPT = re.compile(rb"\r\nconnection:[^\r]*keep-alive", re.I)

# What ab prints, as far as it is read.
FIGURES = """

Document Length:        {body} bytes

Concurrency Level:      {clients}
Time taken for tests:   {seconds:.3f} seconds
Complete requests:      {done}
Failed requests:        {bad}
   (Connect: 0, Receive: {failed}, Length: {bad}, Exceptions: 0)
Non-2xx responses:      {non_2xx}
Keep-Alive requests:    {kept}
Total transferred:      {bytes_read} bytes
Requests per second:    {rate:.2f} [#/sec] (mean)
"""
TIMES = """
Connection Times (ms)
              min  mean[+/-sd] median   max
Total:     {low:6.0f} {mean:4.0f} {deviation:5.1f} {p50:6.0f} {high:7.0f}

Percentage of the requests served within a certain time (ms)
"""


@dataclass
class Tally:
    """What the clients have seen so far."""

    left: int  # requests not yet begun
    times: list[float] = field(default_factory=list)  # seconds each
    failed: int = 0
    wrong_length: int = 0
    non_2xx: int = 0
    kept: int = 0
    body: int | None = None  # bytes of the first body
    bytes_read: int = 0


async def client(
    options: argparse.Namespace, tally: Tally, deadline: float
) -> None:
    """One client: a request, its response, the next, until time is up."""
    address = options.url.hostname, options.url.port or 80
    keep = "Connection: Keep-Alive\r\n" * options.keep_alive
    request = (
        f"GET {options.url.path or '/'} HTTP/1.0\r\n{keep}"
        f"Host: {options.url.netloc}\r\nUser-Agent: tools.bench.client\r\n"
        "Accept: */*\r\n\r\n"
    ).encode("ascii")
    connection = None
    while tally.left > 0 and time.monotonic() < deadline:
        tally.left -= 1
        begun = time.monotonic()
        kept = False
        try:
            connection = connection or await asyncio.open_connection(*address)
            reader, writer = connection
            writer.write(request)
            kept = await response(reader, tally) and options.keep_alive
        except (OSError, EOFError, ValueError, IndexError):
            tally.failed += 1
        else:
            tally.times.append(time.monotonic() - begun)
            tally.kept += kept
        if not kept and connection:
            connection[1].close()
            connection = None
    if connection:
        connection[1].close()


async def response(reader: asyncio.StreamReader, tally: Tally) -> bool:
    """Read one response; True if the connection is kept."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head)
    body = await reader.readexactly(int(length[1])) if length else b""
    kept = bool(length and KEPT.search(head))
    if not kept:
        body += await reader.read(-1)  # to its end
    tally.bytes_read += len(head) + len(body)
    tally.non_2xx += head.split(b" ")[1][:1] != b"2"
    if tally.body is None:
        tally.body = len(body)
    tally.wrong_length += tally.body != len(body)
    return kept


async def load(options: argparse.Namespace, tally: Tally) -> float:
    """Run all clients; the seconds it took. SIGINT ends it early."""
    begun = time.monotonic()
    clients = asyncio.gather(*(
        client(options, tally, begun + options.seconds)
        for _ in range(options.clients)
    ))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, clients.cancel)
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(clients, options.seconds)
    return time.monotonic() - begun


def address(text: str) -> urllib.parse.SplitResult:
    """A check for argparse: an address that it can load."""
    parts = urllib.parse.urlsplit(text)
    if parts.scheme != "http" or not parts.hostname or parts.port == 0:
        raise ValueError
    return parts


def report(tally: Tally, clients: int, seconds: float) -> str:
    """The figures in the form of ab's output."""
    done = len(tally.times)
    text = FIGURES.format_map({
        **vars(tally), "body": tally.body or 0, "clients": clients,
        "seconds": seconds, "done": done + tally.failed,
        "bad": tally.failed + tally.wrong_length,
        "rate": done / seconds if seconds else 0.0,
    })
    if not done:
        return text
    ms = sorted(1000 * t for t in tally.times)
    within = {p: ms[min(done * p // 100, done - 1)] for p in PERCENTILES}
    text += TIMES.format(
        low=ms[0], mean=statistics.fmean(ms), high=ms[-1],
        deviation=statistics.pstdev(ms), p50=within[50],
    )
    rows = [f"  {p}%  {value:5.0f}" for p, value in within.items()]
    return "\n".join([text[:-1], *rows])


def main() -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.client")
    add = parser.add_argument
    add("-n", dest="requests", type=int, default=1, help="requests in all")
    add("-c", dest="clients", type=int, default=1, help="clients at a time")
    add("-t", dest="seconds", type=int, default=10**9, help="seconds at most")
    add("-k", dest="keep_alive", action="store_true", help="keep-alive")
    add("-r", action="store_true", help="go on after errors (it always does)")
    add("url", type=address, help="http://127.0.0.1:8000/")
    options = parser.parse_args()
    if not 1 <= options.clients <= options.requests:
        parser.error("-c must be 1 to the number of requests")
    tally = Tally(options.requests)
    print(
        "tools.bench.client, the built-in load client, figures as ab "
        f"prints them\n\nLoading {options.url.geturl()}", flush=True,
    )
    seconds = asyncio.run(load(options, tally))
    done = len(tally.times) + tally.failed
    if done >= options.requests or seconds >= options.seconds:
        print(f"Finished {done} requests")
    print(report(tally, options.clients, seconds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
