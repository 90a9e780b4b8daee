"""A load that does not wait for answers: an open loop.

Each request has a number and a moment at which it is due, whatever became
of those before it; its latency counts from there. A program of its own:
it takes a `Plan` as JSON, prints one line when it begins, and one with
what came of each request at the end.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

# What may become of a request, besides "ok" and the status of an answer
# that is not 200, as "503".
REFUSED = "refused"  # nobody listens there
RESET = "reset"  # the connection was broken off
CLOSED = "closed"  # it ended before the answer did
STALE = "stale"  # a kept one ended before the answer's first byte
TIMEOUT = "timeout"

LEAD_SECONDS = 0.05  # from the line that it begins to the first request

Row = tuple[float, float, str, str, int]  # see `Load`
Kept = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Plan:
    """What to send.

    phases: requests per second, and for how many seconds; keep: keep
    connections open; timeout: seconds for one try; tries: for one
    request; seed: of gaps of random length, as of clients that do not
    know each other (0: all gaps alike); first: its first number.
    """

    host: str
    port: int
    phases: tuple[tuple[float, float], ...]
    keep: bool = False
    timeout: float = 9.0
    tries: int = 1
    seed: int = 1
    first: int = 0

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

    def as_json(self) -> str:
        """As its command line takes it."""
        return json.dumps(asdict(self))


class Load:
    """The requests of a plan, sent one by one.

    rows: of each request, when it was due, its latency (both in
    seconds), what became of it, which host answered, how many tries;
    lag: seconds that the latest was sent after it was due.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows: list[Row] = []
        self.lag = 0.0
        self.kept: list[Kept] = []  # idle connections, the latest last

    async def run(self) -> None:
        """Send all, and wait for the last answer."""
        begun = time.monotonic() + LEAD_SECONDS
        wall = time.time() + LEAD_SECONDS
        print(json.dumps({"begun": begun, "wall": wall}), flush=True)
        async with asyncio.TaskGroup() as tasks:
            for number, due in enumerate(self.plan.due(), self.plan.first):
                await asyncio.sleep(begun + due - time.monotonic())
                late = time.monotonic() - begun - due
                self.lag = max(self.lag, late)
                tasks.create_task(self.request(number, begun, due))
        for _, writer in self.kept:
            writer.transport.abort()

    async def request(self, number: int, begun: float, due: float) -> None:
        """One request, until it is answered or given up."""
        outcome = host = ""
        tries = 0
        while outcome != "ok" and tries < self.plan.tries:
            tries += 1
            try:
                async with asyncio.timeout(self.plan.timeout):
                    outcome, host = await self.attempt(number)
            except TimeoutError:
                outcome, host = TIMEOUT, ""
        latency = time.monotonic() - begun - due
        self.rows.append(
            (round(due, 4), round(latency, 4), outcome, host, tries)
        )

    async def attempt(self, number: int) -> tuple[str, str]:
        """Send it once; what became of it, and which host answered."""
        plan, begun, connection = self.plan, False, None
        while self.kept and self.kept[-1][0].at_eof():  # we can see that
            self.kept.pop()[1].transport.abort()
        kept = bool(self.kept)
        try:
            connection = self.kept.pop() if kept else (
                await asyncio.open_connection(plan.host, plan.port)
            )
            reader, writer = connection
            wish = "keep-alive" if plan.keep else "close"
            writer.write(
                f"GET /?{number} HTTP/1.1\r\nHost: hosts\r\n"
                f"Connection: {wish}\r\n\r\n".encode()
            )
            first = await reader.readexactly(1)
            begun = True
            head = first + await reader.readuntil(b"\r\n\r\n")
            status, fields = parse(head)
            await reader.readexactly(int(fields.get("content-length", 0)))
            if plan.keep and fields.get("connection") != "close":
                self.kept.append(connection)
                connection = None
            return "ok" if status == 200 else str(status), fields.get(
                "x-host", ""
            )
        except ConnectionRefusedError:
            return REFUSED, ""
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            if kept and not begun:
                return STALE, ""
            return RESET if isinstance(error, OSError) else CLOSED, ""
        finally:
            if connection:
                connection[1].transport.abort()


def parse(head: bytes) -> tuple[int, dict[str, str]]:
    """The status and the fields of an answer; names in small letters."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    return int(first.split()[1]), fields


def main(text: str) -> None:
    """Send what a plan in JSON says, print what came of it."""
    data = json.loads(text)
    load = Load(Plan(**data))
    asyncio.run(load.run())
    print(json.dumps({"lag": load.lag, "rows": load.rows}))


if __name__ == "__main__":
    main(sys.argv[1])
