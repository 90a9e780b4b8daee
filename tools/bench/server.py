"""One server process: start it, see what it costs, stop it."""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psutil

from tools.servers import ROOT, Server

READY_SECONDS = 15.0  # for a server to print that it listens
STOP_SECONDS = 8.0  # it promises 5; after this it is killed
WARM_UP_SECONDS = 10.0  # for one answer before measuring
POLL_SECONDS = 0.01
READY = re.compile(r"^Serving on (http://\S+:(\d+)/)", re.M)


class ServerError(Exception):
    """A server that does not start or answer; the text says why."""


class Process:
    """A running server. Use `start`."""

    def __init__(self, server: Server, delay: float) -> None:
        """Start the server and wait until it is ready.

        delay: seconds a request waits. Raises ServerError.
        """
        self.server = server
        self.switches: int | None = None  # of its whole life, once ended
        self._exit: int | None = None
        self._workers: list[psutil.Process] = []
        if not server.path.is_file():
            raise ServerError(f"there is no {server.file}")
        # Files, not pipes: they never fill. Closed in stop.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self.options = f"--delay {delay:g}"
        self._child = subprocess.Popen(
            [
                sys.executable, str(server.path), "--port", "0",
                *self.options.split(),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            start_new_session=True,  # Ctrl-C is ours: we end it
        )
        self.pid = self._child.pid
        try:
            self.url, self.port = self._wait_ready()
        except BaseException:
            self.stop()
            raise

    @property
    def command(self) -> str:
        """How to start it by hand on the port it has now."""
        return f"python3 {self.server.file} {self.options} --port {self.port}"

    def _wait_ready(self) -> tuple[str, int]:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            found = READY.search(_text(self._out))
            if found:
                return found[1], int(found[2])
            if self.died() is not None:
                raise ServerError(
                    f"the server does not start: {self.last_words()}"
                )
            time.sleep(POLL_SECONDS)
        raise ServerError(
            f"the server was not ready {READY_SECONDS:g} s after its start"
        )

    def warm_up(self, requests: int) -> None:
        """Send a few ordinary requests. Raises ServerError."""
        for _ in range(requests):
            client = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=WARM_UP_SECONDS
            )
            try:
                client.request("GET", "/")
                status = client.getresponse().status
            except (OSError, http.client.HTTPException) as error:
                why = f"GET / has no good answer: {scrub(str(error))}"
                if self.died() is not None:
                    why = f"the server died: {self.last_words()}"
                raise ServerError(why) from error
            finally:
                client.close()
            if status != 200:
                raise ServerError(f"GET / is answered with status {status}")

    def processes(self) -> list[psutil.Process]:
        """Its process and its workers; fewer if some have ended."""
        try:
            parent = psutil.Process(self.pid)
            self._workers = parent.children(recursive=True)
        except psutil.Error:
            return []
        return [parent, *self._workers]

    def died(self) -> int | None:
        """Its exit status (negative: the signal), None: still running."""
        if self._exit is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._exit = os.waitstatus_to_exitcode(status)
                self._child.returncode = self._exit
                self.switches = usage.ru_nvcsw + usage.ru_nivcsw
        return self._exit

    def ended(self, seconds: float) -> bool:
        """True if it has ended, or does so within this time."""
        deadline = time.monotonic() + seconds
        while self.died() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return self.died() is not None

    def last_words(self) -> str:
        """The last line it wrote to stderr, or how it ended."""
        lines = _text(self._err).strip().splitlines()
        if lines:
            return scrub(lines[-1].strip())
        status = self.died()
        if status is not None and status < 0:
            return f"ended by {signal.Signals(-status).name}"
        return f"exit status {status}"

    def stop(self) -> None:
        """SIGTERM, wait, kill what is left. Does nothing if it ended."""
        try:
            if self.died() is None:
                self.processes()  # its workers, in case we must kill it
                os.kill(self.pid, signal.SIGTERM)
                self.ended(STOP_SECONDS)
        finally:
            for worker in self._workers:  # psutil: never a reused pid
                with contextlib.suppress(psutil.Error):
                    worker.kill()
            if self.died() is None:
                os.kill(self.pid, signal.SIGKILL)
                while self.died() is None:
                    time.sleep(POLL_SECONDS)
            self._out.close()
            self._err.close()


@contextlib.contextmanager
def start(server: Server, delay: float) -> Iterator[Process]:
    """A fresh server on a free port, stopped at the end come what may.

    delay: seconds a request waits. Raises ServerError.
    """
    process = Process(server, delay)
    try:
        yield process
    finally:
        process.stop()


def scrub(text: str) -> str:
    """A text without local paths."""
    for folder, stands_for in (
        (f"{ROOT}/", ""), (str(ROOT), "."), (str(Path.home()), "~"),
    ):
        if len(folder) > 2:
            text = text.replace(folder, stands_for)
    return text


def _text(file: IO[bytes]) -> str:
    """All of a file that another process is writing."""
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")
