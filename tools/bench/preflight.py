"""What to know and to prepare on this machine before measuring."""

import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
from rich.console import Console

from tools.bench import ab
from tools.data.results import Machine
from tools.servers import ROOT

INSTALL_SECONDS = 300  # for the package manager
FILES_WANTED = 16_384  # open files: 4096 clients and more
FILES_SPARE = 64  # open files a process needs beside its connections
BUSY = 0.5  # load per core from which on figures suffer

# Package manager -> how it installs ab. Homebrew refuses to run as root.
INSTALLERS = {
    "apt-get": "apt-get install -y apache2-utils",
    "dnf": "dnf install -y httpd-tools",
    "apk": "apk add apache2-utils",
    "pacman": "pacman -S --noconfirm apache",
    "zypper": "zypper --non-interactive install apache2-utils",
    "brew": "brew install httpd",
}


def find_ab(console: Console) -> bool:
    """True if ab can be used; installs it if we may, else says how."""
    if _ab_version():
        return True
    manager = next((m for m in INSTALLERS if shutil.which(m)), None)
    if manager is None:
        console.print(
            "ab (ApacheBench) is missing, and no package manager I know is "
            "here: it comes with the Apache web server."
        )
        return False
    install = INSTALLERS[manager]
    if os.geteuid() == 0 and manager != "brew":
        console.print(f"ab (ApacheBench) is missing: {install}")
        if _install(manager, install.split()):
            return True
        console.print("That did not work.")
        return False
    sudo = "" if manager == "brew" else "sudo "
    console.print(
        f"ab (ApacheBench) is missing. To install it: {sudo}{install}"
    )
    return False


def _install(manager: str, command: list[str]) -> bool:
    commands = [command]
    if manager == "apt-get":
        commands.insert(0, ["apt-get", "update"])
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in commands:
        try:
            subprocess.run(
                words, check=True, timeout=INSTALL_SECONDS, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError):
            if words is command:
                return False
    return _ab_version() is not None


def _ab_version() -> str | None:
    return ab.version(_output("ab", "-V"))


def tool_versions(load: str) -> dict[str, str]:
    """Names and versions of what measures. load: "ab" or "python"."""
    found = {"psutil": importlib.metadata.version("psutil")}
    if load == "ab":
        found["ab"] = _ab_version() or "?"
    strace = re.search(r"version (\S+)", _output("strace", "-V"))
    if strace:
        found["strace"] = strace[1]
    return found


def no_strace() -> str | None:
    """Why system calls cannot be counted here, None if they can."""
    if sys.platform != "linux":
        return "system calls are counted with strace, which is for Linux"
    if not shutil.which("strace"):
        return "strace is not installed"
    if os.geteuid() != 0:
        try:
            scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text()
        except OSError:
            return None
        if scope.strip() != "0":
            return (
                "strace may not watch another process here: allow it with "
                "sudo sysctl kernel.yama.ptrace_scope=0"
            )
    return None


def raise_open_files() -> int:
    """Raise the soft limit of open files as far as useful; its value."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    # macOS says "unlimited" and then refuses more than OPEN_MAX (10240).
    for wanted in (FILES_WANTED, 10_240, hard):
        if soft == unlimited or wanted == unlimited or soft >= wanted:
            continue
        if hard != unlimited and wanted > hard:
            continue
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            continue
        break
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FILES_WANTED if soft == unlimited else soft


def local_ports() -> int | None:
    """How many local ports there are for connections; None: unknown."""
    try:
        if sys.platform == "linux":
            path = Path("/proc/sys/net/ipv4/ip_local_port_range")
            low, high = map(int, path.read_text().split())
        else:
            name = "net.inet.ip.portrange"
            low = int(_output("sysctl", "-n", f"{name}.first"))
            high = int(_output("sysctl", "-n", f"{name}.last"))
    except (OSError, ValueError):
        return None
    return high - low + 1


def time_wait() -> int | None:
    """Connections in TIME_WAIT now; None: unknown."""
    if sys.platform == "linux":
        try:
            text = Path("/proc/net/sockstat").read_text()
        except OSError:
            return None
        found = re.search(r"^TCP:.* tw (\d+)", text, re.M)
        return int(found[1]) if found else None
    text = _output("netstat", "-an", "-p", "tcp")
    return text.count("TIME_WAIT") if text else None


def ports_free_at_once() -> bool:
    """True where a local port in TIME_WAIT can be used again (Linux)."""
    return sys.platform == "linux"


def most_clients(open_files: int) -> tuple[int, str]:
    """How many clients this machine can hold, and what limits it."""
    limit = open_files - FILES_SPARE
    why = f"this machine allows {open_files:,} open files a process"
    ports = local_ports()
    if ports is not None and ports - FILES_SPARE < limit:
        limit = ports - FILES_SPARE
        why = f"this machine has {ports:,} local ports for connections"
    return limit, why


def notes(open_files: int, clients: int) -> list[str]:
    """What the reader should know about this machine, in sentences.

    clients: the most the run will use.
    """
    found = []
    cores = core_count()
    found.append(
        f"{cores} core{'s' * (cores > 1)}, shared by the server and the "
        "load generator (which uses one): a server that would use every "
        "core cannot show all it can do."
    )
    busy = os.getloadavg()[0]
    if busy / cores > BUSY:
        found.append(
            f"This machine is busy (load {busy:.1f} on {cores} cores): "
            "figures will be lower than they could be. Close other programs."
        )
    limit, why = most_clients(open_files)
    if limit < clients:
        found.append(f"More than {limit:,} clients are not possible: {why}.")
    waiting = time_wait() or 0
    ports = local_ports()
    if ports_free_at_once() or ports is None:
        return found
    found.append(
        f"Each closed connection keeps one of {ports:,} local ports busy "
        "for some 30 s (TIME_WAIT), so runs with new connections are short."
    )
    if waiting > ports // 2:
        found.append(f"{waiting:,} are busy now: wait half a minute.")
    return found


def core_count() -> int:
    """Cores this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine(open_files: int) -> Machine:
    """The facts about this machine that belong to a result."""
    return Machine(
        cpu=_cpu_name(),
        cores=core_count(),
        memory=psutil.virtual_memory().total,
        kernel=_kernel(),
        python=f"{platform.python_implementation()} "
        f"{platform.python_version()}",
        open_files=open_files,
    )


def _kernel() -> str:
    """System and version number: the rest of a release can hold names."""
    release = platform.release()
    number = re.match(r"\d+(\.\d+)*", release)
    where = " (WSL)" if "microsoft" in release.lower() else ""
    return f"{platform.system()} {number[0] if number else ''}".strip() + where


def _cpu_name() -> str:
    if sys.platform == "linux":
        try:
            text = Path("/proc/cpuinfo").read_text(errors="replace")
        except OSError:
            text = ""
        found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", text, re.M)
        if found:
            return found[1].strip()
    else:
        name = _output("sysctl", "-n", "machdep.cpu.brand_string").strip()
        if name:
            return name
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit that is measured, "+" if files were changed since.

    Pages and results do not count: they are not what is measured.
    """
    name = _output("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")
    if not re.fullmatch(r"[0-9a-f]{12,}", name.strip()):
        return ""
    changed = _output(
        "git", "-C", str(ROOT), "status", "--porcelain", "--", ":!docs"
    )
    return name.strip() + ("+" if changed.strip() else "")


def _output(*command: str) -> str:
    """What a command prints; empty if it cannot be run or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20,
            errors="replace", stdin=subprocess.DEVNULL, check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
