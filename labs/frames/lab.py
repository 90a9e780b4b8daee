"""Lab: an echo of 100 MB frames, and the copies on the way.

A frame is 8 bytes that say how long it is, then that many bytes. The
server receives the whole frame, then sends it back. Every variant of
links.py does that, and each removes a copy that another one makes. Most
of the time goes where the program never looks: into memory.

Run it:     python3 labs/frames/lab.py
Try this:   python3 labs/frames/lab.py --only streams,sock
            the same with --shape two, or with
            GLIBC_TUNABLES=glibc.malloc.hugetlb=1 set (Linux): then a
            buffer costs 49 page faults of 2 MiB, not 24,415 of 4 KiB
It runs on Python 3.8 and later; uvloop, Tornado and trio are measured
where they are installed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import importlib
import itertools
import json
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

try:
    import resource
except ImportError:
    sys.exit("lab.py: it needs Linux or macOS; here, try WSL")

from links import HEAD, VARIANTS, FrameError, Memory, Reused, Variant

HOST = "127.0.0.1"
COLUMNS = """\
copies: of a frame in our own memory, for each echo
CPU, faults: of the server (shape one: and of the client), a whole run

variant          MB/s  copies  CPU s user + system   faults"""
MOST = 10**9  # bytes of a frame, or frames
PATIENCE = 30  # seconds for a client to come, or for a server to end


# === Client and server ==============================================


def frame_of(size: int) -> bytearray:
    """A frame that does not repeat itself soon."""
    noise = os.urandom(min(size, 1_000_003))
    return bytearray((noise * (size // len(noise) + 1))[:size])


def stamp(frame: bytearray, number: int) -> None:
    """Make a frame differ from the last one, at both ends."""
    mark = HEAD.pack(number)[:len(frame)]
    frame[:len(mark)] = mark
    frame[-len(mark):] = mark


def check(frame: bytearray, echo: Any, every: bool = False) -> None:
    """That they are equal: length and end. Raises FrameError.

    every: each byte. That takes a while, so not on the clock.
    """
    if echo is None:
        raise FrameError("the server closed before it had responded")
    part = slice(None) if every else slice(-64, None)
    view = memoryview(echo)
    if len(view) != len(frame) or view[part] != frame[part]:
        raise FrameError("the echo is not what was sent")


def ready(sock: socket.socket) -> socket.socket:
    """Blocking, and no waiting for more to send (asyncio's default)."""
    sock.setblocking(True)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def connect(port: int) -> socket.socket:
    """A connection to a server on this machine."""
    return ready(socket.create_connection((HOST, port), PATIENCE))


def ask_blocking(link: Any, frame: bytearray) -> Any:
    """Send a frame in a thread, and receive its echo meanwhile.

    A server that sends on at once would stand still otherwise: both
    sides would wait for each other to read.
    """
    def send() -> None:
        with contextlib.suppress(OSError):  # read() says it as well
            link.write(frame)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    echo = link.read()
    sender.join()
    return echo


def used() -> dict[str, float]:
    """Seconds, CPU seconds and page faults of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.perf_counter(), "user": usage.ru_utime,
        "system": usage.ru_stime, "faults": usage.ru_minflt,
    }


class Job:
    """What one process does: a variant, with so many frames."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.two = options.serve is not None
        self.variant: Variant = options.serve or options.alone
        self.size, self.frames = options.size, options.frames
        self.profiler = cProfile.Profile() if options.profile else None
        self.library: Any = None
        if self.variant.runs_on != "threads":
            self.library = importlib.import_module(self.variant.runs_on)
        self.before = used()

    def took(self) -> dict[str, float]:
        """What has been used since `before`."""
        now = used()
        return {what: now[what] - self.before[what] for what in now}

    def end(self) -> Any:
        """One end of a connection, with buffers of its own."""
        return self.variant.link(Memory(self.two, self.size))

    def loop(self, main: Callable[..., Any], *given: Any) -> Any:
        """What an async function returns, on the variant's loop."""
        with self.profiler or contextlib.nullcontext():
            if self.variant.runs_on == "trio":
                return self.library.run(main, *given)
            loop = self.library.new_event_loop()
            with contextlib.closing(loop):
                return loop.run_until_complete(main(*given))

    # The server's side of a connection

    async def echo_on_a_loop(self, sock: socket.socket) -> None:
        link = self.end()
        await link.open(ready(sock))
        with contextlib.closing(link):
            for number in itertools.count(1):
                frame = await link.read()
                if frame is None:
                    break
                await link.write(frame)
                if self.two and number == 1:  # the client's warm-up
                    self.before = used()

    def echo_blocking(self, link: Any, sock: socket.socket) -> None:
        link.open(ready(sock))
        profiled = self.profiler or contextlib.nullcontext()
        with profiled, contextlib.closing(link):
            if link.echo() and self.two:
                self.before = used()
            while link.echo():
                pass

    def serve(self) -> dict[str, float]:
        """The server alone: prints its port, serves one connection.

        What the first frame costs is not in its figures.
        """
        with socket.create_server((HOST, 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            listener.settimeout(PATIENCE)
            sock = listener.accept()[0]
        if self.library:
            self.loop(self.echo_on_a_loop, sock)
        else:
            self.echo_blocking(self.end(), sock)
        return self.took()

    # Both sides in one process: a connection for each frame

    def both(self) -> dict[str, float]:
        frame = frame_of(self.size)
        with socket.create_server((HOST, 0)) as listener:
            self.before = used()
            if self.library:
                echo = self.loop(self.both_on_a_loop, listener, frame)
            else:
                echo = self.both_in_threads(listener, frame)
            found = self.took()
        check(frame, echo, every=True)
        return found

    async def both_on_a_loop(
        self, listener: socket.socket, frame: bytearray
    ) -> Any:
        for number in range(self.frames):
            stamp(frame, number)
            sock = connect(listener.getsockname()[1])
            other = listener.accept()[0]  # it is there already
            if self.variant.runs_on == "trio":
                async with self.library.open_nursery() as nursery:
                    nursery.start_soon(self.echo_on_a_loop, other)
                    echo = await self.ask(sock, frame)
            else:
                task = asyncio.ensure_future(self.echo_on_a_loop(other))
                echo = await self.ask(sock, frame)
                await task
            check(frame, echo)
        return echo

    async def ask(self, sock: socket.socket, frame: bytearray) -> Any:
        link = self.end()
        await link.open(sock)
        await link.write(frame)
        echo = await link.read()
        link.close()
        return echo

    def both_in_threads(
        self, listener: socket.socket, frame: bytearray
    ) -> Any:
        def serve() -> None:
            for _ in range(self.frames):
                self.echo_blocking(link, listener.accept()[0])

        client, link = self.end(), self.end()
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        for number in range(self.frames):
            stamp(frame, number)
            client.open(connect(listener.getsockname()[1]))
            echo = ask_blocking(client, frame)
            check(frame, echo)
            client.close()
        server.join()
        return echo


# === A process for each run =========================================
# So none finds the memory that another one has left.


def measure(
    options: argparse.Namespace, variant: Variant | None
) -> dict[str, Any]:
    """One run. variant: None for --server. Raises FrameError."""
    words = shlex.split(options.server or "")
    if variant:
        words = [
            sys.executable, __file__, "--size", str(options.size),
            "--frames", str(options.frames),
            "--serve" if options.shape == "two" else "--alone",
            variant.name,
        ]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us: we end it
        )
    except OSError as error:
        why = f"{words[0]} does not start: {error.strerror}"
        raise FrameError(why) from error
    try:
        client, patience = {}, None
        assert process.stdout
        if options.shape == "two":
            port, patience = process.stdout.readline(), PATIENCE
            client["seconds"] = drive(port.strip(), options)
        process.wait(patience)
        text = process.stdout.read()
        found = {**json.loads(text.strip() or "0"), **client}
    except subprocess.TimeoutExpired as error:
        raise FrameError("the process does not end") from error
    except (TypeError, ValueError) as error:
        why = f"status {process.returncode} and no figures"
        raise FrameError(f"the process ended with {why}") from error
    except OSError as error:
        why = f"the connection broke: {error.strerror}"
        raise FrameError(why) from error
    finally:
        process.kill()
        process.communicate()
    moved = options.size * options.frames / 1e6
    return {**found, "mb_per_second": moved / found["seconds"]}


def drive(port: str, options: argparse.Namespace) -> float:
    """Seconds for the frames of a run, after one to warm up.

    The client is the same for every server: blocking, and its buffers
    are reused. Raises FrameError, OSError.
    """
    if not port.isdecimal():
        raise FrameError("the server does not say its port")
    frame = frame_of(options.size)
    link = Reused(Memory(True, options.size))
    link.open(connect(int(port)))
    with contextlib.closing(link):
        for number in range(options.frames + 1):
            if number == 1:
                begun = time.perf_counter()
            stamp(frame, number)
            echo = ask_blocking(link, frame)
            check(frame, echo)
        seconds = time.perf_counter() - begun
    check(frame, echo, every=True)
    return seconds


# === Command line ===================================================


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def amount(text: str) -> int:
    """A number from 1 on, perhaps with k or M behind it."""
    match = re.match(r"(\d{1,10})([kM]?)$", text)
    factor = {"": 1, "k": 1000, "M": 10**6}
    value = int(match[1]) * factor[match[2]] if match else 0
    if not 1 <= value <= MOST:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number from 1 to {MOST:,}"
        )
    return value


def one(name: str) -> Variant:
    """The variant of this name."""
    if name not in VARIANTS:
        known = ", ".join(VARIANTS)
        raise argparse.ArgumentTypeError(
            f"there is no variant {name!r}; there are {known}"
        )
    return VARIANTS[name]


def parse(words: list[str]) -> argparse.Namespace:
    """The options. Exits with status 2 if they make no sense."""
    parser = Parser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--size", type=amount, default=10**8, metavar="BYTES",
        help="of a frame, as in 64k (default: 100M)")
    add("--frames", type=amount, default=5, metavar="N",
        help="in a run (default: 5)")
    add("--shape", choices=("one", "two"), default="one",
        help="one: client and server in one process, a connection and "
        "new buffers for each frame, as in 2017; two: the server in a "
        "process of its own, one connection, reused buffers")
    add("--only", default=[*VARIANTS.values()], metavar="LIST",
        type=lambda text: [one(word) for word in text.split(",")],
        help=f"these variants (default: {','.join(VARIANTS)})")
    add("--server", metavar="COMMAND",
        help="measure another server, with --shape two: a program that "
        "prints its port, echoes the frames of one connection, and "
        "prints its user and system seconds as JSON")
    add("--serve", metavar="NAME", type=one,
        help="be such a server: what --server measures, for strace or "
        "perf in front of it")
    add("--alone", metavar="NAME", type=one,
        help="one run of the first shape in this very process")
    add("--profile", metavar="FILE",
        help="what took the time of --serve or --alone, for python3 -m "
        "pstats FILE (it slows them)")
    add("--json", action="store_true", help="print JSON, not a table")
    options = parser.parse_args(words)
    server, two = options.server, options.shape == "two"
    if server is not None and not (two and shlex.split(server)):
        parser.error("--server needs a program and --shape two")
    me = options.serve or options.alone
    if me and me.missing():
        parser.error(me.missing())
    return options


