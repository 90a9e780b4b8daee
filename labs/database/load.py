"""The load of the lab database: clients that ask, wait and ask again.

Each has a new connection for each request, gives up after a while, and
after an error it pauses before it comes back. Errors are counted by what
the server says. It prints its figures as JSON.
"""

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from itertools import pairwise

REASON = re.compile(rb"<p>[^:<]*: ([^<\n]+)")  # in the body of an error
PAUSE = 1.0  # seconds a client rests after an error
GAVE_UP = "no response in time"


class Load:
    """What the clients have seen so far."""

    def __init__(
        self, port: int, seconds: float, patience: float, targets: list[str]
    ) -> None:
        """Requests begin within so many seconds, for the targets in turns.

        patience: seconds until a client gives up.
        """
        self.port, self.patience, self.targets = port, patience, targets
        self.begun = time.monotonic()
        self.until = self.begun + seconds
        self.good: list[float] = []  # when a response came
        self.waits: list[float] = []  # seconds, for it or until one gave up
        self.errors: Counter[str] = Counter()

    async def client(self, number: int) -> None:
        """One client, until the time is up."""
        while (begun := time.monotonic()) < self.until:
            target = self.targets[number % len(self.targets)]
            number += 1
            error = await self.ask(target)
            now = time.monotonic()
            if error in ("", GAVE_UP):
                self.waits.append(now - begun)
            if not error:
                self.good.append(now)
                continue
            self.errors[error] += 1
            await asyncio.sleep(max(min(PAUSE, self.until - now), 0))

    async def ask(self, target: str) -> str:
        """Make one request; "" or what went wrong."""
        host, request = "127.0.0.1", f"GET {target} HTTP/1.1\r\n"
        request += f"Host: {host}\r\nConnection: close\r\n\r\n"
        try:
            async with asyncio.timeout(self.patience):
                reader, writer = await asyncio.open_connection(
                    host, self.port
                )
                with contextlib.closing(writer):
                    writer.write(request.encode())
                    response = await reader.read(-1)  # to its end
        except TimeoutError:
            return GAVE_UP
        except OSError as error:
            number = error.errno
            return os.strerror(number) if number else type(error).__name__
        if response.startswith(b"HTTP/1.1 200 "):
            return ""
        reason = REASON.search(response)
        return reason[1].decode() if reason else "no good response"

    def figures(self) -> dict[str, object]:
        """What the clients have seen until the last response."""
        ms = sorted(1000 * wait for wait in self.waits)
        ends = [self.begun, *self.good]
        ends.append(max(self.until, ends[-1]))
        gaps = [after - before for before, after in pairwise(ends)]
        return {
            "good": len(self.good), "seconds": round(ends[-1] - self.begun, 3),
            "errors": dict(self.errors), "gap_seconds": round(max(gaps), 3),
            "latency_ms": {
                f"p{p}": round(ms[min(len(ms) * p // 100, len(ms) - 1)], 3)
                for p in (50, 99) if ms
            },
        }


async def main(arguments: list[str]) -> None:
    """Print the figures: port, clients, seconds, patience, targets."""
    port, clients, seconds, patience, *targets = arguments
    load = Load(int(port), float(seconds), float(patience), targets)
    await asyncio.gather(*map(load.client, range(int(clients))))
    print(json.dumps(load.figures()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
