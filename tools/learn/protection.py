"""What stands between a submission and the rest of this machine.

The best that it offers, in this order:

- bubblewrap (Linux): a submission sees Python, the system's libraries and
  its own folder, no other process and no terminal, and has a network of its
  own. For root it runs as another user as well;
- another user, for root: it can neither signal nor change what is not its
  own;
- limits (`limited`), everywhere: what one process may use.
"""

import contextlib
import itertools
import json
import os
import pwd
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.learn import limited
from tools.learn.desk import DeskError
from tools.learn.examine import READ, WRITTEN, processes
from tools.servers import ROOT

MEGA = 1 << 20
TESTS_MEMORY = 1024 * MEGA  # bytes for the tests of a submission
USERS = range(30_000, 60_000)  # numbers that systems give to nobody
# Which of them is next: no two gradings at once begin at the same.
numbers = itertools.count(random.SystemRandom().randrange(len(USERS)))
# Where anybody may leave something.
TEMPORARY = (
    "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock", "/var/crash",
)
# All that a submission sees of this machine, besides its Python: libraries,
# and what names and times are looked up in. Never add what might hold
# somebody's files, as /usr or /opt: there may be a copy of the solutions.
SYSTEM = (
    "/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64",
    "/nix/store", "/usr/share/zoneinfo", "/etc/ld.so.cache", "/etc/localtime",
    "/etc/hosts", "/etc/nsswitch.conf",
)

PROTECTIONS = {
    "bubblewrap": "Each submission runs with files, processes and a network "
    "of its own (bubblewrap).",
    "user": "Each submission runs as a user of its own. Not protected: it "
    "can read what everybody may read on this machine, and connect to "
    "others' servers.",
    "limits": "Only limits protect this machine, from mistakes and not from "
    "cheating: a submission can read and change what you can, end your "
    "programs, and write its own result or another's.",
}


@dataclass
class Limits:
    """What a submission may use.

    seconds: of CPU, each process; memory, file: bytes, of data in a
    process, of a file; processes: threads count as well; descriptors: open
    in a process. disk and resident: bytes of all files, of all processes
    together; files: how many.
    """

    seconds: int = 60
    memory: int = 4096 * MEGA  # address space: stacks of threads are large
    resident: int = 768 * MEGA
    processes: int = 512
    descriptors: int = 2048
    file: int = 16 * MEGA
    disk: int = 64 * MEGA
    files: int = 2000


LIMITS = Limits()


class Place:
    """A folder for one submission, and the user it runs as (0: ours).

    home: its own folder; read: for its file, and what that may import;
    shared: for memory that processes share.
    """

    def __init__(self, outer: Path, uid: int) -> None:
        self.outer = outer
        self.uid = uid
        self.home = outer / WRITTEN
        self.read = outer / READ
        self.shared = outer / "shm"


@dataclass
class Protection:
    """name: a key of PROTECTIONS; binary: the Python for submissions."""

    name: str
    binary: str

    @property
    def apart(self) -> bool:
        """Has each submission a system of its own?"""
        return self.name == "bubblewrap"

    def python(self, place: Place) -> list[str]:
        """The words that run Python in this place, see `limited`."""
        limits = {
            "RLIMIT_CORE": 0, "RLIMIT_CPU": LIMITS.seconds,
            "RLIMIT_FSIZE": LIMITS.file, "RLIMIT_NOFILE": LIMITS.descriptors,
        }
        if sys.platform == "linux":
            # DATA counts what is writable; AS would also count what malloc
            # only reserves for its threads, 64 MB each. All processes of a
            # user count for NPROC.
            others = 0 if place.uid or self.apart else own_threads()
            limits["RLIMIT_DATA"] = LIMITS.memory
            limits["RLIMIT_NPROC"] = others + LIMITS.processes
        plan = {"home": str(place.home), "uid": place.uid, "limits": limits}
        script = limited.__file__
        words = []
        if self.apart:
            script = "/run/limited.py"
            words = self._bubblewrap(place)
        return [
            *words, self.binary, "-IS", script, json.dumps(plan), self.binary
        ]

    def _bubblewrap(self, place: Place) -> list[str]:
        library = str(Path(self.binary).parents[1] / "lib")
        seen = [*SYSTEM, library, self.binary]
        rights = ["--unshare-user"]
        if place.uid:  # `limited` becomes this user
            rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID",
                      "--cap-add", "CAP_SETGID"]
        return [
            "bwrap", "--unshare-pid", "--unshare-ipc", *rights,
            "--dir", str(place.outer),
            *(word for path in seen for word in (
                "--dir", os.path.dirname(path), "--ro-bind-try", path, path
            )),
            "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
            "--bind", str(place.shared), "/dev/shm",
            "--ro-bind", limited.__file__, "/run/limited.py",
            "--ro-bind", str(place.read), str(place.read),
            "--bind", str(place.home), str(place.home),
            "--remount-ro", "/", "--",
        ]

    def around_tests(self) -> list[str]:
        """Words to put before the tests: their network, their memory."""
        limit = f'ulimit -d {TESTS_MEMORY >> 10}; exec "$0" "$@"'
        words = ["sh", "-c", limit]
        if self.apart:
            rights = [] if os.getuid() else ["--cap-add", "ALL"]
            words = ["bwrap", "--bind", "/", "/", "--dev-bind", "/dev",
                     "/dev", "--unshare-net", *rights, "--", *words]
        return words

    @contextlib.contextmanager
    def a_place(self, work: Path) -> Iterator[Place]:
        """A new place in a folder.

        At the end its user's processes are killed and its files removed.
        """
        with contextlib.ExitStack() as stack:
            uid = 0 if os.getuid() else a_user()
            place = Place(Path(tempfile.mkdtemp(dir=work)), uid)
            stack.callback(remove, place.outer)
            place.outer.chmod(0o711)
            for folder in (place.home, place.shared):
                folder.mkdir(mode=0o700)
                if uid:
                    os.chown(folder, uid, uid)
            place.read.mkdir(mode=0o700)  # no other submission reads it
            if uid:
                os.chown(place.read, 0, uid)
                place.read.chmod(0o750)
                stack.callback(clear_user, uid)
            yield place

    def works(self, work: Path) -> bool:
        """Try it: is a program protected as it says?"""
        look = (
            "import os, sys; print(sys.version_info >= (3, 11), os.getuid(),"
            f" os.path.exists({str(ROOT / 'tools')!r}), os.getppid() == 1)"
        )
        with self.a_place(work) as place:
            done = subprocess.run(
                [*self.around_tests(), *self.python(place), "-c", look],
                capture_output=True, text=True, check=False,
            )
            user = place.uid or os.getuid()
        said = done.stdout.split()
        apart = not self.apart or said[2:] == ["False", "True"]
        return said[:2] == ["True", str(user)] and apart


