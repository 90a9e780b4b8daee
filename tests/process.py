"""Server processes for the tests: `Launched`, and what they assert."""

import contextlib
import importlib.util
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import psutil

from tools.common.launch import Launched
from tools.common.launch import eventually as eventually
from tools.common.launch import why_no_uring as why_no_uring
from tools.common.raw_client import GET_CLOSE, Client, NoResponse
from tools.learn.student import wants_to_run
from tools.servers import POOL, SKETCHES, Server

PATIENCE = 60.0  # seconds for what takes a moment, on a very busy machine
SHORT = 8.0  # of patience with a sketch, which may never answer
SKETCH_PAGE = b"hello\n"
QUEUES = Path("/proc/net/tcp")  # what has not been read yet
# What runs the servers: our own Python, unless SEVEN_PYTHON names another.
OTHER = os.environ.get("SEVEN_PYTHON", "")
PYTHON = OTHER or sys.executable
LOOK = (
    "import json, sys; print(json.dumps([sys.version_info[:2], "
    "getattr(sys, '_is_gil_enabled', lambda: True)(), "
    "sys.implementation.name == 'pypy']))"
)
VERSION, HAS_GIL, PYPY = json.loads(subprocess.run(
    [PYTHON, "-c", LOOK], stdout=subprocess.PIPE, check=True
).stdout)  # fmt: skip

if PYPY:  # or it looks for the size in /proc, and warns if that is empty
    os.environ.setdefault("PYPY_GC_NURSERY", "4M")


def options_of(server: Server, options: tuple[str, ...]) -> list[str]:
    """The options with the tests' defaults: any port, short work."""
    found = [*server.options, *options]
    if "--port" not in options:
        found += ["--port", "0"]
    if "--delay" not in options:
        found += ["--delay", "0.02"]
    if server.step == 7 and server.workers and "--workers" not in options:
        found += ["--workers", "2"]  # the same on every machine
    return found


def unread(clients: Iterable[Client]) -> list[Client]:
    """The clients of which the server has not read all that they sent.

    Its kernel says so on Linux; elsewhere it has had the time to.
    """
    if not QUEUES.exists():
        time.sleep(0.3)
        return []
    empty = set()  # the ports of connections without unread bytes
    for line in QUEUES.read_text().splitlines()[1:]:
        _, here, there, _, queues, *_ = line.split(None, 5)
        if queues.endswith(":00000000"):
            empty.add((here[-4:], there[-4:]))
    return [
        client for client in clients
        if tuple(
            f"{port:04X}" for _, port in
            (client.socket.getpeername(), client.socket.getsockname())
        ) not in empty
    ]


def readable(clients: Iterable[Client], seconds: float) -> list[Client]:
    """Whose bytes, or whose end, are here within so long.

    Not with select(), which takes no descriptor above 1,023.
    """
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        return [key.data for key, _ in selector.select(seconds)]


def take(
    sock: socket.socket, wanted: int = 1 << 40, most: int = 1 << 18
) -> bytearray:
    """Receive so many bytes, or less if the server ends before."""
    data = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(min(most, wanted - len(data))):
            data += part
    return data


