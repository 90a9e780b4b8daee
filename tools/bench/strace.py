"""Counts the system calls of a running server with strace (Linux)."""

import contextlib
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ATTACH_SECONDS = 10.0  # for strace to take hold of all processes
DETACH_SECONDS = 10.0  # for strace to let go and write its table
POLL_SECONDS = 0.02


class StraceError(Exception):
    """Counting did not work; the text says why."""


class Counter:
    """Filled in when the counting is over. Use `count`."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.table = ""  # strace's own text

    @property
    def calls(self) -> dict[str, int]:
        """How often each system call was made, by name."""
        return parse(self.table)


def parse(table: str) -> dict[str, int]:
    """Calls by name from the table of ``strace -c``; {} if it has none."""
    found: dict[str, int] = {}
    for line in table.splitlines():
        row = re.fullmatch(
            r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)", line
        )
        if row and row[2] != "total":
            found[row[2]] = found.get(row[2], 0) + int(row[1])
    return found


@contextlib.contextmanager
def count(pids: list[int]) -> Iterator[Counter]:
    """Count the calls of these processes, their threads and children.

    The counter has its table after the block. Raises StraceError if
    strace cannot take hold of them.
    """
    words = ["strace", "-f", "-c"]
    for pid in pids:
        words += ["-p", str(pid)]
    counter = Counter(" ".join(words))
    with tempfile.TemporaryDirectory() as folder:
        table, errors = Path(folder, "table"), Path(folder, "errors")
        with errors.open("w") as stderr:
            process = subprocess.Popen(
                [*words, "-o", str(table)],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            wait_attached(process, pids, errors)
            yield counter
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(DETACH_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if table.is_file():
                counter.table = table.read_text(errors="replace")


def wait_attached(
    process: subprocess.Popen[bytes], pids: list[int], errors: Path
) -> None:
    """Until strace says of each process that it is attached."""
    deadline = time.monotonic() + ATTACH_SECONDS
    while True:
        said = errors.read_text(errors="replace")
        if all(re.search(rf"Process {pid} attached", said) for pid in pids):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            last = said.strip().splitlines()[-1:] or ["it said nothing"]
            raise StraceError(f"strace could not attach: {last[0]}")
        time.sleep(POLL_SECONDS)
