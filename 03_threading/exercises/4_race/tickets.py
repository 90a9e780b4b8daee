"""The number of the last ticket, as if it were in a database.

Leave this file as it is. A database is another program, often on
another machine: its answer takes a moment, in which other threads run.
At midnight, another program sets the number to 0: that is the signal
SIGUSR1 here.
"""

import signal
import time

WAY_SECONDS = 0.005  # for a message to the database, or from it

_last = 0


def look_up() -> int:
    """The number of the last ticket; 0 if there was none."""
    found = _last
    time.sleep(WAY_SECONDS)  # the answer is on its way to us
    return found


def store(number: int) -> None:
    """Keep the number of the last ticket."""
    global _last
    time.sleep(WAY_SECONDS)  # the number is on its way to it
    _last = number


def begin_again(number: int, frame: object) -> None:
    """It is midnight."""
    global _last
    _last = 0


signal.signal(signal.SIGUSR1, begin_again)