def alive(process: psutil.Process) -> bool:
    """Does it still run? A zombie does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Running(Launched):
    """A server process."""

    def __init__(
        self, server: Server, options: tuple[str, ...],
        descriptors: int = 0, through: tuple[str, ...] = (),
    ) -> None:
        """descriptors: how many it may open (``ulimit -n``).

        through: a command that runs the server's, as ``seccomp.py ... --``.
        """
        self.server = server
        self.sketch = server in SKETCHES
        self.patience = SHORT if self.sketch else PATIENCE
        self.port = 0
        self.closing = ""  # what it printed after the ready line
        super().__init__(
            [*through, PYTHON, str(server.path),
             *options_of(server, options)], descriptors=descriptors,
        )  # fmt: skip

    def wait(self, seconds: float = PATIENCE) -> int:
        """Wait for the end; the exit status."""
        status = super().wait(seconds)
        assert status is not None, f"still running {seconds} s later"
        self.closing = self.output.partition("\n")[2]
        return status

    def assert_ends(self) -> None:
        """It ends as it should, and has complained about nothing.

        A sketch has no way to stop: it still runs, without a traceback.
        """
        if self.sketch:  # 01 says a line for each request
            assert self.status() is None, self.complaints
            assert "Traceback" not in self.complaints, self.complaints
            return
        status = self.wait()
        assert (status, self.complaints) == (0, ""), "(status, stderr)"

    def client(
        self, data: bytes = b"", timeout: float | None = None
    ) -> Client:
        """Connect, and send data if there is any."""
        return Client(self.port, data, timeout=timeout or self.patience)

    def assert_serves(self, seconds: float | None = None) -> None:
        """GET / has a response."""
        with self.client(GET_CLOSE, timeout=seconds) as client:
            response = client.response()
            assert response.status == 200, response

    def serves(self, seconds: float | None = None) -> bool:
        """Does GET / have a response?"""
        with contextlib.suppress(NoResponse, OSError):
            self.assert_serves(seconds)
            return True
        return False

    def workers(self) -> list[psutil.Process]:
        """The processes that serve, in 07."""
        return self.processes()[1:]

    def at_rest(self) -> tuple[int, int]:
        """Descriptors and threads at this moment."""
        return self.descriptors(), self.threads()

    def busy(self, seconds: float) -> bool:
        """Does it want to run most of the times that we look, for so long?

        Who spins does, also where others have the CPU.
        """
        family, looks = self.processes(), round(seconds * 50)
        wanted = 0
        for _ in range(looks):
            time.sleep(0.02)
            wanted += any(map(wants_to_run, family))
        return wanted > looks / 2

    def warm_up(self) -> tuple[int, int]:
        """Bring every thread to life; (descriptors, threads) at rest.

        A server that gets no CPU may keep its last connections open for
        long. Only one that opens a file for its first response needs more
        descriptors than before it: its number stays the same for long.
        """
        first = self.descriptors()
        clients = [self.client(GET_CLOSE) for _ in range(40)]
        for client in clients:
            client.response()
            client.close()
        seen = [self.at_rest()]

        def settled() -> bool:
            seen.append(self.at_rest())
            looks = 2 if seen[-1][0] <= first else 25
            return len(seen) >= looks and len({*seen[-looks:]}) == 1

        eventually(settled, PATIENCE, every=0.2)
        descriptors, threads = seen[-1]
        if self.server.lessons["threads"] == POOL:  # made when it is busy
            threads = max(threads, 1 + min(32, (os.cpu_count() or 1) + 4))
        return descriptors, threads

    def assert_at_rest(self, before: tuple[int, int]) -> None:
        """Descriptors and threads come back to what they were."""
        assert eventually(
            lambda: all(a <= b for a, b in zip(
                self.at_rest(), before, strict=True)), self.patience, 0.02,
        ), f"(descriptors, threads) were {before}, are {self.at_rest()}"


@contextlib.contextmanager
def running(
    server: Server, *options: str, descriptors: int = 0
) -> Iterator[Running]:
    """A server that runs; stopped by SIGTERM, its end is checked."""
    with started(server, *options, descriptors=descriptors) as process:
        yield process
        if not process.sketch:
            process.signal(signal.SIGTERM)
        process.assert_ends()


@contextlib.contextmanager
def started(
    server: Server, *options: str, descriptors: int = 0,
    through: tuple[str, ...] = (),
) -> Iterator[Running]:
    """Like running(), but how it ends is the test's business."""
    process = Running(server, options, descriptors, through)
    try:
        process.port = process.wait_until_ready(PATIENCE)
        yield process
    finally:
        process.kill()


def load(path: Path) -> ModuleType:
    """A file of a server's folder as a module, with its neighbours.

    The neighbours are its own: other folders have modules of the same
    names, and another load of this one begins anew.
    """
    name = f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    neighbours = {each.stem for each in path.parent.glob("*.py")}
    before = {n: sys.modules.pop(n) for n in neighbours & {*sys.modules}}
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
        for neighbour in neighbours & {*sys.modules}:
            del sys.modules[neighbour]
        sys.modules.update(before)
    return module
