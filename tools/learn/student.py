"""A student's program as the tests of an exercise see it.

It is started as a process and spoken to over sockets, never imported.
Whatever goes wrong becomes a `Wrong`: an error whose text a beginner can
read, with what was sent and what came back.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from tools.common.files import lay_out, open_theirs
from tools.common.launch import READY, Launched
from tools.common.raw_client import Client, NoResponse, Response

LINUX = sys.platform == "linux"
TELLS = Path(f"/proc/self/task/{os.getpid()}/children").exists()
START_SECONDS = 5.0  # for the ready line
ANSWER_SECONDS = 4.0  # for anything a client waits for
STOP_SECONDS = 8.0  # for the end after a signal: 5 s of grace and some
SLEEP_SECONDS = 60.0  # for it to do all that it has to
LOOK_SECONDS = 0.02  # between two looks at what may come true
LATE_SECONDS = 0.04  # between two looks: if it is more, we wait for the CPU
PAGE_SIZE = 249  # bytes of the page's body
SHOWN = 160  # bytes of what was sent or received, in a message
MOST_SHOWN = 2000  # characters of the last line of a traceback
LEFT_BYTES = 1 << 20  # of a file that a program has left
LAST_LINES, LAST_BYTES = 40, 4000  # of what a program wrote, beside a failure
LAST_CALL = re.compile(r'  File ".*?([^/"]+)", line (\d+)')
# Given to the student: an error in one of these is one of its caller.
OURS = (
    "web.py", "accepting.py", "clients.py", "lifecycle.py", "emulated.py",
)
# How Python is run, unless behind a cage: who prints for ever fills no
# disk (blocks of 512 bytes: 16 MB).
PYTHON = ["sh", "-c", 'ulimit -f 32768; exec "$0" "$@"', sys.executable]

# What the visitors of the current test did; the plugin shows it.
visitors: list["Visitor"] = []
# What runs for the current test, or has run.
servers: list["Serving"] = []


class Wrong(AssertionError):
    """What a student has to read: what was expected, and what came.

    story: what was done before, a line each; the visitors' own stories
    are added where it is empty.
    """

    def __init__(
        self, expected: str, came: str, story: Sequence[str] = ()
    ) -> None:
        super().__init__(f"expected {expected}; {came}")
        self.expected = expected
        self.came = came
        self.story = list(story)


def shown(data: bytes) -> str:
    """Bytes as a Python string, long ones shortened in the middle."""
    if len(data) <= SHOWN:
        return repr(data)[1:]
    half = SHOWN // 2
    return f"{repr(data[:half])[1:]} ... {repr(data[-half:])[1:]}" + (
        f" ({len(data)} bytes)"
    )


def named(data: bytes) -> str:
    """What came, in words: a whole response by its status."""
    if match := re.match(rb"HTTP/1\.[01] (\d{3}) [^\r]*\r\n", data):
        return f"an answer with status {int(match[1])}"
    return shown(data)


class Clock:
    """Seconds, but for those in which a server waits for the CPU.

    All that has to be done in time is measured with it. A server sleeps
    as long as it is meant to, on whatever machine, and if it is right, it
    computes little. How long it waits for the CPU says nothing about it.
    """

    def __init__(self) -> None:
        self.now = self.looked = self.used = 0.0

    def __call__(self) -> float:
        """How late it is."""
        passed = time.monotonic() - self.looked
        if passed < LOOK_SECONDS:
            return self.now
        self.looked += passed
        before, self.used = self.used, sum(each.cpu() for each in servers)
        if LINUX and any(each.runs() for each in servers):
            self.now += min(passed, max(self.used - before, 0.0))
        else:
            self.now += min(passed, LATE_SECONDS)
        return self.now


clock = Clock()


def eventually(
    what: Callable[[], object], seconds: float = ANSWER_SECONDS
) -> bool:
    """Does it come true within these seconds, by the `Clock`?

    Returns as soon as so.
    """
    deadline = clock() + seconds
    while not what():
        if clock() > deadline:
            return bool(what())
        time.sleep(LOOK_SECONDS)
    return True


def ready(
    sockets: Sequence[socket.socket], seconds: float, to_send: bool = False
) -> list[socket.socket]:
    """Where something has come, or something can be sent.

    Waits until there is such a socket, or so long by the `Clock`.
    """

    def within(seconds: float) -> list[socket.socket]:
        reading, writing = ([], sockets) if to_send else (sockets, [])
        came, free, _ = select.select(reading, writing, [], seconds)
        return [*came, *free]

    found = within(0)
    deadline = 0.0 if found else clock() + seconds
    while not found and (left := deadline - clock()) > 0:
        found = within(min(left, LOOK_SECONDS))
    return found or within(0)


def children(process: psutil.Process) -> list[psutil.Process]:
    """Those it has started, from a kernel that says so (`TELLS`).

    psutil has to look at every process of the machine.
    """
    started = ""
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            path = Path(f"/proc/{process.pid}/task/{thread}/children")
            started += path.read_text()
    found = []
    for pid in started.split():
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(int(pid)))
    return found


def wants_to_run(process: psutil.Process) -> bool:
    """Does a thread of it run, or wait for the CPU or a disk, now?"""
    if not LINUX:
        with contextlib.suppress(psutil.Error):
            return bool(process.status() == psutil.STATUS_RUNNING)
        return False
    with contextlib.suppress(OSError):  # it has just ended
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with contextlib.suppress(OSError):
                path = Path(f"/proc/{process.pid}/task/{thread}/stat")
                if path.read_bytes().rpartition(b") ")[2][:1] in b"RD":
                    return True
    return False


def alive(process: psutil.Process) -> bool:
    """Does it still run? A zombie, which has ended, does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Visitor(Client):
    """One connection to the student's server, which tells its story."""

    def __init__(
        self, port: int, data: bytes = b"", *,
        timeout: float = ANSWER_SECONDS, receive_buffer: int | None = None,
    ) -> None:
        self.story: list[str] = ["connected"]
        self.spoke = time.monotonic()  # when we connected, or sent our last
        visitors.append(self)
        try:
            super().__init__(
                port, data, timeout=timeout, receive_buffer=receive_buffer
            )
        except OSError as error:
            raise Wrong(
                "a connection", f"it was refused: {error.strerror}"
            ) from None

    def __exit__(self, *error: object) -> None:
        self.socket.close()  # the test's end is no part of the story

    @staticmethod
    def clock() -> float:
        """Nobody is too late who waits for the CPU."""
        return clock()

    # What it does.

    def send(self, data: bytes) -> None:
        """Send all of data. Raises Wrong if the server hung up."""
        self.story.append(f"sent {shown(data)}")
        if not self.send_if_open(data):
            raise Wrong(
                "a server that reads this", "it had closed the connection"
            )

    def send_if_open(self, data: bytes) -> bool:
        """Send data, untold; False if the server hung up, or reads nothing."""
        self.spoke = time.monotonic()
        left = memoryview(data)
        while left:
            if not ready([self.socket], self.timeout, to_send=True):
                return False
            try:
                left = left[self.socket.send(left):]
            except OSError:
                return False
        return True

    def receive(self, timeout: float) -> bool:
        """Receive some bytes; False at the end of the connection."""
        if not ready([self.socket], timeout):
            raise NoResponse(f"nothing came in {timeout:.1f} s")
        return super().receive(0)

    def send_slowly(self, data: bytes, pause: float) -> None:
        """Send it byte by byte, so many seconds apart. Raises Wrong."""
        self.send_pieces(data, 1, pause)

    def send_pieces(
        self, data: bytes, size: int, pause: float = 0.02
    ) -> None:
        """Send it, so many bytes at a time, a breath apart. Raises Wrong."""
        how = f"{size} bytes at a time" if size > 1 else "byte by byte"
        self.story.append(f"sent, {how}, {shown(data)}")
        for start in range(0, len(data), size):
            if not self.send_if_open(data[start:start + size]):
                raise Wrong(
                    "a server that waits for the rest",
                    "it closed the connection before all was sent",
                )
            time.sleep(pause)

    def pause(self, seconds: float) -> None:
        """Send nothing for a while."""
        self.story.append(f"waited {seconds:g} s")
        time.sleep(seconds)

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self.story.append("ended our side (half-close)")
        super().half_close()

    def close(self) -> None:
        """Close in an orderly way."""
        self.story.append("closed")
        super().close()

    def reset(self) -> None:
        """Vanish without a goodbye."""
        self.story.append("vanished (reset)")
        super().reset()

    # What it expects.

    def expect_answer(
        self, expected: str = "an answer", head: bool = False,
        seconds: float | None = None,
    ) -> Response:
        """The next response, complete; head: to a HEAD, so without a body.

        Raises Wrong if none comes, or something that is not HTTP.
        """
        try:
            return self.response(head, seconds)
        except NoResponse as error:
            came = self._instead(str(error), seconds)
            raise Wrong(expected, came) from None

    def expect_status(
        self, *statuses: int, head: bool = False,
        seconds: float | None = None, wanted: str = "",
    ) -> Response:
        """The next response, which must have one of these statuses."""
        wanted = wanted or (
            "an answer with status " + " or ".join(map(str, statuses))
        )
        response = self.expect_answer(wanted, head, seconds)
        if response.status not in statuses:
            raise Wrong(wanted, f"status {response.status} came")
        return response

    def expect_page(
        self, head: bool = False, seconds: float | None = None
    ) -> Response:
        """The next response, which must be the page (head: only its head)."""
        response = self.expect_status(
            200, head=head, seconds=seconds, wanted="the page, status 200"
        )
        length = response.get("Content-Length")
        if length != str(PAGE_SIZE):
            raise Wrong(
                f"Content-Length: {PAGE_SIZE}", f"it was {length!r}"
            )
        if not head and b"It works!" not in response.body:
            raise Wrong(
                "the page, with 'It works!' in it",
                f"the body was {shown(response.body)}",
            )
        return response

    def expect_closed(self, seconds: float | None = None) -> None:
        """Nothing more, and the server closes within these seconds."""
        wanted = "that the server closes the connection"
        try:
            rest = self.rest(seconds)
        except NoResponse as error:
            came = self._instead(str(error), seconds)
            raise Wrong(wanted, came) from None
        if rest:
            raise Wrong(wanted, f"before that, {named(rest)} came")

    def expect_quiet(self, seconds: float) -> None:
        """Nothing comes for so long, and the connection stays open."""
        if ready([self.socket], seconds):
            raise self._too_soon(seconds)

    def expect_later(self, seconds: float) -> None:
        """Nothing comes before so long after we sent our last.

        For what a timer brings: that may be late, but it is never early.
        """
        left = self.spoke + seconds - time.monotonic()
        found, _, _ = select.select([self.socket], [], [], max(left, 0))
        if found and time.monotonic() < self.spoke + seconds:
            raise self._too_soon(seconds)

    def _too_soon(self, seconds: float) -> Wrong:
        """Something has come."""
        return Wrong(
            f"that nothing comes for {seconds:g} s",
            f"{named(self.received[self.taken:])} came" if self.receive(0.1)
            else "the server closed the connection",
        )

    def _instead(self, why: str, seconds: float | None) -> str:
        """What came instead of a response, in words."""
        rest = self.received[self.taken:]
        if why.startswith(("not ", "it has ", "its ")):  # no good response
            return why
        came = f"only {shown(rest)} came" if rest else "nothing came"
        if self.ended == "end":
            return f"{came}, and the server closed the connection"
        if self.ended:
            return f"{came}, and the connection was reset"
        patience = self.timeout if seconds is None else seconds
        return f"{came} within {patience:g} s"


