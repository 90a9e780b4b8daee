"""A database whose library knows nothing of asyncio.

It stands for the many that only block: drivers, files, password hashes.
You cannot change it.
"""

import time


def query(seconds: float) -> str:
    """Ask the database. Blocks until it answers, so many seconds."""
    time.sleep(seconds)
    return "It works!"
