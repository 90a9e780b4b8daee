"""The cage around a submission: bubblewrap, on Linux.

The tests run in an outer cage, with processes and a network of their own;
when it ends, all in it ends. A submission runs in a cage inside that one:
it sees Python, the system's libraries and its own folder, no other process
and no terminal. For root it runs as another user as well.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from tools.learn.desk import DeskError
from tools.servers import ROOT

READ, WRITTEN = "read", "place"  # folders of a submission
MEGA = 1 << 20
RESIDENT = 768 * MEGA  # bytes of all processes of a submission together
LEFT = 256 * MEGA  # bytes of memory that this machine keeps
DISK = 64 * MEGA  # bytes of all files of a submission
LIMITS = {  # of each of its processes; NPROC counts all, and threads
    "CORE": 0, "CPU": 60, "FSIZE": 16 * MEGA, "NOFILE": 2048, "NPROC": 512,
    # What is writable; AS would also count what malloc only reserves.
    "DATA": 4096 * MEGA,
}
USERS = range(30_000, 60_000)  # numbers that systems give to nobody
# All that a submission sees of this machine, besides its Python: libraries,
# and what names and times are looked up in. Never add what might hold
# somebody's files, as /usr or /opt: there may be a copy of the solutions.
SYSTEM = (
    "/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64",
    "/nix/store", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
    "/etc/hosts", "/etc/nsswitch.conf",
)
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SEVEN_EXAMINED")
# Runs inside, before the submission: the limits, its user, no keys of ours.
# Its interpreter has the standard library and nothing else.
ENTER = """
import ctypes, json, os, resource, sys
home, uid, limits, kept = json.loads(sys.argv[1])
for name, most in limits.items():
    what = getattr(resource, "RLIMIT_" + name)
    now = [n for n in resource.getrlimit(what) if n != resource.RLIM_INFINITY]
    resource.setrlimit(what, (min([most, *now]),) * 2)
with open("/proc/self/oom_score_adj", "w") as file:  # the first to go
    file.write("1000")
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
kernel = ctypes.CDLL(None)
if join := {"x86_64": 250, "aarch64": 219}.get(os.uname().machine):
    kernel.syscall(join, 1, None)  # keyctl: a session without our passwords
kernel.prctl(36, 1, 0, 0, 0)  # subreaper: orphans are measured as well
own = {k: v for k, v in os.environ.items() if k in kept}
os.execve(sys.argv[2], sys.argv[2:], own | {"HOME": home, "TMPDIR": home})
"""


def around(outer: Path) -> list[str]:
    """Words to put before the tests of a submission in this folder.

    What it writes is kept in memory, and gone when the tests have ended.
    """
    rights = [] if os.getuid() else ["--cap-add", "ALL"]
    return [
        "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-net",
        *rights, "--bind", "/", "/", "--dev-bind", "/dev", "/dev",
        "--proc", "/proc", "--perms", "0777", "--size", str(DISK),
        "--tmpfs", str(outer / WRITTEN), "--",
    ]


def python(outer: Path) -> list[str]:
    """The words that run Python for it, where `around` stands around us.

    Its file, and what that may import, it can only read.
    """
    binary = os.path.realpath(
        getattr(sys, "_base_executable", "") or sys.executable
    )
    uid, rights = 0, ["--unshare-user"]
    if not os.getuid():
        uid = random.SystemRandom().choice(USERS)
        rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID",
                  "--cap-add", "CAP_SETGID"]
    home, read = str(outer / WRITTEN), str(outer / READ)
    library = str(Path(binary).parents[1] / "lib")
    return [
        # Its own session: a signal to its group would end bwrap as well.
        "bwrap", "--unshare-pid", "--unshare-ipc", "--new-session", *rights,
        "--dir", str(outer),
        *(word for path in (*SYSTEM, library, binary) for word in (
            "--dir", os.path.dirname(path), "--ro-bind-try", path, path
        )),
        "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
        "--perms", "0777", "--size", str(DISK), "--tmpfs", "/dev/shm",
        "--ro-bind", read, read, "--bind", home, home,
        "--remount-ro", "/", "--chdir", home, "--",
        binary, "-ISc", ENTER, json.dumps([home, uid, LIMITS, KEPT]), binary,
    ]


def check() -> None:
    """Raises DeskError, saying what to do, unless the cage closes here."""
    or_else = ", or add --unprotected where nothing matters"
    if not shutil.which("bwrap"):
        raise DeskError(
            "what students wrote runs inside bubblewrap, which is not "
            "installed here: apt install bubblewrap" + or_else
        )
    look = (
        f"import os; print(not os.path.exists({str(ROOT / 'tools')!r}) and "
        "os.getppid() == 1)"
    )
    with tempfile.TemporaryDirectory() as folder:
        outer = lay_out_place(Path(folder))
        done = subprocess.run(
            [*around(outer), *python(outer), "-c", look],
            capture_output=True, text=True, check=False,
        )
    if done.stdout != "True\n":
        said = done.stderr.strip().rpartition("\n")[2] or "it is not tight"
        raise DeskError(
            f"bubblewrap cannot close its cage here ({said}): it has to be "
            "0.7 or newer and may have to run as root (sudo)" + or_else
        )


def lay_out_place(outer: Path) -> Path:
    """The two folders of a submission, in an empty one, which is returned."""
    for name in (READ, WRITTEN):
        (outer / name).mkdir()
        (outer / name).chmod(0o755)  # another user reads it, for root
    return outer


def too_much(tests: psutil.Process) -> str:
    """Why these tests, and all that they have started, have to end.

    "" if they need not. What nobody can count for one submission, as files
    without a name, is seen on the whole machine.
    """
    used, found = 0, [tests]
    with contextlib.suppress(psutil.Error):
        found += tests.children(recursive=True)
    for process in found:
        with contextlib.suppress(psutil.Error):  # it has just ended
            used += process.memory_info().rss
    if used > RESIDENT:
        return f"it was ended: it used more than {RESIDENT >> 20} MB of memory"
    if psutil.virtual_memory().available < LEFT:
        return "it was ended: it ran while this machine was short of memory"
    return ""
