"""What this machine allows: open files, threads, memory."""

import contextlib
import os
import resource
from pathlib import Path

import psutil

ROOM = 64  # open files a process needs beside its connections
MANY = 1_000_000  # open files, where there is no limit
OPEN_MAX = 10_240  # macOS says "unlimited" and then refuses more
MAPS_PER_THREAD = 2  # mappings in memory: its stack, and the guard below
# What all programs together share.
SHARED = ("ulimit -u", "kernel.pid_max", "kernel.threads-max", "pids.max")


def raise_open_files(wanted: int) -> int:
    """Allow us, and those we start, so many open files if we may.

    Returns how many are allowed now.
    """
    most = Path("/proc/sys/fs/nr_open")
    if most.is_file():
        wanted = min(wanted, int(most.read_text()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited:
        return max(wanted, MANY)
    if soft >= wanted:
        return soft
    enough = hard == unlimited or hard >= wanted
    for limits in (
        (wanted, hard if enough else wanted),
        (wanted if enough else hard, hard),
        (min(wanted, OPEN_MAX), hard),
    ):
        # Only root may raise the hard one.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def free_memory() -> int:
    """Bytes that we could get, in a container too."""
    free = int(psutil.virtual_memory().available)
    cgroup = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        most = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text())
        free = min(free, max(most - used, 0))
    return free


def thread_limits() -> dict[str, int]:
    """What limits the threads of a process here, by name.

    How many that allows is a rough number for memory: a thread takes a
    stack, a guard, and the first ones an arena of malloc.
    """
    found = {}
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if most != resource.RLIM_INFINITY and os.geteuid():
        found["ulimit -u"] = most
    for name, file in (
        ("kernel.pid_max", "/proc/sys/kernel/pid_max"),
        ("kernel.threads-max", "/proc/sys/kernel/threads-max"),
        ("pids.max", "/sys/fs/cgroup/pids.max"),
        ("vm.max_map_count", "/proc/sys/vm/max_map_count"),
    ):
        with contextlib.suppress(OSError, ValueError):
            found[name] = int(Path(file).read_text())
    if "vm.max_map_count" in found:
        found["vm.max_map_count"] //= MAPS_PER_THREAD
    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    if resource.RLIM_INFINITY not in (space, stack) and stack:
        found["ulimit -v"] = space // stack
    return found
