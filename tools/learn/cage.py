"""What stands around a student's program while it is graded.

    python cage.py PLAN COMMAND...

takes a `Plan` as JSON, gives up every right that the program does not
need, and then becomes COMMAND. It uses nothing but the standard library:
the program's interpreter has none of our packages.

The best that a machine offers, in this order:

- limits (`setrlimit`), everywhere: what one process may use;
- another user (`setuid`), for root: it can neither signal nor change what
  is not its own;
- namespaces (Linux): it sees no other process, no other submission, not
  this repository, and writes only to a small file system of its own, which
  is gone when it ends. As root this needs no further rights; others make a
  user namespace first.

Two or three processes then stand one below the other: we wait for the
program and end as it ended; the first process of the namespace, which the
program cannot signal, collects orphans; below it runs the program.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

MEGA = 1 << 20
FAILED = 71  # our exit status if a protection could not be had
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SEVEN_EXAMINED")

# From <sched.h>, <sys/mount.h>, <linux/mount.h> and <linux/prctl.h>.
CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
RDONLY = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PR_SET_NO_NEW_PRIVS = 38


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


@dataclass
class Plan:
    """What to protect, and how.

    place: the program's folder; python: the interpreter for the program;
    ours: the word of the command that it replaces; uid: the user to
    become, 0: stay; apart: with namespaces; tests: not for a program but
    for the tests, which only need a limit of memory; network: one of its
    own; hidden: folders that the program shall not see; limits: see there.
    """

    place: str
    python: str = ""
    ours: str = ""
    uid: int = 0
    apart: bool = False
    tests: bool = False
    network: bool = False
    hidden: list[str] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)

    def words(self) -> list[str]:
        """The words to put before a command."""
        plan = json.dumps(dataclasses.asdict(self))
        # -I, -S: nothing of the student's folder is imported by us.
        python = self.python or sys.executable
        return [python, "-IS", str(Path(__file__).resolve()), plan]


def main(words: Sequence[str]) -> NoReturn:
    """Do what the plan says, then become the command."""
    found = json.loads(words[0])
    plan = Plan(**{**found, "limits": Limits(**found["limits"])})
    command = [plan.python if w == plan.ours else w for w in words[1:]]
    try:
        if plan.network:
            own_network()
        if plan.apart:
            enter_namespaces(plan)
        become(plan, command)
    except OSError as error:
        # Rather no program than one without its protection.
        print(f"the cage cannot be closed: {error}", file=sys.stderr)
        os._exit(FAILED)


# The last process: limits, another user, the program -----------------------


def become(plan: Plan, command: list[str]) -> NoReturn:
    """Give up rights, then run the command in place of us."""
    environment = {k: v for k, v in os.environ.items() if k in KEPT}
    if plan.tests:
        environment = dict(os.environ)
        limit(resource.RLIMIT_DATA, plan.limits.memory)
    else:
        os.setsid()
        environment |= {"HOME": plan.place, "TMPDIR": plan.place}
        set_limits(plan)
    with contextlib.suppress(OSError):  # who has to go if memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000")
    if plan.uid:
        os.setgroups([])
        os.setgid(plan.uid)
        os.setuid(plan.uid)
    if sys.platform == "linux" and not plan.tests:
        # sudo and its like give no rights any more.
        call("prctl", PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
    os.execvpe(command[0], command, environment)


def set_limits(plan: Plan) -> None:
    """What the kernel watches for each process."""
    limits = plan.limits
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, limits.seconds)
    limit(resource.RLIMIT_FSIZE, limits.file)
    limit(resource.RLIMIT_NOFILE, limits.descriptors)
    if sys.platform == "linux":
        # DATA counts what is writable; AS would also count what malloc
        # only reserves for its threads, 64 MB each.
        limit(resource.RLIMIT_DATA, limits.memory)
        shared = not plan.uid and not plan.apart
        others = own_threads() if shared else 0
        limit(resource.RLIMIT_NPROC, others + limits.processes)


def limit(what: int, most: int) -> None:
    """Lower a limit for good; a lower one stays as it is."""
    soft, hard = resource.getrlimit(what)

    def lower(value: int) -> int:
        return most if value == resource.RLIM_INFINITY else min(value, most)

    resource.setrlimit(what, (lower(soft), lower(hard)))


def own_threads() -> int:
    """How many threads our user runs now; the limit counts these too."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == os.getuid():
                total += int(path.read_text().split("Threads:")[1].split()[0])
    return total


# Namespaces -----------------------------------------------------------------


