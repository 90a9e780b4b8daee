"""Counts the system calls of a running server with strace (Linux)."""

import contextlib
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.common.launch import eventually

ATTACH_SECONDS = 10.0  # for strace to take hold of all processes
DETACH_SECONDS = 10.0  # for strace to let go and write its table
ROW = re.compile(
    r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(?!total$)(\w+)"
)


class StraceError(Exception):
    """Counting did not work; the text says why."""


@dataclass
class Counter:
    """Filled in when the counting is over. Use `count`.

    table: strace's own text; calls: how often each was made, by name.
    """

    command: str
    table: str = ""
    calls: dict[str, int] = field(default_factory=dict)


def parse(table: str) -> dict[str, int]:
    """Calls by name from the table of ``strace -c``; {} if it has none."""
    rows = filter(None, map(ROW.fullmatch, table.splitlines()))
    return {row[2]: int(row[1]) for row in rows}


@contextlib.contextmanager
def count(pids: list[int]) -> Iterator[Counter]:
    """Count the calls of these processes, their threads and children.

    The counter has its table after the block. Raises StraceError if
    strace cannot take hold of them.
    """
    words = ["strace", "-f", "-c"]
    counter = Counter(" ".join([*words, *(f"-p {pid}" for pid in pids)]))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        with attached(words, pids, table):
            yield counter
        if table.is_file():
            counter.table = table.read_text(errors="replace")
            counter.calls = parse(counter.table)


@contextlib.contextmanager
def attached(
    words: Sequence[str], pids: list[int], output: Path
) -> Iterator[None]:
    """Run strace on these processes, its output in a file.

    Raises StraceError if it cannot take hold of them.
    """
    errors = output.with_name("errors")
    targets = [word for pid in pids for word in ("-p", str(pid))]
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*words, *targets, "-o", str(output)], stdin=subprocess.DEVNULL,
            stdout=stderr, stderr=stderr,
            start_new_session=True,  # Ctrl-C is ours: we end it
        )

    def said() -> str:
        return errors.read_text(errors="replace").strip()

    def attached() -> bool:
        return all(f"Process {pid} attached" in said() for pid in pids)

    try:
        eventually(
            lambda: attached() or process.poll() is not None, ATTACH_SECONDS
        )
        if not attached():
            last = said().rpartition("\n")[2] or "it said nothing"
            raise StraceError(f"strace could not attach: {last}")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DETACH_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
