"""The built-in load client, for machines without ab.

It takes the options of ab that we use and prints the same figures in the
same form, so that one parser reads both. It is written in Python and so
slower than ab: the fastest servers have to wait for it.

Try it:  python3 -m tools.bench.client -n 100 -c 10 http://127.0.0.1:8000/
"""

import argparse
import asyncio
import signal
import sys
import time
import urllib.parse
from dataclasses import dataclass, field

from tools.bench.ab import PERCENTILES

RECV_SIZE = 64 * 1024


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
    body_read: int = 0
    server: str = ""


class Client:
    """One client: a request, its answer, the next request."""

    def __init__(self, url: str, keep_alive: bool, tally: Tally) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// address")
        self.host, self.port = parts.hostname, parts.port or 80
        self.path = parts.path or "/"
        self.keep_alive = keep_alive
        self.tally = tally
        keep = "Connection: Keep-Alive\r\n" if keep_alive else ""
        self.request = (
            f"GET {self.path} HTTP/1.0\r\n{keep}Host: {parts.netloc}\r\n"
            "User-Agent: tools.bench.client\r\nAccept: */*\r\n\r\n"
        ).encode("ascii")

    async def run(self, deadline: float) -> None:
        """Send requests until none are left or the time is up."""
        streams = None
        while self.tally.left > 0 and time.monotonic() < deadline:
            self.tally.left -= 1
            begun = time.monotonic()
            try:
                if streams is None:
                    streams = await asyncio.open_connection(
                        self.host, self.port
                    )
                reader, writer = streams
                writer.write(self.request)
                kept = await self._answer(reader)
            except (OSError, EOFError, ValueError):
                self.tally.failed += 1
                kept = False
            else:
                self.tally.times.append(time.monotonic() - begun)
                self.tally.kept += kept
            if not kept and streams is not None:
                streams[1].close()
                streams = None
        if streams is not None:
            streams[1].close()

    async def _answer(self, reader: asyncio.StreamReader) -> bool:
        """Read one answer; True if the connection is kept."""
        head = await reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        kept = self.keep_alive and (
            "keep-alive" in fields.get("connection", "").lower()
        )
        if "content-length" in fields:
            body = await reader.readexactly(int(fields["content-length"]))
        else:
            body, kept = await reader.read(-1), False
        if not kept:
            while data := await reader.read(RECV_SIZE):  # to its end
                body += data
        tally = self.tally
        tally.bytes_read += len(head) + len(body)
        tally.body_read += len(body)
        tally.non_2xx += status.split(" ")[1][:1] != "2"
        tally.server = fields.get("server", "")
        if tally.body is None:
            tally.body = len(body)
        elif tally.body != len(body):
            tally.wrong_length += 1
        return kept


async def load(options: argparse.Namespace, tally: Tally) -> float:
    """Run all clients; the seconds it took. SIGINT ends it early."""
    begun = time.monotonic()
    limit = options.seconds if options.seconds is not None else 1e9
    clients = [
        Client(options.url, options.keep_alive, tally)
        for _ in range(options.clients)
    ]
    tasks = [
        asyncio.create_task(client.run(begun + limit)) for client in clients
    ]

    def stop() -> None:
        for task in tasks:
            task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)
    await asyncio.wait(tasks, timeout=limit)
    seconds = time.monotonic() - begun
    stop()
    await asyncio.wait(tasks)
    return seconds


def report(tally: Tally, options: argparse.Namespace, seconds: float) -> str:
    """The figures in the form of ab's output."""
    done = len(tally.times)
    bad = tally.failed + tally.wrong_length
    rate = done / seconds if seconds else 0.0
    parts = urllib.parse.urlsplit(options.url)
    rows = [
        f"Server Software:        {tally.server}",
        f"Server Hostname:        {parts.hostname}",
        f"Server Port:            {parts.port or 80}",
        "",
        f"Document Path:          {parts.path or '/'}",
        f"Document Length:        {tally.body or 0} bytes",
        "",
        f"Concurrency Level:      {options.clients}",
        f"Time taken for tests:   {seconds:.3f} seconds",
        f"Complete requests:      {done + tally.failed}",
        f"Failed requests:        {bad}",
    ]
    if bad:
        rows.append(
            f"   (Connect: 0, Receive: {tally.failed}, Length: "
            f"{bad}, Exceptions: 0)"
        )
    if tally.non_2xx:
        rows.append(f"Non-2xx responses:      {tally.non_2xx}")
    if options.keep_alive:
        rows.append(f"Keep-Alive requests:    {tally.kept}")
    rows += [
        f"Total transferred:      {tally.bytes_read} bytes",
        f"HTML transferred:       {tally.body_read} bytes",
    ]
    if done:
        rows += [
            f"Requests per second:    {rate:.2f} [#/sec] (mean)",
            "",
            *_times(sorted(1000 * t for t in tally.times)),
        ]
    return "\n".join(rows)


def _times(ms: list[float]) -> list[str]:
    """ab's tables of times; ms: sorted."""
    mean = sum(ms) / len(ms)
    deviation = (sum((t - mean) ** 2 for t in ms) / len(ms)) ** 0.5

    def percentile(percent: int) -> float:
        return ms[min(len(ms) * percent // 100, len(ms) - 1)]

    rows = [
        "Connection Times (ms)",
        "              min  mean[+/-sd] median   max",
        f"Total:     {ms[0]:6.0f} {mean:4.0f} {deviation:5.1f} "
        f"{percentile(50):6.0f} {ms[-1]:7.0f}",
        "",
        "Percentage of the requests served within a certain time (ms)",
    ]
    rows += [f"  {p}%  {percentile(p):5.0f}" for p in PERCENTILES]
    return [*rows, f" 100%  {ms[-1]:5.0f} (longest request)"]


def main() -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.client")
    add = parser.add_argument
    add("-n", dest="requests", type=int, default=1, help="requests in all")
    add("-c", dest="clients", type=int, default=1, help="clients at a time")
    add("-t", dest="seconds", type=int, help="seconds at most")
    add("-k", dest="keep_alive", action="store_true", help="keep-alive")
    add("-r", action="store_true", help="go on after errors (it always does)")
    add("url", help="http://127.0.0.1:8000/")
    options = parser.parse_args()
    if not 1 <= options.clients <= options.requests:
        parser.error("-c must be 1 to the number of requests")
    try:
        Client(options.url, False, Tally(0))
    except ValueError as error:
        parser.error(str(error))
    print(
        "tools.bench.client, the built-in load client, figures as ab "
        f"prints them\n\nLoading {options.url}", flush=True,
    )
    tally = Tally(options.requests)
    begun = time.monotonic()
    seconds = asyncio.run(load(options, tally))
    done = len(tally.times) + tally.failed
    in_time = options.seconds and time.monotonic() - begun >= options.seconds
    if done >= options.requests or in_time:
        print(f"Finished {done} requests")
    print(f"\n\n{report(tally, options, seconds)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
