"""The cage around a submission: bubblewrap, on Linux.

The tests run in an outer cage, with processes and a network of their own;
when it ends, all in it ends. It sees this repository and can change nothing;
what comes out is one file, without a name, of at most `LIMITS_OUTSIDE`. A
submission runs in a cage inside that one: it sees Python, the system's
libraries and its own folder, no other process and no terminal. For root both
run as users that nobody else has.
"""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tools.learn.desk import DeskError
from tools.servers import ROOT

READ, WRITTEN = "read", "place"  # folders of a submission
MEGA = 1 << 20
RESIDENT = 768 * MEGA  # bytes of all processes of a submission together
LEFT = 256 * MEGA  # bytes of memory that this machine keeps
PROCESSES = 640  # likewise; one process of its own may start LIMITS[NPROC]
DISK = 64 * MEGA  # bytes of all files of a submission
LIMITS = {  # of each of its processes; NPROC counts all, and threads
    "CORE": 0, "CPU": 60, "FSIZE": 16 * MEGA, "NOFILE": 2048, "NPROC": 512,
    # What is writable; AS would also count what malloc only reserves.
    "DATA": 4096 * MEGA,
}
LIMITS_OUTSIDE = {"CORE": 0, "FSIZE": 16 * MEGA, "NPROC": 1024}
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
PACKAGES = [path for path in sys.path if path.endswith("-packages")]
BINARY = os.path.realpath(
    getattr(sys, "_base_executable", "") or sys.executable
)
PLACE, GIVEN = Path("/tmp/place"), Path("/tmp/given")  # in the outer cage
# Runs first in both cages: the limits, no keys of ours. Its interpreter has
# the standard library and nothing else.
BEGIN = """
import ctypes, json, os, random, resource, sys
known = json.loads(sys.argv[1])
for name, most in known["limits"].items():
    what = getattr(resource, "RLIMIT_" + name)
    now = [n for n in resource.getrlimit(what) if n != resource.RLIM_INFINITY]
    resource.setrlimit(what, (min([most, *now]),) * 2)
kernel = ctypes.CDLL(None, use_errno=True)
if join := {"x86_64": 250, "aarch64": 219}.get(os.uname().machine):
    kernel.syscall(join, 1, None)  # keyctl: a session without our passwords
"""
# Root gives itself away for good: it becomes root in a namespace of users,
# whose numbers belong to nobody out here. A child writes which they are. The
# kernel lets no such root mount a second /proc if bwrap made the first.
OUTER = BEGIN + """
def call(status):
    if status:
        sys.exit(os.strerror(ctypes.get_errno()))
if os.getuid() == 0:
    call(kernel.mount(b"proc", b"/proc", b"proc", 14, None))
    *_, many = open("/proc/self/uid_map").read().split()
    first = random.SystemRandom().randrange(16, 30_000) << 16
    first = first if int(many) > 1 << 31 else 1000
    ours, (wait, go) = os.getpid(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(wait, 1)
        for kind in ("uid_map", "gid_map"):
            with open(f"/proc/{ours}/{kind}", "w") as file:
                file.write(f"0 {first} 60000")
        os._exit(0)
    call(kernel.unshare(0x10000000))  # CLONE_NEWUSER
    os.write(go, b"x")
    call(os.waitpid(child, 0)[1])
    os.setgroups([])
    os.setgid(0)
    os.setuid(0)
    os.close(wait)
    os.close(go)
os.execv(sys.argv[2], sys.argv[2:])
"""
# Before the submission: its user. Without one, a namespace of users between
# it and bwrap, whose process it could otherwise take over (ptrace).
ENTER = BEGIN + """
home, uid = known["home"], known["uid"]
with open("/proc/self/oom_score_adj", "w") as file:  # the first to go
    file.write("1000")
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
else:
    uid, gid = os.getuid(), os.getgid()
    if kernel.unshare(0x10000000):  # CLONE_NEWUSER
        sys.exit(os.strerror(ctypes.get_errno()))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                       ("gid_map", f"{gid} {gid} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)
kernel.prctl(36, 1, 0, 0, 0)  # subreaper: orphans are measured as well
own = {k: v for k, v in os.environ.items() if k in known["kept"]}
os.execve(sys.argv[2], sys.argv[2:], own | {"HOME": home, "TMPDIR": home})
"""


def closed(
    rights: Sequence[str], before: Sequence[str], seen: Mapping[str, str],
    after: Sequence[str],
) -> list[str]:
    """The words of a cage: bubblewrap, up to the command that runs in it.

    It holds Python, the system's libraries and what is seen (where it is
    out here -> where it is in there), nothing of which can be changed.
    before, after: words to make places that can.
    """
    library = str(Path(BINARY).parents[1] / "lib")
    paths = {path: path for path in (*SYSTEM, library, BINARY)} | {**seen}
    return [
        # Its own session: a signal to its group would end bwrap as well.
        "bwrap", "--unshare-pid", "--unshare-ipc", "--new-session", *rights,
        *before, *(word for source, path in paths.items() for word in (
            "--dir", os.path.dirname(path), "--ro-bind-try", source, path
        )),
        "--dev", "/dev", "--remount-ro", "/dev", *after,
        "--remount-ro", "/", "--",
    ]


