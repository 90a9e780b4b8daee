"""A load that does not wait for responses: an open loop.

Each request has a number and a moment at which it is due, whatever became
of those before it; its latency counts from there. A program of its own:
it takes a `Plan` as JSON, prints the moment at which it begins, and in a
second line what became of each request.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

# What may become of a request, besides the status of a response, as "503".
OK = "ok"  # 200
BROKEN = "broken"  # refused, reset, or closed before the response ended
TIMEOUT = "timeout"

LEAD_SECONDS = 0.05  # from the line that it begins to the first request

Row = tuple[float, float, str]  # see `Load`
Address = tuple[str, int]
Kept = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to send.

    phases: requests per second, and for how many seconds; keep: keep
    connections open; timeout: seconds for one try; tries: for one
    request; seed: of gaps of random length, as of clients that do not
    know each other (0: all gaps alike).
    """

    phases: tuple[tuple[float, float], ...] = ()
    keep: bool = False
    timeout: float = 9.0
    tries: int = 1
    seed: int = 1

    @property
    def seconds(self) -> float:
        """How long it takes to send all."""
        return sum(seconds for _, seconds in self.phases)

    def due(self) -> Iterator[float]:
        """When each request is due, in seconds from the first moment."""
        chance = random.Random(self.seed)
        at = until = 0.0
        for rate, seconds in self.phases:
            until += seconds
            while at < until:
                yield at
                at += chance.expovariate(rate) if self.seed else 1 / rate
            at = until


class Load:
    """The requests of a plan, sent one by one.

    rows: number of a request -> when it was due and its latency (seconds),
    and what became of it; lag: seconds that the latest was sent too late.
    """

    def __init__(self, plan: Plan, address: Address, first: int = 0) -> None:
        """Where to send it; first: the number of the first request."""
        self.plan, self.address, self.first = plan, address, first
        self.rows: dict[int, Row] = {}
        self.lag = 0.0
        self.kept: list[Kept] = []  # idle connections, the latest last

    async def run(self) -> None:
        """Send all, and wait for the last response."""
        begun = time.monotonic() + LEAD_SECONDS
        print(begun, flush=True)
        async with asyncio.TaskGroup() as tasks:
            for number, due in enumerate(self.plan.due(), self.first):
                await asyncio.sleep(begun + due - time.monotonic())
                late = time.monotonic() - begun - due
                self.lag = max(self.lag, late)
                tasks.create_task(self.request(number, begun, due))
        for _, writer in self.kept:
            writer.transport.abort()

    async def request(self, number: int, begun: float, due: float) -> None:
        """One request, until there is a response or all tries failed."""
        for _ in range(self.plan.tries):
            try:
                async with asyncio.timeout(self.plan.timeout):
                    outcome = await self.attempt(number)
            except TimeoutError:
                outcome = TIMEOUT
            if outcome == OK:
                break
        latency = time.monotonic() - begun - due
        self.rows[number] = round(due, 4), round(latency, 4), outcome

    async def attempt(self, number: int) -> str:
        """Send it once; what became of it."""
        connection = None
        while self.kept and not connection:
            connection = self.kept.pop()
            if connection[0].at_eof():  # closed meanwhile
                connection[1].transport.abort()
                connection = None
        try:
            if not connection:
                connection = await asyncio.open_connection(*self.address)
            status, stays = await exchange(*connection, number, self.plan.keep)
            if stays:
                self.kept.append(connection)
                connection = None
            return OK if status == "200" else status
        except (asyncio.IncompleteReadError, ConnectionError):
            return BROKEN
        finally:
            if connection:
                connection[1].transport.abort()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int,
    keep: bool,
) -> tuple[str, bool]:
    """The status of the response, and whether the connection stays."""
    writer.write(
        f"GET /?{number} HTTP/1.1\r\nHost: hosts\r\n"
        f"Connection: {'keep-alive' if keep else 'close'}\r\n\r\n".encode()
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines if line)
    await reader.readexactly(int(fields.get("content-length", 0)))
    return first.split()[1], keep and fields.get("connection") != "close"


def main(text: str) -> None:
    """Send what JSON says: a plan, where to, the number of the first."""
    plan, address, first = json.loads(text)
    load = Load(Plan(**plan), address, first)
    asyncio.run(load.run())
    rows = [row for _, row in sorted(load.rows.items())]
    print(json.dumps([rows, load.lag]))


if __name__ == "__main__":
    main(sys.argv[1])