def call(name: str, *arguments: object) -> int:
    """Call a function of the C library. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    result = int(getattr(library, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """New namespaces; who is not root makes a user namespace as well."""
    user, group = os.getuid(), os.getgid()
    call("unshare", flags | (CLONE_NEWUSER if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def own_network() -> None:
    """A network with nothing but its own loopback."""
    unshare(CLONE_NEWNET)
    with socket.socket() as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        found = fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked)
        (flags,) = struct.unpack_from("h", found, 16)
        up = struct.pack("16sh14x", b"lo", flags | IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, up)


def enter_namespaces(plan: Plan) -> None:
    """Returns in the process that will be the program; see above."""
    unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID)
    read_end, write_end = os.pipe()
    first = os.fork()
    if first:
        os.close(write_end)
        end_as(read_end, first)
    os.close(read_end)
    furnish(plan)
    program = os.fork()
    if program:
        collect(program, write_end)
    os.close(write_end)


def end_as(read_end: int, first: int) -> NoReturn:
    """Outside: wait for the program and end as it ended."""
    said = os.read(read_end, 16)
    if said:
        status = int(said)
    else:  # no program was started
        _, status = os.waitpid(first, 0)
    if not os.WIFSIGNALED(status):
        os._exit(os.waitstatus_to_exitcode(status))
    number = os.WTERMSIG(status)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    while True:
        time.sleep(1)


def collect(program: int, write_end: int) -> NoReturn:
    """The first process: tell how the program ended, wait for orphans.

    Orphans go on until they end or somebody outside kills us, as they do
    without a cage: a test may look for what a server leaves behind.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # or a pipe would never end
        os.dup2(nothing, descriptor)
    while True:
        try:
            ended, status = os.wait()
        except ChildProcessError:
            os._exit(0)
        if ended == program:
            os.write(write_end, str(status).encode())


def furnish(plan: Plan) -> None:
    """Make the file system that the program sees."""
    here = os.open(plan.place, os.O_RDONLY | os.O_DIRECTORY)
    prefix = os.open(sys.base_prefix, os.O_RDONLY | os.O_DIRECTORY)
    mount("", "/", "", MS_REC | MS_SLAVE)  # nothing of it is seen outside
    for path in sorted(plan.hidden):
        if os.path.isdir(path):
            small("1m", path, "mode=755")
    if not os.path.isdir(os.path.join(sys.base_prefix, "lib")):
        os.makedirs(sys.base_prefix)
        mount(f"/proc/self/fd/{prefix}", sys.base_prefix, "",
              MS_BIND | MS_REC)
    os.makedirs(plan.place, exist_ok=True)
    owner = plan.uid or os.getuid()
    small(
        str(plan.limits.disk), plan.place,
        f"mode=700,uid={owner},nr_inodes={plan.limits.files}",
    )
    for name in os.listdir(here):
        copy(here, name, os.path.join(plan.place, name))
    own = [plan.place]
    if os.path.isdir("/dev/shm"):
        small("16m", "/dev/shm", "mode=1777,nr_inodes=1000")
        own.append("/dev/shm")
    with contextlib.suppress(OSError):  # some containers forbid it
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount_attributes("/", AT_RECURSIVE, add=RDONLY)
    for path in own:
        mount_attributes(path, 0, remove=RDONLY)
    os.close(here)
    os.close(prefix)
    os.chdir(plan.place)


def small(size: str, path: str, options: str) -> None:
    """A file system in memory, of so many bytes."""
    mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV,
          f"size={size},{options}")


def mount(
    source: str, path: str, kind: str, flags: int, options: str = ""
) -> None:
    """mount(2). Raises OSError."""
    call(
        "mount", source.encode(), path.encode(), kind.encode(),
        ctypes.c_ulong(flags), options.encode(),
    )


def mount_attributes(
    path: str, flags: int, add: int = 0, remove: int = 0
) -> None:
    """mount_setattr(2), since Linux 5.12. Raises OSError."""
    attributes = struct.pack("QQQQ", add, remove, 0, 0)
    call(
        "syscall", ctypes.c_long(SYS_MOUNT_SETATTR), AT_FDCWD,
        path.encode(), flags, attributes,
        ctypes.c_size_t(len(attributes)),
    )


def copy(folder: int, name: str, target: str) -> None:
    """Copy a regular file into the program's file system."""
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    with open(source, "rb") as file:
        if stat.S_ISREG(os.fstat(source).st_mode):
            with open(target, "wb") as made:
                shutil.copyfileobj(file, made)
            os.chmod(target, 0o644)


# After a submission ---------------------------------------------------------


def end_user(uid: int) -> None:
    """Kill every process of a user that we made up. For root only.

    A child becomes this user and kills whatever it may: the kernel takes
    care that this is nothing else, and nothing can fork in between.
    """
    if uid <= 0 or os.getuid() != 0:
        raise PermissionError("only root may do this, to another user")
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            for _ in range(100):
                if os.getresuid() == (uid, uid, uid):
                    os.kill(-1, signal.SIGKILL)
                time.sleep(0.02)
        except OSError:  # ProcessLookupError: there is no more
            pass
        finally:
            os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    if sys.argv[1] == "--end-user":
        end_user(int(sys.argv[2]))
    else:
        main(sys.argv[1:])
