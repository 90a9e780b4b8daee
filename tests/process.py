"""Server processes for the tests: started, watched, stopped."""

import contextlib
import functools
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO

import psutil

from tools.common.raw_client import GET_CLOSE, Client
from tools.servers import ROOT, Server

READY = re.compile(r"Serving on http://127\.0\.0\.1:(\d+)/ \(Ctrl-C to stop\)")


def eventually(
    what: Callable[[], bool], seconds: float = 10, every: float = 0.02
) -> bool:
    """Does it come true within these seconds? Returns as soon as so."""
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True


@functools.cache
def why_no_uring() -> str:
    """Why there is no io_uring here, in a sentence; "" if there is."""
    command = [sys.executable, str(ROOT / "07_parallel" / "uring.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False
    )
    why = done.stdout + done.stderr if done.returncode else ""
    return " ".join(why.split())


def options_of(server: Server, options: tuple[str, ...]) -> list[str]:
    """The options with the tests' defaults: any port, short work."""
    found = [*server.options, *options]
    if "--port" not in options:
        found += ["--port", "0"]
    if "--delay" not in options:
        found += ["--delay", "0.02"]
    if server.step == 7 and "--workers" not in options:
        found += ["--workers", "2"]  # the same on every machine
    return found


class Running:
    """A server process and what it wrote."""

    def __init__(
        self,
        server: Server,
        options: tuple[str, ...],
        descriptors: int = 0,
        through: tuple[str, ...] = (),
    ) -> None:
        self.server = server
        self.command = [
            sys.executable, str(server.path), *options_of(server, options),
        ]
        limited = [*through]
        if descriptors:
            limit = f'ulimit -n {descriptors}; exec "$0" "$@"'
            limited += ["sh", "-c", limit]
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        environment = dict(os.environ)
        environment.pop("PYTHONUNBUFFERED", None)  # it has to flush
        self.process = subprocess.Popen(
            limited + self.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,  # a Ctrl-C here is not one for it
        )
        self.tree = psutil.Process(self.process.pid)
        self.port = 0
        self.output = ""

    def wait_until_ready(self, seconds: float = 30) -> None:
        """Read the ready line, which names the port."""
        assert self.process.stdout
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline().decode() if ready else ""
        match = READY.fullmatch(line.rstrip("\n"))
        if not match:  # never what an expected failure expects
            raise RuntimeError(
                f"expected the ready line, got {line!r}; on stderr: "
                f"{self.complaints()!r}"
            )
        self.port = int(match[1])

    def complaints(self) -> str:
        """What stands on stderr."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the server's own process."""
        self.process.send_signal(number)

    def wait(self, seconds: float = 15) -> int:
        """Wait for the end; the exit status."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"still running {seconds} s later: {self.command}"
            ) from None
        assert self.process.stdout
        with self.process.stdout:
            self.output = self.process.stdout.read().decode()
        return status

    def kill(self) -> None:
        """End it and its workers by force, if it still runs."""
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.kill()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.errors.close()

    # What it costs, over all of its processes.

    def processes(self) -> list[psutil.Process]:
        """The server's process and its workers."""
        with contextlib.suppress(psutil.Error):
            return [self.tree, *self.tree.children(recursive=True)]
        return []

    def descriptors(self) -> int:
        """Open descriptors."""
        return sum(p.num_fds() for p in self.processes())

    def threads(self) -> int:
        """Threads, the main ones too."""
        return sum(p.num_threads() for p in self.processes())

    def cpu(self) -> float:
        """CPU seconds so far."""
        times = [p.cpu_times() for p in self.processes()]
        return sum(t.user + t.system for t in times)

    def memory(self) -> int:
        """Resident bytes."""
        return int(sum(p.memory_info().rss for p in self.processes()))

    # Asking it.

    def client(self, data: bytes = b"", timeout: float = 20) -> Client:
        """Connect, and send data if there is any."""
        return Client(self.port, data, timeout=timeout)

    def assert_serves(self, seconds: float = 20) -> None:
        """GET / is answered."""
        with self.client(GET_CLOSE, timeout=seconds) as client:
            answer = client.answer()
            assert answer.status == 200, answer

    def exchange(self, data: bytes) -> bytes:
        """Send data, end our side, return all that comes back."""
        with self.client(data) as client:
            client.half_close()
            return client.rest()

    def warm_up(self) -> tuple[int, int]:
        """Bring every thread to life; (descriptors, threads) at rest."""
        clients = [self.client(GET_CLOSE) for _ in range(50)]
        for client in clients:
            client.answer()
            client.close()
        before = (-1, -1)
        for _ in range(100):
            now = (self.descriptors(), self.threads())
            if now == before:
                break
            before = now
            time.sleep(0.2)
        return before

    def assert_at_rest(self, before: tuple[int, int]) -> None:
        """Descriptors and threads come back to what they were."""
        now = before

        def back() -> bool:
            nonlocal now
            now = (self.descriptors(), self.threads())
            return now[0] <= before[0] and now[1] <= before[1]

        assert eventually(back), (
            f"(descriptors, threads) were {before} at the start "
            f"and are {now} 10 s after the last client left"
        )


@contextlib.contextmanager
def running(
    server: Server, *options: str, descriptors: int = 0
) -> Iterator[Running]:
    """A server that runs; stopped by SIGTERM, its end is checked.

    descriptors: how many it may open (``ulimit -n``).
    """
    process = Running(server, options, descriptors)
    try:
        process.wait_until_ready()
        yield process
        if process.process.poll() is None:
            process.signal(signal.SIGTERM)
        status = process.wait()
        assert (status, process.complaints()) == (0, ""), (
            "the server ended with (exit status, stderr)"
        )
    finally:
        process.kill()


@contextlib.contextmanager
def started(
    server: Server, *options: str, through: tuple[str, ...] = ()
) -> Iterator[Running]:
    """Like running(), but how it ends is the test's business.

    through: a command that runs the server's, as ``seccomp.py ... --``.
    """
    process = Running(server, options, through=through)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.kill()