def around(given: Path) -> list[str]:
    """The outer cage, and Python in it: for the tests of a given file.

    It holds the repository without what was handed in, an empty /tmp, and
    the file. What is written is kept in memory, and gone when it ends.
    """
    rights, proc = ["--unshare-user"], ["--proc", "/proc"]
    if not os.getuid():
        rights = [word for name in ("SYS_ADMIN", "SETUID", "SETGID")
                  for word in ("--cap-add", f"CAP_{name}")]
        proc = ["--dir", "/proc"]
    ours = (ROOT / "tools", ROOT / "docs" / "data", *ROOT.glob("0*_*"))
    seen = {os.path.realpath(path): str(path) for path in ours}
    seen |= {os.path.realpath(path): path for path in PACKAGES}
    for name in ("bwrap", "sh"):
        seen[os.path.realpath(shutil.which(name) or name)] = f"/usr/bin/{name}"
    words = closed(
        ["--die-with-parent", "--unshare-net", *rights],
        [*proc, *empty("/tmp", 4 * DISK), *empty(str(PLACE), DISK)],
        seen | {str(given): str(GIVEN)}, [],
    )
    return [*words, BINARY, "-ISc", OUTER,
            json.dumps({"limits": LIMITS_OUTSIDE}), BINARY]


def environment() -> dict[str, str]:
    """What the tests in the outer cage have for one."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT}
    path = os.pathsep.join([str(ROOT), *PACKAGES])
    return kept | {"PATH": "/usr/bin", "PYTHONPATH": path,
                   "HOME": "/tmp", "TMPDIR": "/tmp"}


def empty(path: str, size: int) -> list[str]:
    """Words for an empty folder in memory, for everybody."""
    return ["--perms", "1777", "--size", str(size), "--tmpfs", path]


def python(outer: Path) -> list[str]:
    """The inner cage, and Python in it: for the submission in this folder.

    Its file, and what that may import, it can only read.
    """
    uid, rights = 0, ["--unshare-user"]
    if not os.getuid():
        uid = random.SystemRandom().choice(USERS)
        rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID",
                  "--cap-add", "CAP_SETGID"]
    home, read = str(outer / WRITTEN), str(outer / READ)
    return [
        *closed(
            rights, ["--proc", "/proc", "--dir", str(outer)], {read: read},
            [*empty("/dev/shm", DISK), "--bind", home, home,
             "--chdir", home],
        ),
        BINARY, "-ISc", ENTER, json.dumps({
            "home": home, "uid": uid, "limits": LIMITS, "kept": KEPT,
        }), BINARY,
    ]


def check() -> None:
    """Raises DeskError, saying what to do, unless the cages close here."""
    or_else = ", or add --unprotected where nothing matters"
    if not shutil.which("bwrap"):
        raise DeskError(
            "what students wrote runs inside bubblewrap, which is not "
            "installed here: apt install bubblewrap" + or_else
        )
    done = subprocess.run(
        [*around(Path(os.devnull)), "-c",
         "from tools.learn import cage; cage.look_around()"],
        capture_output=True, text=True, check=False, env=environment(),
    )
    if done.stdout != "True\n":
        said = done.stderr.strip().rpartition("\n")[2] or "it is not tight"
        raise DeskError(
            f"bubblewrap cannot close its cage here ({said}): it has to be "
            "0.7 or newer and may have to run as root (sudo)" + or_else
        )


def look_around() -> None:
    """In the outer cage: print True if the inner one closes as well."""
    look = (
        f"import os; print(not os.path.exists({str(ROOT / 'tools')!r}) and "
        "os.getppid() == 1)"
    )
    outer = lay_out_place(PLACE)
    subprocess.run([*python(outer), "-c", look], check=False)


def lay_out_place(parent: Path) -> Path:
    """A new folder in this one, with the two folders of a submission."""
    outer = Path(tempfile.mkdtemp(dir=parent))
    outer.chmod(0o755)
    for name, rights in ((READ, 0o755), (WRITTEN, 0o777)):
        (outer / name).mkdir()
        (outer / name).chmod(rights)  # another user is there, for root
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
    if len(found) > PROCESSES:
        return f"it was ended: it ran more than {PROCESSES} processes"
    if used > RESIDENT:
        return f"it was ended: it used more than {RESIDENT >> 20} MB of memory"
    if psutil.virtual_memory().available < LEFT:
        return "it was ended: it ran while this machine was short of memory"
    return ""
