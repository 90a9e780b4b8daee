"""Clients of all kinds for exercise 06.6, and a job of the night.

    python3 traffic.py

Ten clients ask every second, each once. A dot is an answer that came at
once. Read the rest of this file last: it knows the answer.
"""

import asyncio
import fcntl
import itertools
import time
from pathlib import Path

KINDS = ("find=7", "login=tea", "host=localhost", "visit")
LATE = 0.3  # seconds
VISITS = Path(__file__).with_name("visits.txt")


async def ask(kind: str) -> None:
    """One client."""
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", 8000)
    writer.write(f"GET /?{kind} HTTP/1.0\r\n\r\n".encode())
    await reader.read()
    writer.close()
    took = time.monotonic() - begun
    what = f" {kind} {took:.1f} s" if took > LATE else "."
    print(what, end="", flush=True)


def back_up() -> None:
    """Nobody may write while a file is copied, which takes a while."""
    with VISITS.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(4)


async def main() -> None:
    """All of them, until Ctrl-C."""
    tasks = set()
    for number in itertools.count():
        tasks.add(asyncio.create_task(ask(KINDS[number % len(KINDS)])))
        if number % 120 == 50:
            tasks.add(asyncio.create_task(asyncio.to_thread(back_up)))
        await asyncio.sleep(0.1)
        for task in [task for task in tasks if task.done()]:
            tasks.discard(task)
            task.result()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print()
    except ConnectionError:
        print("\nthe server is gone")
