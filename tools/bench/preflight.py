"""What to know and to prepare on this machine before measuring."""

import contextlib
import datetime
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tools.bench import ab
from tools.bench.machine import ROOM, raise_open_files
from tools.data.results import Machine, Results
from tools.servers import ROOT

LINUX = sys.platform == "linux"
PORTS_FREE_AT_ONCE = LINUX  # a local port in TIME_WAIT can be used again
OUTPUT_SECONDS = 20  # for a program to say its version
FILES_WANTED = 16_384  # open files: 4096 clients and more
BUSY = 0.5  # load per core from which on figures suffer

NO_AB = (
    "ab (ApacheBench) is missing: apt-get install apache2-utils, dnf install "
    "httpd-tools, or brew install httpd"
)


# Programs -----------------------------------------------------------------


def output_of(*command: str, seconds: float = OUTPUT_SECONDS) -> str:
    """What a command prints; empty if it cannot be run in time."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=seconds,
            errors="replace", stdin=subprocess.DEVNULL, check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def tool_versions(load: str) -> dict[str, str]:
    """Names and versions of what measures. load: "ab" or "python"."""
    found = {"psutil": importlib.metadata.version("psutil")}
    if load == "ab":
        found["ab"] = ab.version(output_of("ab", "-V")) or "?"
    if strace := re.search(r"version (\S+)", output_of("strace", "-V")):
        found["strace"] = strace[1]
    return found


def no_strace() -> str | None:
    """Why system calls cannot be counted here, None if they can."""
    if not LINUX:
        return "system calls are counted with strace, which is for Linux"
    if not shutil.which("strace"):
        return "strace is not installed"
    scope = _text("/proc/sys/kernel/yama/ptrace_scope").strip()
    if os.geteuid() and scope not in ("", "0"):
        return (
            "strace may not watch another process here: allow it with "
            "sudo sysctl kernel.yama.ptrace_scope=0"
        )
    return None


# Limits -------------------------------------------------------------------


def most_clients(open_files: int) -> tuple[int, str]:
    """How many clients this machine can hold, and what limits it."""
    most, why = open_files, f"allows {open_files:,} open files a process"
    text = _text("/proc/sys/net/ipv4/ip_local_port_range")
    if ports := [int(word) for word in text.split()]:
        first, last = ports
        if last - first < open_files:
            most = last - first + 1
            why = f"has {most:,} local ports for connections"
    return most - ROOM, f"this machine {why}"


def notes(open_files: int, clients: int) -> list[str]:
    """What the reader should know about this machine, in sentences.

    clients: the most the run will use.
    """
    cores = core_count()
    found = [
        f"{cores} core{'s' * (cores > 1)}, shared by the server and the "
        "load generator (which uses one): a server that would use every "
        "core cannot show all it can do."
    ]
    busy = os.getloadavg()[0]
    if busy / cores > BUSY:
        found.append(
            f"This machine is busy (load {busy:.1f} on {cores} cores): "
            "figures will be lower than they could be. Close other programs."
        )
    limit, why = most_clients(open_files)
    if limit < clients:
        found.append(f"More than {limit:,} clients are not possible: {why}.")
    return found


# Facts --------------------------------------------------------------------


def core_count() -> int:
    """Cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fresh(command: str, mode: str, load: str) -> Results:
    """Results without a point, with all that is to know about now.

    Raises the limit of open files; load: "ab" or "python".
    """
    now = datetime.datetime.now().astimezone()
    return Results(
        command, mode, now.isoformat(timespec="seconds"), commit(),
        machine(raise_open_files(FILES_WANTED)), tool_versions(load), load,
    )


def machine(open_files: int) -> Machine:
    """The facts about this machine that belong to a result."""
    return Machine(
        cpu=_cpu_name(),
        cores=core_count(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        kernel=_kernel(),
        python=f"{platform.python_implementation()} "
        f"{platform.python_version()}{'' if optimised() else ', plain build'}",
        open_files=open_files,
    )


def optimised() -> bool:
    """Was this Python built with optimisation, from a profile (PGO)?"""
    known = sysconfig.get_config_var
    # Debian builds with a profile, but takes the flags of that out of
    # what sysconfig tells; whoever builds it as it comes has them.
    return "--enable-optimizations" in (
        known("CONFIG_ARGS") or ""
    ) or not known("PGO_PROF_USE_FLAG")


def _kernel() -> str:
    """System and version number: the rest of a release can hold names."""
    release = platform.release()
    number = re.match(r"\d+(\.\d+)*", release)
    where = " (WSL)" if "microsoft" in release.lower() else ""
    return f"{platform.system()} {number[0] if number else ''}".strip() + where


def _cpu_name() -> str:
    pattern = r"^(?:model name|Model)\s*:\s*(.+)$"
    if found := re.search(pattern, _text("/proc/cpuinfo"), re.M):
        return found[1].strip()
    name = output_of("sysctl", "-n", "machdep.cpu.brand_string").strip()
    return name or platform.processor() or platform.machine()


def commit() -> str:
    """The commit that is measured, "" outside git; "+" if changed.

    Pages and results do not count: they are not what is measured.
    """
    git = ("git", "-C", str(ROOT))
    name = output_of(*git, "rev-parse", "--short=12", "HEAD").strip()
    if not re.fullmatch(r"[0-9a-f]{12,}", name):
        return ""
    changed = output_of(*git, "status", "--porcelain", "--", ":!docs")
    return name + ("+" if changed.strip() else "")


def _text(file: str) -> str:
    """What stands in a file of the kernel; "" if there is none."""
    with contextlib.suppress(OSError):
        return Path(file).read_text(errors="replace")
    return ""
