"""Lab: an echo of 100 MB frames, and the copies on the way.

A frame is 8 bytes that say how long it is, then that many bytes. The
server receives the whole frame, then sends it back. Every variant of
links.py does that, and each removes a copy that another one makes. Most
of the time goes where the program never looks: into memory.

Run it:     python3 labs/frames/lab.py
Try this:   python3 labs/frames/lab.py --only streams,sock
            the same with --profile, or with --shape two, or with
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
import math
import os
import platform
import pstats
import re
import shlex
import socket
import statistics
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

try:
    import resource
except ImportError:
    sys.exit("lab.py: it needs Linux or macOS; here, try WSL")

from links import HEAD, VARIANTS, FrameError, Memory, Reused, Variant

HOST = "127.0.0.1"
SIZE = 100_000_000  # bytes of a frame, as in 2017
MOST_SIZE = 10**9
PATIENCE = 30  # seconds for a client to come, or for a server to end
PROFILED = 8  # functions that --profile shows


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
    """That they are equal: length and ends. Raises FrameError.

    every: each byte as well. That takes a while, so not on the clock.
    """
    if echo is None:
        raise FrameError("the server closed before it had responded")
    ends = slice(0, 64), slice(-64, None)
    if (
        len(echo) != len(frame)
        or any(bytes(memoryview(echo)[e]) != frame[e] for e in ends)
        or (every and zlib.crc32(echo) != zlib.crc32(frame))
    ):
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


class Meter:
    """CPU seconds, page faults and the clock, from its start on."""

    def __init__(self) -> None:
        self.usage = resource.getrusage(resource.RUSAGE_SELF)
        self.begun = time.perf_counter()

    def stop(self) -> dict[str, float]:
        """What has been used since."""
        seconds = time.perf_counter() - self.begun
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": seconds,
            "user": usage.ru_utime - self.usage.ru_utime,
            "system": usage.ru_stime - self.usage.ru_stime,
            "faults": usage.ru_minflt - self.usage.ru_minflt,
        }


class Job:
    """What one process does: a variant, with so many frames."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.two = options.serve is not None
        self.variant: Variant = options.serve or options.alone
        self.size, self.frames = options.size, options.frames
        self.profiler = cProfile.Profile() if options.profile else None
        self.meter = Meter()

    def run(self) -> None:
        """Do it, print what came of it as JSON."""
        found: dict[str, Any]
        try:
            found = {**(self.serve() if self.two else self.both())}
            if self.profiler:
                found["profile"] = top(self.profiler)
        except FrameError as error:
            found = {"error": str(error)}
        except Exception as error:  # whatever a library raises
            why = f"{type(error).__name__}: {error}"
            found = {"error": f"it broke, {why}"}
        print(json.dumps(found), flush=True)

    def end(self) -> Any:
        """One end of a connection, with buffers of its own."""
        return self.variant.link(Memory(self.two, self.size))

    @contextlib.contextmanager
    def profiled(self) -> Iterator[None]:
        """The block is in the profile, if one is wanted."""
        if self.profiler:
            self.profiler.enable()
        yield
        if self.profiler:
            self.profiler.disable()

    def loop(self, main: Callable[[], Any]) -> Any:
        """What an async function returns, on the variant's loop."""
        with self.profiled():
            if self.variant.runs_on == "trio":
                return importlib.import_module("trio").run(main)
            if self.variant.runs_on == "asyncio":
                return asyncio.run(main())
            loop = importlib.import_module("uvloop").new_event_loop()
            with contextlib.closing(loop):
                return loop.run_until_complete(main())

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
                if number == 1:  # of two processes, it is the warm-up
                    self.meter = Meter()

    def echo_blocking(self, link: Any, sock: socket.socket) -> None:
        link.open(ready(sock))
        with self.profiled(), contextlib.closing(link):
            if link.echo():
                self.meter = Meter()
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
        if self.variant.runs_on == "threads":
            self.echo_blocking(self.end(), sock)
        else:
            self.loop(lambda: self.echo_on_a_loop(sock))
        return self.meter.stop()

    # Both sides in one process: a connection for each frame

    def both(self) -> dict[str, float]:
        frame = frame_of(self.size)
        with socket.create_server((HOST, 0)) as listener:
            if self.variant.runs_on == "threads":
                found, echo = self.both_in_threads(listener, frame)
            else:
                found, echo = self.loop(
                    lambda: self.both_on_a_loop(listener, frame)
                )
        check(frame, echo, every=True)
        return dict(found)

    async def both_on_a_loop(
        self, listener: socket.socket, frame: bytearray
    ) -> tuple[dict[str, float], Any]:
        meter = Meter()
        for number in range(self.frames):
            stamp(frame, number)
            sock = connect(listener.getsockname()[1])
            other = listener.accept()[0]  # it is there already
            if self.variant.runs_on == "trio":
                trio = importlib.import_module("trio")
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.echo_on_a_loop, other)
                    echo = await self.ask(sock, frame)
            else:
                task = asyncio.ensure_future(self.echo_on_a_loop(other))
                echo = await self.ask(sock, frame)
                await task
            check(frame, echo)
        return meter.stop(), echo

    async def ask(self, sock: socket.socket, frame: bytearray) -> Any:
        link = self.end()
        await link.open(sock)
        await link.write(frame)
        echo = await link.read()
        link.close()
        return echo

    def both_in_threads(
        self, listener: socket.socket, frame: bytearray
    ) -> tuple[dict[str, float], Any]:
        broken: list[Exception] = []

        def serve() -> None:
            try:
                for _ in range(self.frames):
                    self.echo_blocking(link, listener.accept()[0])
            except Exception as error:
                broken.append(error)

        client, link = self.end(), self.end()
        meter = Meter()
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        for number in range(self.frames):
            stamp(frame, number)
            client.open(connect(listener.getsockname()[1]))
            echo = ask_blocking(client, frame)
            if broken:
                raise broken[0]
            check(frame, echo)
            client.close()
        server.join()
        return meter.stop(), echo


