"""Exercise 06.6: find the culprit.

Run it:     python3 server.py
The task:   task.md
"""

import asyncio
import fcntl
import hashlib
import os
import re
import socket

import frame

# Your answers, in place of None: the name of the function that stops
# everybody, and the line of a tool's output that shows it.
CULPRIT = "count_visit"
EVIDENCE = "count_visit (server.py:69)"

HERE = os.path.dirname(os.path.abspath(__file__))
MEMBERS = [f"Member {number}" for number in range(900)]

counting = asyncio.Lock()  # so that one thread waits, and not many


async def work(client: frame.Client) -> str:
    """What a request asks for: /?find=7, /?login=tea, and so on."""
    asked, _, word = client.query.partition("=")
    if not asked:
        return ""
    await asyncio.to_thread(write_log, client.query)
    if asked == "find":
        return str(find(word))
    if asked == "login":
        return scramble(word)
    if asked == "host":
        return await look_up(word)
    async with counting:
        return str(await asyncio.to_thread(count_visit))


def write_log(line: str) -> None:
    """A line in the log: not in a buffer but on the disk, now."""
    with open(f"{HERE}/log.txt", "a") as file:
        print(line, file=file, flush=True)
        os.fsync(file.fileno())


def find(word: str) -> int:
    """How many members have this in their names."""
    pattern = re.compile(f".*({re.escape(word)}).*", re.IGNORECASE)
    return sum(bool(pattern.match(member)) for member in MEMBERS)


def scramble(password: str) -> str:
    """What we store of a password: slow to guess from, on purpose."""
    word = password.encode()
    return hashlib.pbkdf2_hmac("sha1", word, b"salt", 5000).hex()


async def look_up(host: str) -> str:
    """The address of a host. Somebody in the net knows it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, 80, family=socket.AF_INET)
    return str(found[0][4][0])


def count_visit() -> int:
    """The number of this visit. Nobody else may count meanwhile."""
    with open(f"{HERE}/visits.txt", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0) + 1
        file.truncate(0)
        file.write(str(number))
    return number


if __name__ == "__main__":
    frame.main(work)