class Program:
    """The student's file, and the processes that run it.

    path: the file, in a folder of its own with all that it may import,
    which a cage lets nobody change; python: the words that run Python,
    with a cage around it or not; home: where it runs and writes. What is
    there may be a trap, so that we open it with `left` and `opened` only.
    """

    def __init__(
        self, path: Path, python: Sequence[str] = (),
        home: Path | None = None,
    ) -> None:
        self.path = path
        self.home = home or path.parent
        self.python = list(python or PYTHON)

    def start(self, *options: str, descriptors: int = 0) -> "Serving":
        """Start it as a server on a free port, wait until it is ready.

        The delay is 0.05 s unless options say otherwise. descriptors: how
        many it may open (``ulimit -n``). Raises Wrong if it does not come
        up.
        """
        words = [str(self.path), *options]
        for option, value in (("--port", "0"), ("--delay", "0.05")):
            words += [] if option in words else [option, value]
        server = self.run(words, descriptors)
        server.expect_ready()
        return server

    def run(self, words: Sequence[str], descriptors: int = 0) -> "Serving":
        """Start Python with these words."""
        words = [*self.python, "-u", *words]
        server = Serving(words, cwd=self.home, descriptors=descriptors)
        server.caged = self.python[0] == "bwrap"
        servers.append(server)
        return server

    @contextlib.contextmanager
    def below(self, name: str, text: str) -> Iterator[None]:
        """Meanwhile this text stands below a file beside the student's.

        What starts meanwhile runs in a new folder: the old one stays as
        it is.
        """
        before = self.path
        each = list(before.parent.iterdir())
        links = [p.readlink() for p in each if p.is_symlink()]
        files = {
            p.name: p.read_bytes() for p in each
            if p.is_file() and not p.is_symlink()
        }
        files[name] += f"\n\n{text}".encode()
        self.path = lay_out(before.parents[1], files, links) / before.name
        try:
            yield
        finally:
            self.path = before

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """An ordinary file that it has left in its folder, to read.

        Raises Wrong, also for what would lead us to a file that it cannot
        read itself, or keep us waiting.
        """
        wanted = f"a file {name} that the program has written"
        try:
            file = open_theirs(self.home / name)
        except OSError as error:
            raise Wrong(wanted, str(error.strerror)) from None
        with file:
            if os.fstat(file.fileno()).st_nlink > 1:
                raise Wrong(wanted, "it is a link")
            yield file

    def left(self, name: str) -> bytes:
        """What is in such a file, which must not be large. Raises Wrong."""
        with self.opened(name) as file:
            found = file.read(LEFT_BYTES + 1)
        if len(found) > LEFT_BYTES:
            raise Wrong(
                f"a file {name} of at most {LEFT_BYTES >> 20} MB",
                "it is larger",
            )
        return found

    def values(self) -> dict[str, Any]:
        """The names in capitals that it sets, for files with answers.

        Raises Wrong if it ends with an error or in no time.
        """
        code = (  # what it prints itself ends at the NUL
            "import json, runpy, sys\n"
            "sys.path[0] = sys.argv[1].rpartition('/')[0]\n"
            "try:\n    found = runpy.run_path(sys.argv[1])\n"
            "except SystemExit:\n    sys.exit('it calls exit()')\n"
            "print('\\0' + json.dumps({k: v for k, v in found.items()"
            " if k.isupper()}))"
        )
        running = self.run(["-c", code, str(self.path)])
        running.waited = True
        status = running.wait(START_SECONDS)
        if status is None:
            raise Wrong(
                "that it ends", f"it still ran {START_SECONDS:g} s later"
            )
        if status:
            raise Wrong("that it runs", last_error(running.complaints))
        try:
            found = json.loads(running.output.rpartition("\0")[2])
        except ValueError:
            raise Wrong("that it runs to its end", "it ended before") from None
        return dict(found)

    def end(self) -> None:
        """Kill whatever still runs."""
        for each in servers:
            each.kill()
        servers.clear()