def main(words: list[str]) -> int:
    """Measure, print each run; the exit status. 1: one failed."""
    options = parse(words)
    if options.serve or options.alone:
        job = Job(options)
        print(json.dumps(job.serve() if job.two else job.both()))
        if job.profiler:
            job.profiler.dump_stats(options.profile)
        return 0
    if not options.json:
        print(
            f"Python {platform.python_version()}, {options.frames} frames "
            f"of {options.size:,} bytes, shape {options.shape}\n"
            f"{COLUMNS}"
        )
    status = 0
    for variant in [None] if options.server else options.only:
        row = {"name": variant.name if variant else "server"}
        try:
            if variant and variant.missing():
                row["skipped"] = variant.missing()
            else:
                row.update(measure(options, variant))
        except FrameError as error:
            row["error"] = str(error)
            status = 1
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            show(row, variant.copies if variant else "-")
    return status


def show(row: dict[str, Any], copies: Any) -> None:
    """A row of the table."""
    said = row.get("skipped") or row.get("error")
    if not said:
        user, system = row.get("user", 0), row.get("system", 0)
        said = (
            f"{row['mb_per_second']:7,.0f} {copies:>7}"
            f"{user:13.2f} + {system:.2f}{row.get('faults', 0):12,.0f}"
        )
    print(f"{row['name']:<13} {said}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
