"""Ends submissions that use too much, or all if we are interrupted."""

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tools.learn.examine import MARK, Surroundings
from tools.learn.protection import LIMITS, MEGA

LOOK_SECONDS = 0.25  # between two looks
LEFT = 256 * MEGA  # bytes of memory and of disk that this machine keeps


@dataclass
class Look:
    """What was seen of a process. memory: resident, in bytes."""

    process: psutil.Process
    parent: int
    uid: int
    memory: int
    mark: str


def look_around() -> list[Look]:
    """All processes, as far as we may look at them."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError), process.oneshot():
            look = Look(
                process, process.ppid(), process.uids().real,
                process.memory_info().rss, "",
            )
            found.append(look)
            look.mark = process.environ().get(MARK, "")
    return found


@dataclass
class Watched:
    """A submission that is being examined.

    uid: its user (0: ours); folder: all its files; reason: why it was
    ended, "" as long as it was not.
    """

    uid: int
    folder: Path
    around: Surroundings = field(default_factory=Surroundings)
    reason: str = ""

    def of_it(self, seen: Sequence[Look]) -> list[Look]:
        """The processes that belong to it, the tests' own as well."""
        own = {
            x.process.pid for x in seen
            if x.mark == self.around.mark or (self.uid and x.uid == self.uid)
        }
        size = -1
        while size != len(own):  # children of children
            size = len(own)
            own |= {x.process.pid for x in seen if x.parent in own}
        return [x for x in seen if x.process.pid in own]

    def check(self, own: Sequence[Look]) -> None:
        """Say why it has to end, if so."""
        if sum(x.memory for x in own) > LIMITS.resident:
            much = f"used more than {LIMITS.resident // MEGA} MB of memory"
        elif len(own) > LIMITS.processes:
            much = f"had more than {LIMITS.processes} processes"
        elif too_much(self.folder):
            much = (
                f"wrote more than {LIMITS.disk // MEGA} MB or "
                f"{LIMITS.files} files"
            )
        elif what := too_little(self.folder):
            much = f"ran while this machine was short of {what}"
        else:
            return
        self.reason = f"it was ended: it {much}"


def too_little(folder: Path) -> str:
    """What this machine runs out of: memory, or the disk of a folder.

    For all that cannot be counted for one submission: files that have no
    name any more, memory that no process maps.
    """
    if psutil.virtual_memory().available < LEFT:
        return "memory"
    with contextlib.suppress(FileNotFoundError):  # it has ended by now
        if shutil.disk_usage(folder).free < LEFT:
            return "disk"
    return ""


def too_much(folder: Path) -> bool:
    """Has a folder more bytes or files than a submission may have?"""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error  # too deep, or closed to us

    size = files = 0
    try:
        for path, folders, names in os.walk(folder, onerror=refuse):
            for name in [*folders, *names]:
                files += 1
                with contextlib.suppress(FileNotFoundError):
                    size += os.lstat(f"{path}/{name}").st_blocks * 512
            if size > LIMITS.disk or files > LIMITS.files:
                return True
    except OSError:
        return True
    return False


class Watcher:
    """Looks after all submissions, in a thread."""

    def __init__(self) -> None:
        self.watched: list[Watched] = []
        self.over = threading.Event()
        # Interrupted: all is ended, also what begins at this moment.
        self.stopping = False
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> "Watcher":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()

    def watch(self) -> None:
        """Look again and again."""
        while not self.over.wait(LOOK_SECONDS):
            if now := [*self.watched]:
                seen = look_around()
                for one in now:
                    self.look_at(one, one.of_it(seen))

    def look_at(self, one: Watched, own: Sequence[Look]) -> None:
        """End one that has to end."""
        if self.stopping:
            one.reason = "the grading was interrupted"
        elif not one.reason:
            one.check(own)
        if one.reason:
            for look in own:
                with contextlib.suppress(psutil.Error):
                    look.process.kill()

    @contextlib.contextmanager
    def watching(self, one: Watched) -> Iterator[None]:
        """Look after this one for a while."""
        self.watched.append(one)
        try:
            yield
        finally:
            self.watched.remove(one)
