"""The one launcher: a program that runs, what it says, what it costs.

Bench, exercises and tests start every server through `Launched`. What
they do with one that misbehaves differs, so they wrap it; how a process
is started, watched and ended is here and nowhere else.
"""

import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Self

import psutil

from tools.servers import ROOT

# The line that every server of ours prints when it is ready.
READY = re.compile(r"Serving on (http://[\d.]+:(\d+)/) \(Ctrl-C to stop\)\n")
READY_SECONDS = 15.0  # for a server to print it
STOP_SECONDS = 8.0  # it promises 5; after this it is killed
POLL_SECONDS = 0.005
ENDING = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # what ends us


class LaunchError(Exception):
    """A program that cannot be run, or is not ready; the text says why."""


class UnseenError(LaunchError):
    """A system that shows no processes, so what they cost is unknown."""


@functools.cache
def check_seen() -> None:
    """Raises UnseenError where psutil cannot see even this process."""
    try:
        psutil.Process().cpu_times()
    except (psutil.Error, OSError):
        raise UnseenError(
            "this system shows no processes: /proc is empty or not mounted"
        ) from None


def eventually(
    what: Callable[[], object], seconds: float = 10.0,
    every: float = POLL_SECONDS,
) -> bool:
    """Does it come true within these seconds? Returns as soon as so."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


@contextlib.contextmanager
def later(*numbers: signal.Signals) -> Iterator[None]:
    """What these signals do is done when the block is over.

    An exception in the middle of Popen would leave a child that nobody
    knows, and one after wait4() a child whose end nobody knows. A signal
    without a handler of Python's does what it does.
    """
    came: list[int] = []
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(
                    number, lambda number, frame: came.append(number)
                )
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for each in came:
        signal.raise_signal(each)


class Launched:
    """A running program with all the processes it starts."""

    def __init__(
        self, words: Sequence[str], *, cwd: Path | None = None,
        descriptors: int = 0,
    ) -> None:
        """Start it; its output goes to files, which never fill up a pipe.

        words: the command; cwd: its folder; descriptors: how many it may
        open (``ulimit -n``; 0: as many as we). Raises LaunchError.
        """
        self.words = list(words)
        limit = f'ulimit -n {descriptors}; exec "$0" "$@"'
        shell = ["sh", "-c", limit] if descriptors else []
        environment = {  # get: another thread may change it meanwhile
            name: os.environ.get(name, "") for name in os.environ
            if name != "PYTHONUNBUFFERED"  # it has to flush
        }
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._status: int | None = None
        self._seen: list[psutil.Process] = []
        self._root: psutil.Process | None = None
        self.switches: int | None = None  # context switches, once ended
        try:
            with later(*ENDING):
                self._child = subprocess.Popen(
                    [*shell, *words], cwd=cwd, env=environment,
                    stdin=subprocess.DEVNULL, stdout=self._out,
                    stderr=self._err,
                    start_new_session=True,  # Ctrl-C is ours: we end it
                )
                self.pid = self._child.pid
                with contextlib.suppress(psutil.Error, OSError):
                    self._root = psutil.Process(self.pid)
        except OSError as error:
            why = f"{words[0]} cannot be run: {error.strerror}"
            raise LaunchError(scrub(why)) from error
        except KeyboardInterrupt:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    # What it says.

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return _text(self._out)

    @property
    def complaints(self) -> str:
        """What stands on its stderr so far."""
        return _text(self._err)

    def last_words(self) -> str:
        """The last line it wrote to stderr, or how it ended."""
        lines = self.complaints.strip().splitlines()
        if lines:
            return scrub(lines[-1].strip())
        status = self.status()
        if status is not None and status < 0:
            return f"ended by {signal.Signals(-status).name}"
        return f"exit status {status}"

    def wait_until_ready(
        self, seconds: float = READY_SECONDS, port: int = 0
    ) -> int:
        """Wait for the ready line, its first; the port it names.

        port: until it listens there, for one that prints no such line.
        Raises LaunchError if it ends, or prints something else or nothing.
        """

        def ready() -> bool:
            return _listens(port) if port else "\n" in self.output

        eventually(lambda: self.status() is not None or ready(), seconds)
        match = READY.match(self.output)
        if match and not port:
            return int(match[2])
        if self.status() is not None:
            raise LaunchError(
                f"the server does not start: {self.last_words()}"
            )
        if not ready():
            raise LaunchError(
                f"the server was not ready {seconds:g} s after its start"
            )
        if not port:
            raise LaunchError(
                f"expected the ready line, got {self.output[:200]!r}"
            )
        return port

    # Its life.

    def status(self) -> int | None:
        """Its exit status (negative: the signal), None: still running."""
        if self._status is None:
            with later(*ENDING):  # a status is told once only
                pid, status, usage = os.wait4(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
                    self._child.returncode = self._status
                    self.switches = usage.ru_nvcsw + usage.ru_nivcsw
        return self._status

    def signal(self, number: int) -> None:
        """Send a signal to its own process, unless it has ended."""
        if self.status() is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float = STOP_SECONDS) -> int | None:
        """Wait so long for its end; its exit status, None: it goes on."""
        eventually(lambda: self.status() is not None, seconds)
        return self.status()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM, wait, kill what is left. Does nothing if it ended."""
        try:
            self._family()  # its workers, in case we must kill them
            self.signal(signal.SIGTERM)
            self.wait(seconds)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it and all it started, by force; forget what it said."""
        self._family()
        for process in self._seen:  # psutil: never a reused pid
            with contextlib.suppress(psutil.Error):
                process.kill()
        if self._root is None and self.status() is None:
            os.killpg(self.pid, signal.SIGKILL)  # all that we know of
        self.signal(signal.SIGKILL)
        while self.status() is None:
            time.sleep(POLL_SECONDS)
        self._out.close()
        self._err.close()

    # What it costs, over all of its processes.

    def processes(self) -> list[psutil.Process]:
        """Its process and those it started; fewer if some have ended.

        Raises UnseenError.
        """
        check_seen()
        return self._family()

    def _family(self) -> list[psutil.Process]:
        """Its processes; kept, for whoever has to kill them."""
        if self._root is None:
            return []
        try:
            found = [self._root, *self._root.children(recursive=True)]
        except (psutil.Error, OSError):
            return []
        self._seen = found
        return found

    def _sum(self, of: Callable[[psutil.Process], float]) -> float:
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.Error):  # just ended
                total += of(process)
        return total

    def descriptors(self) -> int:
        """Open descriptors."""
        return int(self._sum(lambda p: p.num_fds()))

    def threads(self) -> int:
        """Threads, the main ones too."""
        return int(self._sum(lambda p: p.num_threads()))

    def cpu(self) -> float:
        """CPU seconds so far, those of processes that have ended too."""
        return self._sum(lambda p: sum(p.cpu_times()[:4]))

    def memory(self) -> int:
        """Resident bytes."""
        return int(self._sum(lambda p: p.memory_info().rss))


@functools.cache
def why_no_uring() -> str:
    """Why step 07 has no io_uring here, a sentence; "" if it has."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "07_parallel" / "uring.py")],
        capture_output=True, text=True, check=False,
    )
    why = done.stdout + done.stderr if done.returncode else ""
    return " ".join(why.split())


def scrub(text: str) -> str:
    """A text without local paths."""
    for folder, stands_for in (
        (f"{ROOT}/", ""), (str(ROOT), "."), (str(Path.home()), "~"),
    ):
        if len(folder) > 2:
            text = text.replace(folder, stands_for)
    return text


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def _text(file: IO[bytes]) -> str:
    """All of a file that another process is writing; "" once closed."""
    if file.closed:
        return ""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")