def top(profiler: cProfile.Profile) -> list[list[Any]]:
    """The functions that took most: name, share of the time."""
    rows = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    whole = sum(row[2] for row in rows.values()) or 1.0
    most = sorted(rows.items(), key=lambda item: -item[1][2])
    return [
        [called(*where), round(row[2] / whole, 4)]
        for where, row in most[:PROFILED]
    ]


def called(file: str, line: int, name: str) -> str:
    """A function as the profile names it, in words."""
    match = re.match(r"<(?:method|built-in method) (.*)>", name)
    if match is None:
        return f"{name} ({os.path.basename(file)})"
    # "'recv' of '_socket.socket' objects", "posix.splice"
    word = re.match(r"'(\w+)' of '([\w.]+)' objects", match[1])
    if word is None:
        return match[1]
    return f"{word[2].rpartition('.')[2]}.{word[1]}"


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
            variant.name, *["--profile"] * options.profile,
        ]
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us: we end it
        )
    except OSError as error:
        raise FrameError(
            f"{words[0]} does not start: {error.strerror}"
        ) from error
    try:
        found = figures(process, options)
    finally:
        process.kill()
        process.communicate()
    moved = options.size * options.frames / 1e6
    return {**found, "mb_per_second": moved / found["seconds"]}


def figures(
    process: subprocess.Popen[str], options: argparse.Namespace
) -> dict[str, Any]:
    """What a process prints last. Raises FrameError."""
    assert process.stdout
    text, broken, client, patience = "", "", {}, None
    if options.shape == "two":
        text, patience = process.stdout.readline(), PATIENCE
        try:
            client["seconds"] = drive(text.strip(), options)
        except FrameError as error:
            broken = str(error)
    try:
        process.wait(patience)
        text += process.stdout.read()
        found = dict(json.loads(text.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        found = {"error": broken or "the process does not end"}
    except (IndexError, TypeError, ValueError):
        found = {"error": broken or "the process ended with status "
                 f"{process.returncode} and no figures"}
    broken = found.get("error", broken)  # a server may know better
    if broken:
        raise FrameError(broken)
    return {**found, **client}


def drive(port: str, options: argparse.Namespace) -> float:
    """Seconds for the frames of a run, after one to warm up.

    The client is the same for every server: blocking, and its buffers
    are reused. Raises FrameError.
    """
    if not port.isdecimal():
        raise FrameError("the server does not say its port")
    frame = frame_of(options.size)
    link = Reused(Memory(True, options.size))
    try:
        link.open(connect(int(port)))
        with contextlib.closing(link):
            for number in range(options.frames + 1):
                if number == 1:
                    begun = time.perf_counter()
                stamp(frame, number)
                echo = ask_blocking(link, frame)
                check(frame, echo)
            seconds = time.perf_counter() - begun
    except OSError as error:
        raise FrameError(
            f"the connection broke: {error.strerror}"
        ) from error
    check(frame, echo, every=True)
    return seconds


# === Command line ===================================================


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def number(units: str, most: int) -> Callable[[str], int]:
    """A check for argparse: from 1 on, perhaps with k, M or G."""
    def check_it(text: str) -> int:
        match = re.match(rf"^(\d{{1,10}})([{units}]?)$", text)
        factor = 1000 ** "-kMG".index(match[2] or "-") if match else 0
        value = int(match[1]) * factor if match else 0
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from 1 to {most:,}, such as "
                + ("64k or 100M" if units != "-" else "5")
            )
        return value

    return check_it


def one(name: str) -> Variant:
    """The variant of this name."""
    if name not in VARIANTS:
        raise argparse.ArgumentTypeError(
            f"there is no variant {name!r}; there are "
            + ", ".join(VARIANTS)
        )
    return VARIANTS[name]


def parse(words: list[str]) -> argparse.Namespace:
    """The options. Exits with status 2 if they make no sense."""
    parser = Parser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--size", type=number("kMG", MOST_SIZE), default=SIZE,
        metavar="BYTES", help="of a frame, as in 64k (default: 100M)")
    add("--frames", type=number("-", 1000), default=5, metavar="N",
        help="in a run (default: 5)")
    add("--rounds", type=number("-", 100), default=3, metavar="N",
        help="runs of each variant, in turns; the median counts "
        "(default: 3)")
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
    add("--profile", action="store_true",
        help="show the functions that take the time (it slows them)")
    add("--json", action="store_true", help="print JSON, not a table")
    # How the lab starts itself for a run of the first shape.
    add("--alone", type=one, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    server, two = options.server, options.shape == "two"
    if server is not None and not (two and shlex.split(server)):
        parser.error("--server needs a program and --shape two")
    if options.serve and options.serve.missing():
        parser.error(options.serve.missing())
    return options


def main(words: list[str]) -> int:
    """Measure, print; the exit status. 1: a variant failed."""
    options = parse(words)
    if options.serve or options.alone:
        Job(options).run()
        return 0
    rows: list[dict[str, Any]] = []
    status = 0
    try:
        rounds(options, rows)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        status = 130
    if options.json:
        print(json.dumps({"variants": rows}, indent=1))
    else:
        show(options, rows)
    return status or int(any(row["error"] for row in rows))


def rounds(
    options: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    """All variants, then all again: a disturbance hits all alike."""
    variants = [None] if options.server else options.only
    rows += [
        {"name": each.name if each else "server",
         "copies": each.copies if each else "-",
         "skipped": each.missing() if each else "",
         "error": "", "runs": []}
        for each in variants
    ]
    for turn in range(1, options.rounds + 1):
        for variant, row in zip(variants, rows):  # noqa: B905
            if row["skipped"] or row["error"]:
                continue
            try:
                run = measure(options, variant)
            except FrameError as error:
                row["error"] = str(error)
                continue
            row["runs"].append(run)
            print(
                f"round {turn} of {options.rounds}: {row['name']:<13}"
                f"{run['mb_per_second']:7,.0f} MB/s", file=sys.stderr,
            )


def show(
    options: argparse.Namespace, rows: list[dict[str, Any]]
) -> None:
    """The table: medians, a row for each variant."""
    both = "" if options.shape == "two" else "client and "
    print(
        f"\nPython {platform.python_version()}, {options.frames} frames"
        f" of {options.size:,} bytes, shape {options.shape}\n\n"
        "variant       MB/s median (min - max)  copies  "
        "CPU s user + system   faults"
    )
    for row in rows:
        runs = row["runs"]
        if row["error"] or not runs:
            why = row["skipped"] or row["error"] or "not measured"
            print(f"{row['name']:<13} {why}")
            continue
        speeds = [run["mb_per_second"] for run in runs]
        user, system, faults = (
            statistics.median(run.get(key, math.nan) for run in runs)
            for key in ("user", "system", "faults")
        )
        print(
            f"{row['name']:<13} {statistics.median(speeds):7,.0f} "
            f"({min(speeds):6,.0f} - {max(speeds):6,.0f}) "
            f"{row['copies']:>7}{user:13.2f} + {system:.2f}"
            f"{faults:12,.0f}"
        )
        for function, share in runs[-1].get("profile", []):
            print(f"{'':<13} {share:6.1%} {function}")
    print(
        "\ncopies: of a frame in our own memory, for each echo\n"
        f"CPU, faults: of {both}server, of a whole run"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