class Serving(Launched):
    """The student's server while it runs."""

    caged = False
    port = 0
    _init: psutil.Process | None = None  # of its cage
    waited = False  # for its end: it was meant to end

    def expect_ready(self) -> None:
        """Wait for the line that names the port. Raises Wrong."""
        eventually(
            lambda: READY.search(self.output) or self.ended(), START_SECONDS
        )
        wanted = "the line 'Serving on http://127.0.0.1:...', from announce()"
        if match := READY.search(self.output):
            self.port = int(match[2])
            self._root = self.own()  # what a cage costs is not its cost
            self._init = self._root.parent() if self.caged else None
            if not eventually(self._listens, START_SECONDS):
                raise Wrong(
                    wanted, f"it named port {self.port} and does not listen"
                )
        elif self.ended() and (self.complaints or not self.output):
            came = "it ended: " + last_error(self.complaints)
            raise Wrong("a server that starts", came)
        elif self.output:
            line = self.output.partition("\n")[0].rstrip().encode()
            raise Wrong(wanted, f"its first line was {shown(line)}")
        else:
            raise Wrong(
                wanted,
                f"it said nothing for {START_SECONDS:g} s"
                + " and kept the CPU busy: an endless loop?" * self.runs(),
            )

    def _listens(self) -> bool:
        """Is the port that it has named one of its own?"""
        found = set()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):  # it is just ending
                found |= {
                    each.laddr.port for each in process.net_connections("tcp")
                    if each.status == psutil.CONN_LISTEN
                }
        return self.port in found

    def ended(self) -> bool:
        """Has it ended?"""
        return self.status() is not None

    def wait(self, seconds: float = STOP_SECONDS) -> int | None:
        """Wait so long for its end; its exit status, None: it goes on."""
        eventually(self.ended, seconds)
        return self.status()

    # Asking it.

    def visit(
        self, data: bytes = b"", *, timeout: float = ANSWER_SECONDS,
        receive_buffer: int | None = None,
    ) -> Visitor:
        """A new connection; sends data if there is any."""
        return Visitor(
            self.port, data, timeout=timeout, receive_buffer=receive_buffer
        )

    def expect_page(self, seconds: float = ANSWER_SECONDS) -> None:
        """A new client gets the page within so many seconds."""
        with self.visit(get(close=True), timeout=seconds) as visitor:
            visitor.expect_page()

    def expect_overlap(
        self, clients: int, delay: float, target: str = "/"
    ) -> None:
        """So many clients at once get the page in less than half the time
        that they take one after the other.

        delay: of a request, in seconds, as the server was told. Raises
        Wrong.
        """
        patience = clients * delay / 2
        with self.frozen():  # all come at once, on a busy machine too
            made = [
                self.visit(get(target, close=True)) for _ in range(clients)
            ]
            deadline = clock() + patience
        for visitor in made:
            try:
                visitor.response(timeout=max(deadline - clock(), 0.01))
            except NoResponse:
                done = sum(v.received != b"" for v in made)
                came = (
                    "only the first was answered" if done == 1
                    else "some were not answered" if done
                    else "none was answered"
                )
                raise Wrong(
                    f"{clients} answers in less than {patience:g} s",
                    f"{came} by then: do they wait for each other?",
                    [f"{clients} clients asked for {target} at once; each "
                     f"request waits {delay:g} s"],
                ) from None
            finally:
                visitor.socket.close()

    def expect_alive(self) -> None:
        """It has not failed, and has written no traceback. Raises Wrong."""
        if self.ended() and not self.waited:
            raise Wrong(
                "a server that goes on serving",
                "it ended: " + last_error(self.complaints),
            )
        if "Traceback (most recent call last)" in self.complaints:
            raise Wrong(
                "a server that handles this",
                "it wrote a traceback: " + last_error(self.complaints),
            )

    def expect_idle(self, seconds: float = 1.0) -> None:
        """It leaves the CPU alone for so long. Raises Wrong.

        A server that spins wants to run whenever we look at it, also if
        others have the CPU; or it has computed a lot.
        """
        eventually(lambda: not self.runs(), 0.2)  # of what it still had to do
        begun, before = time.monotonic(), self.cpu()
        looks, wanted = round(seconds / LOOK_SECONDS), 0
        for _ in range(looks):
            time.sleep(LOOK_SECONDS)
            wanted += LINUX and self.runs()
        share = (self.cpu() - before) / (time.monotonic() - begun)
        if wanted > looks / 2 or share > 1 / 4:
            raise Wrong(
                "a server that sleeps while it has nothing to do",
                "it kept the CPU busy: what wakes it, again and again?",
            )

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the server's own process."""
        with contextlib.suppress(psutil.Error):
            self.own().send_signal(number)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """None of it runs meanwhile, as if the computer were too busy."""
        stopped: list[psutil.Process] = []
        while new := [
            p for p in self.processes() if p not in stopped and alive(p)
        ]:
            stopped += new
            for process in new:
                with contextlib.suppress(psutil.Error):
                    process.suspend()
            eventually(lambda: not self.runs())
        try:
            yield
        finally:
            for process in stopped:
                with contextlib.suppress(psutil.Error):
                    process.resume()

    def expect_end(self, seconds: float = STOP_SECONDS) -> str:
        """Wait for its end with status 0; what it printed meanwhile.

        Raises Wrong if it goes on, or ends with another status.
        """
        wanted = "a server that ends with status 0"
        self.waited = True
        status = self.wait(seconds)
        if status is None:
            raise Wrong(wanted, f"it still ran {seconds:g} s later")
        if status:
            said = self.complaints
            raise Wrong(
                wanted,
                f"its status was {status}"
                + (f": {last_error(said)}" if said else ""),
            )
        return READY.split(self.output)[-1]

    # What it costs, over all of its processes; see Launched for more.

    def processes(self) -> list[psutil.Process]:
        """Its process and those it started; fewer if some have ended."""
        if not TELLS:
            return super().processes()
        root = self._root
        self._seen = [root] if root and root.is_running() else []
        if self._init:  # who has left its parent is there
            self._seen += [p for p in children(self._init) if p != root]
        for process in self._seen:
            self._seen += children(process)
        return self._seen

    def runs(self) -> bool:
        """Does one of them run, or wait for the CPU, now?"""
        return any(map(wants_to_run, self.processes()))

    def cpu(self) -> float:
        """CPU seconds so far, of children that have ended as well."""
        return self._sum(lambda p: sum(p.cpu_times()[:4]))

    def thread_ids(self) -> set[int]:
        """The threads, by the kernel's numbers."""
        found = set()
        for process in self.processes():
            with contextlib.suppress(psutil.Error):  # just ended
                found |= {thread.id for thread in process.threads()}
        return found

    def sleeps(self) -> int:
        """How many times they have fallen asleep in the kernel so far."""
        return int(self._sum(lambda p: p.num_ctx_switches().voluntary))

    def falls_asleep(
        self, seconds: float = 0.2, longest: float = SLEEP_SECONDS
    ) -> bool:
        """Wait until it has slept for so long: it has nothing to do.

        longest: seconds after which it is False.
        A program that waits for the CPU does not sleep, so this is true
        on a busy machine as well.
        """
        since = time.monotonic()
        deadline = since + longest
        while time.monotonic() - since < seconds:
            if self.runs():
                since = time.monotonic()
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True

    def own(self) -> psutil.Process:
        """The process that runs the student's file. Raises psutil.Error.

        In a cage, bwrap starts the first process in there, and that one
        ours. Their names do not count: a program can change its own.
        """
        process = psutil.Process(self.pid)
        for _ in range(2 * self.caged):
            started = process.children()
            if not started:
                raise psutil.NoSuchProcess(process.pid)
            process = min(started, key=lambda p: (p.create_time(), p.pid))
        return process

    def children(self) -> list[psutil.Process]:
        """The processes it has started, those of its children too."""
        return self.processes()[1:]

    def workers(self) -> list[psutil.Process]:
        """Those of its children that still run: a zombie does not."""
        return [p for p in self.children() if alive(p)]