def choose(wanted: str | None, work: Path) -> Protection:
    """The best that works here, or the one wanted, and says which.

    Raises DeskError if none does.
    """
    names = ["bubblewrap", "limits" if os.getuid() else "user"]
    why = "bubblewrap (bwrap) is not installed here."
    if not shutil.which("bwrap"):
        names.remove("bubblewrap")
    for name in [n for n in names if wanted in (None, n)]:
        for binary in pythons():
            protection = Protection(name, binary)
            if protection.works(work):
                said = [PROTECTIONS[name]]
                if wanted is None and not protection.apart:
                    said.append(why)
                print(" ".join(said), file=sys.stderr)
                return protection
        why = "bwrap cannot make namespaces here."
    raise DeskError(
        f"--protection {wanted} does not work here" if wanted
        else "as root, submissions need a user of their own, and no Python "
        "was found that another user may run: grade as an ordinary user"
    )


def pythons() -> list[str]:
    """Interpreters for submissions: ours without its packages, or any."""
    own = getattr(sys, "_base_executable", "") or sys.executable
    each = [own, shutil.which("python3", path="/usr/bin:/usr/local/bin")]
    return list(dict.fromkeys(os.path.realpath(p) for p in each if p))


def own_threads() -> int:
    """How many threads our user runs now."""
    total = 0
    for process in of_user(os.getuid()):
        with contextlib.suppress(psutil.Error):
            total += process.num_threads()
    return total


# Users that do not exist otherwise ------------------------------------------


def a_user() -> int:
    """The number of a user that does not exist, another each time."""
    known = {entry.pw_uid for entry in pwd.getpwall()}
    for _ in USERS:
        uid = USERS[next(numbers) % len(USERS)]
        if uid not in known and not of_user(uid):
            return uid
    raise DeskError("no number is free for the user of a submission")


def of_user(uid: int) -> list[psutil.Process]:
    """The processes of a user that still run."""
    return processes(
        lambda p: p.uids().real == uid and p.status() != psutil.STATUS_ZOMBIE
    )


def clear_user(uid: int) -> None:
    """End all processes of a user that we made up, remove its files.

    For root only. A child becomes this user and kills whatever it may: the
    kernel takes care that this is nothing else, and nothing can fork in
    between.
    """
    if uid not in USERS or os.getuid() != 0:
        raise PermissionError("only root may do this, to a user made up")
    kill = f"import os; os.setgid({uid}); os.setuid({uid}); os.kill(-1, 9)"
    for _ in range(100):  # the child may be killed by one of them
        subprocess.run(
            [sys.executable, "-ISc", kill], check=False,
            stderr=subprocess.DEVNULL,
        )
        if not of_user(uid):
            break
    for kind, word in (("shm", "-m"), ("msg", "-q"), ("sem", "-s")):
        with contextlib.suppress(OSError):  # System V's stay until removed
            head, *lines = Path("/proc/sysvipc", kind).read_text().splitlines()
            at = head.split().index("uid")
            for fields in map(str.split, lines):
                if fields[at] == str(uid):
                    subprocess.run(["ipcrm", word, fields[1]], check=False)
    for folder in TEMPORARY:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == uid:
                        remove(Path(entry.path))


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for all submissions, that others can pass but not list."""
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix="seven-grade-")))
    path.chmod(0o711)
    try:
        yield path
    finally:
        remove(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, however deep, locked or not."""
    for words in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        if os.path.lexists(path):
            subprocess.run(
                [*words, "--", path], check=False, stderr=subprocess.DEVNULL
            )
