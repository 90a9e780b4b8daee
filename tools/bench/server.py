"""One server process: start it, see what it costs, stop it."""

import contextlib
import http.client
import os
import re
import signal
import socket
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


class Running:
    """A running web server of any kind, with its worker processes."""

    command = ""  # how to start it by hand on the port it has now

    def __init__(
        self, words: list[str], cwd: Path | None = None, port: int = 0
    ) -> None:
        """Start it in the folder cwd and wait until it is ready.

        port: ready is when it listens there. Raises ServerError.
        """
        self._fixed_port = port
        self.command = " ".join(words)
        self.switches: int | None = None  # of its whole life, once ended
        self._exit: int | None = None
        self._workers: list[psutil.Process] = []
        # Files, not pipes: they never fill. Closed in stop.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._child = subprocess.Popen(
                words,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                start_new_session=True,  # Ctrl-C is ours: we end it
            )
        except OSError as error:
            why = f"{words[0]} cannot be run: {error.strerror}"
            raise ServerError(scrub(why)) from error
        self.pid = self._child.pid
        try:
            self.url, self.port = self._wait_ready()
        except BaseException:
            self.stop()
            raise

    def _ready(self) -> tuple[str, int] | None:
        """Its address and port if it is ready, else None."""
        port = self._fixed_port
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return f"http://127.0.0.1:{port}/", port
        return None

    def _wait_ready(self) -> tuple[str, int]:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            found = self._ready()
            if found:
                return found
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
            self._get()

    def check_page(self, kind: str, body: bytes) -> None:
        """See that GET / is answered with this page.

        kind: its Content-Type. Raises ServerError.
        """
        fields, found = self._get()
        if found != body:
            raise ServerError(
                f"GET / is answered with another page ({len(found)} bytes "
                f"instead of {len(body)})"
            )
        wanted = {"Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in wanted.items():
            if fields.get(name) != value:
                raise ServerError(
                    f"GET / is answered with {name}: "
                    f"{fields.get(name, 'none')} instead of {value}"
                )

    def _get(self) -> tuple[http.client.HTTPMessage, bytes]:
        """The header fields and the body of GET /. Raises ServerError."""
        client = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=WARM_UP_SECONDS
        )
        try:
            client.request("GET", "/")
            answer = client.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            why = f"GET / has no good answer: {scrub(str(error))}"
            if self.died() is not None:
                why = f"the server died: {self.last_words()}"
            raise ServerError(why) from error
        finally:
            client.close()
        if answer.status != 200:
            raise ServerError(
                f"GET / is answered with status {answer.status}"
            )
        return answer.msg, body

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

    def status(self) -> int | None:
        """Its exit status, None: still running."""
        return self.died()

    def wait(self, seconds: float = STOP_SECONDS) -> int | None:
        """Wait so long for its end; its exit status, None: it goes on."""
        self.ended(seconds)
        return self.died()

    def signal(self, number: int) -> None:
        """Send a signal to its own process."""
        os.kill(self.pid, number)

    @property
    def complaints(self) -> str:
        """What stands on its stderr so far."""
        return _text(self._err)

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


class Process(Running):
    """A running server of ours. Use `start`."""

    def __init__(
        self,
        server: Server,
        delay: float,
        options: tuple[str, ...] = (),
        python: str = sys.executable,
    ) -> None:
        """Start the server and wait until it is ready.

        delay: seconds a request waits; options: more for its command
        line; python: the interpreter. Raises ServerError.
        """
        self.server = server
        if not server.path.is_file():
            raise ServerError(f"there is no {server.file}")
        words = ["--delay", f"{delay:g}", *server.options, *options]
        self.options = " ".join(words)
        super().__init__([python, str(server.path), "--port", "0", *words])
        self.command = (
            f"python3 {server.file} {self.options} --port {self.port}"
        )

    def _ready(self) -> tuple[str, int] | None:
        found = READY.search(_text(self._out))
        return (found[1], int(found[2])) if found else None


@contextlib.contextmanager
def start(
    server: Server,
    delay: float,
    options: tuple[str, ...] = (),
    python: str = sys.executable,
) -> Iterator[Process]:
    """A fresh server on a free port, stopped at the end come what may.

    delay: seconds a request waits; options: more for its command line;
    python: the interpreter. Raises ServerError.
    """
    process = Process(server, delay, options, python)
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


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