def get(
    target: str = "/", method: str = "GET", close: bool = False,
    **fields: str,
) -> bytes:
    """The bytes of a request. close: with ``Connection: close``."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test"]
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in fields.items()]
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode()


@contextlib.contextmanager
def together(made: Sequence[Visitor]) -> Iterator[Sequence[Visitor]]:
    """Visitors that are there at the same time; closed at the end."""
    try:
        yield made
    finally:
        for visitor in made:
            visitor.socket.close()  # no part of the story


def expect_pages(visitors: Sequence[Visitor]) -> None:
    """All get the page, in any order, and each closes when it has it."""
    left = list(visitors)
    while left:
        found = ready([v.socket for v in left], ANSWER_SECONDS)
        for visitor in [v for v in left if v.socket in found or not found]:
            visitor.expect_page()
            visitor.close()
            left.remove(visitor)


@contextlib.contextmanager
def telling(*story: str) -> Iterator[None]:
    """Whatever goes wrong inside is told with this story, a line each."""
    try:
        yield
    except Wrong as error:
        raise Wrong(error.expected, error.came, story) from None


def last_error(text: str) -> str:
    """The last line of a traceback, with file and line number."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "it said nothing on stderr"
    calls = [m for line in lines if (m := LAST_CALL.match(line))]
    own = [m for m in calls if m[1] not in OURS]
    where = ""
    if calls:
        call = next(
            (m for m in reversed(own) if "/lib/python" not in m.string),
            calls[-1],
        )
        where = f" ({call[1]}, line {call[2]})"
    return lines[-1].strip()[:MOST_SHOWN] + where


def wrote() -> list[str]:
    """The end of what the servers wrote, without the ready line, in lines."""
    printed = "".join(
        READY.sub("", each.output).partition("\0")[0] for each in servers
    )
    complained = "".join(each.complaints for each in servers)
    return [
        *last_lines("Your program printed:", printed),
        *last_lines("On stderr:", complained),
    ]


def last_lines(label: str, text: str) -> list[str]:
    """The last lines of what a program wrote, none if it wrote nothing."""
    if not text.strip():
        return []
    lines = text[-LAST_BYTES:].splitlines()
    if len(text) > LAST_BYTES or len(lines) > LAST_LINES:
        lines = ["...", *lines[-LAST_LINES:]]
    return [label, *(f"| {printable(line)}" for line in lines)]


def printable(line: str) -> str:
    """A line that does nothing to a terminal."""
    return "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in line.expandtabs()
    )
