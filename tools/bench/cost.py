"""What a server costs while it is under load.

CPU: of all its processes, as a difference of before and after. Linux
counts user and system time in steps of 10 ms, too coarse for a short run,
so their sum comes from the process's CPU clock (nanoseconds) and only the
shares of user and system from the steps.

Memory: what the process holds resident (RSS). Several processes share
much of it, so of all but the largest only what each has for itself counts
(USS), and figures of one and of many processes compare.

Context switches: of the whole life of the server as the kernel reports
it at the end (ended threads included), less those before the load.
"""

import contextlib
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.common.launch import Launched, UnseenError

SAMPLE_SECONDS = 0.17  # not a divisor of 0.1 s: waves of clients differ
TREE_SECONDS = 1.0  # looking for new worker processes costs more
# Finds those that are called "nonvoluntary" as well.
SWITCHES = re.compile(r"voluntary_ctxt_switches:\s+(\d+)")


@dataclass(frozen=True)
class State:
    """What a process has: its descriptors, threads, bytes in memory."""

    descriptors: int
    threads: int
    memory: int


States = dict[int, State]  # by process id


def look(server: psutil.Process, shares: bool = False) -> States:
    """What each process of a server has now.

    Memory is what is resident (RSS); shares: of what several processes
    have in common only the share of each (PSS, on Linux).
    """
    found = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in [server, *server.children(recursive=True)]:
            with contextlib.suppress(psutil.Error), one.oneshot():
                memory = one.memory_info().rss
                if shares:
                    full = one.memory_full_info()
                    memory = getattr(full, "pss", full.uss)
                found[one.pid] = State(
                    one.num_fds(), one.num_threads(), int(memory)
                )
    return found


@dataclass
class Cost:
    """CPU seconds, bytes, threads seen at once."""

    cpu_user: float
    cpu_system: float
    peak_memory: int
    threads: int


class Meter:
    """Watches a server from now on: call `sample` now and then."""

    def __init__(self, process: Launched) -> None:
        self._process = process
        self._members: list[psutil.Process] = []
        self._look()
        self._before = {p.pid: _cpu(p) for p in self._members}
        self._memory = self._threads = 0
        self.sample()

    def sample(self) -> None:
        """Look at memory and threads once."""
        if time.monotonic() - self._looked > TREE_SECONDS:
            self._look()
        alone = len(self._members) == 1  # cheaper
        threads = 0
        held: list[tuple[int, int]] = []  # RSS and USS of each
        for member in self._members:
            with contextlib.suppress(psutil.Error):  # it has just ended
                threads += member.num_threads()
                if alone:
                    held.append((member.memory_info().rss, 0))
                else:
                    full = member.memory_full_info()
                    held.append((full.rss, full.uss))
        held.sort(reverse=True)  # the largest first
        memory = sum(r for r, _ in held[:1]) + sum(u for _, u in held[1:])
        self._memory = max(self._memory, memory)
        self._threads = max(self._threads, threads)

    def read(self) -> Cost:
        """The cost so far, since the meter was made."""
        self._look()
        self.sample()
        user = system = 0.0
        for member in self._members:
            before = self._before.get(member.pid, (0.0, 0.0))
            after = _cpu(member)
            user += max(after[0] - before[0], 0.0)
            system += max(after[1] - before[1], 0.0)
        return Cost(user, system, self._memory, self._threads)

    def _look(self) -> None:
        """Find its processes."""
        with contextlib.suppress(UnseenError):
            self._members = self._process.processes() or self._members
        self._looked = time.monotonic()


def _cpu(process: psutil.Process) -> tuple[float, float]:
    """User and system CPU seconds of a process; zero if it is gone."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0, 0.0
    user, system = times.user, times.system
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            # clock_getcpuclockid(3), which Python does not offer
            total = time.clock_gettime((~process.pid << 3) | 2)
            # Less than a step so far: all of it counts as user time.
            part = user / (user + system) if user + system else 1.0
            return total * part, total * (1 - part)
    return user, system


def switches(server: Launched) -> int | None:
    """Context switches of all living threads of a server so far.

    None where the system does not show them.
    """
    found = 0
    try:
        members = server.processes()
    except UnseenError:
        return None
    for member in members:
        with contextlib.suppress(psutil.Error, OSError):
            if sys.platform != "linux":
                found += sum(member.num_ctx_switches())
                continue
            for status in Path(f"/proc/{member.pid}/task").glob("*/status"):
                found += sum(map(int, SWITCHES.findall(status.read_text())))
    return found
