"""Mixed clients, good and bad, for as long as you like: does it hold up?

The engine of ``./bench.sh soak`` and of tests/test_soak.py. Many clients
in one asyncio loop, each taking up one role after the other: ordinary
ones, long pipelines, half-closes, slow readers, one byte at a time,
silence, resets at any moment. From time to time a worker of the server
is killed (SIGKILL).

Every request must be answered right and in order, unless its own client
cut it short, or the worker that had its connection was killed. Which
connections that were nobody can see from outside: those that end within
`CUT_SECONDS` of a kill are taken for them. At the end descriptors,
threads and memory must be where they were after a warm-up.
"""

import asyncio
import contextlib
import os
import random
import re
import signal
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import psutil

CLIENTS = 32  # at a time
CUT_SECONDS = 1.0  # from a kill until its connections have ended
RESTART_SECONDS = 3.0  # from a kill until there is a new worker
PATIENCE = 10.0  # seconds for an answer
SILENCE_SECONDS = (9.0, 15.0)  # a silent client is dropped between these
REST_SECONDS = 15.0  # until nothing is left of clients that are gone
SETTLED_SECONDS = 1.5  # unchanged for so long: the server is at rest
GROWTH_BYTES = 16 * 2**20  # of a process; more is a leak
MOST_FAULTS = 20  # then it is clear enough
PADDING = (0, 0, 0, 10, 100, 1000, 3000, 9000)  # bytes in a field of a head
SLOW_BUFFER = 4096  # bytes a slow reader's kernel takes, about
BITE_SECONDS = 0.001  # that it reads before it pauses again
PAGE_BYTES = 249
LINGER_NOT = struct.pack("ii", 1, 0)  # close with a reset


class CutError(Exception):
    """The connection ended before the answer was complete."""


class WrongError(Exception):
    """An answer that is not the right one; the text says why."""


@dataclass(frozen=True)
class Ask:
    """A request by its first line, and the answer it must get."""

    line: str
    status: int
    body: bool = True
    waits: bool = False  # does the server's delay count?

    def data(self, padding: int = 0, field: str = "") -> bytes:
        """Its bytes, with so much padding and perhaps another field."""
        lines = [f"{self.line} HTTP/1.1", "Host: soak"]
        if padding:
            lines.append(f"X-Padding: {'p' * padding}")
        if field:
            lines.append(field)
        return "\r\n".join([*lines, "", ""]).encode("ascii")


GET = Ask("GET /", 200, waits=True)
MISSING = Ask("GET /missing", 404)
ASKS = (
    GET,
    GET,
    Ask("GET /?query=1", 200, waits=True),
    Ask("HEAD /", 200, body=False, waits=True),
    MISSING,
    Ask("HEAD /missing", 404, body=False),
    Ask("DELETE /", 405),
    Ask("BREW /", 501),
)
QUICK = tuple(ask for ask in ASKS if not ask.waits)
MALFORMED = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : soak\r\n\r\n",
    b"GET  / HTTP/1.1\r\nHost: soak\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: soak\r\nA: \0\r\n\r\n",
)
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*\r\n")
LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
CLOSES = re.compile(rb"\r\nConnection: close\r\n", re.IGNORECASE)


@dataclass
class Answer:
    """One complete answer."""

    status: int
    head: bytes
    body: bytes

    @property
    def closes(self) -> bool:
        """Does it say that the connection ends?"""
        return CLOSES.search(self.head) is not None


def take(received: bytearray, body: bool) -> Answer | None:
    """Take an answer off the front; None if it is not complete yet.

    body: has it one? Raises WrongError for what is not an answer.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(received[: end + 4])
    status, length = STATUS.match(head), LENGTH.search(head)
    if status is None or length is None:
        raise WrongError(f"not an answer: {head[:200]!r}")
    size = len(head) + (int(length[1]) if body else 0)
    if len(received) < size:
        return None
    answer = Answer(int(status[1]), head, bytes(received[len(head) : size]))
    del received[:size]
    return answer


class Wire(asyncio.Protocol):
    """One connection; notes the moment at which the server ends it."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.received = bytearray()
        self.ended: float | None = None
        self.reset = False
        self.slow = False  # notices an end late
        self.news = asyncio.Event()
        self.transport: asyncio.Transport = asyncio.Transport()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self.received += data
        self.news.set()

    def eof_received(self) -> bool:
        """Called by asyncio; True: our side stays open."""
        self.ended = self.ended or time.monotonic()
        self.news.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.reset = exc is not None
        self.ended = self.ended or time.monotonic()
        self.news.set()

    def send(self, data: bytes) -> None:
        """Send as the other side takes it; returns at once."""
        self.transport.write(data)

    async def answer(self, body: bool, seconds: float = PATIENCE) -> Answer:
        """The next answer.

        Raises CutError, WrongError, and TimeoutError.
        """
        async with asyncio.timeout(seconds):
            while True:
                answer = take(self.received, body)
                if answer is not None:
                    return answer
                if self.ended is not None:
                    raise CutError
                self.news.clear()
                await self.news.wait()

    async def end(self, seconds: float = PATIENCE) -> bytes:
        """What comes until the server ends it. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while self.ended is None:
                self.news.clear()
                await self.news.wait()
        return bytes(self.received)

    def abort(self) -> None:
        """Vanish: a reset, whatever is under way."""
        ours = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.transport.abort()


@dataclass(frozen=True)
class State:
    """What a process has: its descriptors, threads, bytes resident."""

    descriptors: int
    threads: int
    memory: int


@dataclass
class Report:
    """What happened. Nothing broke if ``faults`` is empty.

    answered: requests answered right; cut_by_client: requests whose
    client left before the answer; cut_by_kill: connections that ended
    because a worker was killed; kills: how many; restart_seconds: the
    longest that one was missing; roles: how often each was played;
    growth_bytes: the most a process that lived all the time has grown.
    """

    seconds: float = 0.0
    connections: int = 0
    answered: int = 0
    cut_by_client: int = 0
    cut_by_kill: int = 0
    kills: int = 0
    restart_seconds: float = 0.0
    growth_bytes: int = 0
    roles: dict[str, int] = field(default_factory=dict)
    before: dict[int, State] = field(default_factory=dict)
    after: dict[int, State] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class Soak:
    """One soak: the clients, the one that kills, the accounts."""

    def __init__(
        self,
        port: int,
        pid: int,
        seconds: float,
        seed: int,
        clients: int = CLIENTS,
        polite: bool = False,
        kill: bool = True,
        patience: float = PATIENCE,
    ) -> None:
        self.port = port
        self.server = psutil.Process(pid)
        self.seconds = seconds
        self.random = random.Random(seed)
        self.clients = clients
        self.polite = polite
        self.kill = kill
        self.patience = patience
        self.report = Report()
        self.kills: list[float] = []
        self.page = b""
        self.keeps = True
        self.old = False
        self.until = 0.0

    # The whole --------------------------------------------------------

    async def run(self, tick: Callable[[Report], None] | None) -> Report:
        """Warm up, look, mix, look again."""
        begun = time.monotonic()
        report = self.report
        await self.probe()
        if not report.faults:
            warm = min(max(self.seconds / 10, 0.5), 30.0)
            await self.mix(warm, kill=False, tick=tick)
            report.before = await self.rest(None)
            await self.mix(self.seconds - warm, kill=self.kill, tick=tick)
            report.after = await self.rest(report.before)
            self.compare()
            await self.probe()
        report.seconds = time.monotonic() - begun
        return report

    async def probe(self) -> None:
        """GET / is answered; what is its page, are connections kept?"""
        try:
            wire = await self.connect()
            wire.send(GET.data())
            answer = await wire.answer(True, self.patience)
            wire.transport.close()
        except (CutError, WrongError, OSError) as error:
            self.fault(f"GET / alone has no good answer: {error!r}")
            return
        if (answer.status, len(answer.body)) != (200, PAGE_BYTES):
            self.fault(f"GET / alone: {answer.head[:100]!r}")
        self.page = answer.body
        self.old = answer.head.startswith(b"HTTP/1.0 ")
        self.keeps = not (self.old or answer.closes)
        self.report.answered += 1

    async def mix(
        self, seconds: float, kill: bool,
        tick: Callable[[Report], None] | None,
    ) -> None:
        """All clients at once for so long, then until all are done."""
        self.until = time.monotonic() + seconds
        tasks = [asyncio.create_task(self.client()) for _ in range(
            self.clients)]
        killer = asyncio.create_task(self.killer(seconds)) if kill else None
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending:
            _, pending = await asyncio.wait(pending, timeout=1.0)
            if tick is not None:
                tick(self.report)
        if killer is not None:
            await killer
        for task in tasks:
            task.result()

    def over(self) -> bool:
        """Shall clients stop?"""
        enough = len(self.report.faults) >= MOST_FAULTS
        return enough or time.monotonic() >= self.until

    def fault(self, text: str) -> None:
        """Note that a rule was broken."""
        if len(self.report.faults) < MOST_FAULTS:
            self.report.faults.append(text)

    def time_for_it(self) -> bool:
        """Is there enough time left for a long silence?"""
        return time.monotonic() + SILENCE_SECONDS[1] < self.until

    # Clients ----------------------------------------------------------

    async def client(self) -> None:
        """Take up roles until the time is over."""
        roles: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (8, self.ordinary),
            (6, self.pipelined),
            (4, self.closing),
            (4, self.half_closing),
            (6, self.resetting),
        ]
        if not self.old:  # http.server, which lets much pass
            roles.append((2, self.malformed))
        if not self.polite:
            roles += [
                (2, self.slow_reader),
                (2, self.byte_by_byte),
                (2, self.silent),
                (1, self.silent_for_long),
            ]
        weights = [weight for weight, _ in roles]
        while not self.over():
            ((_, role),) = self.random.choices(roles, weights)
            if role == self.silent_for_long and not self.time_for_it():
                continue
            name = role.__name__
            self.report.roles[name] = self.report.roles.get(name, 0) + 1
            try:
                await role()
            except CutError as error:
                self.fault(f"{name}: cut without a kill {error}")
            except WrongError as error:
                self.fault(f"{name}: {error}")
            except TimeoutError:
                self.fault(f"{name}: no answer in {self.patience:g} s")
            except OSError as error:
                self.fault(f"{name}: {error}")
            await asyncio.sleep(self.random.uniform(0, 0.02))

    async def connect(self, buffer: int = 0) -> Wire:
        """A new connection; buffer: bytes for its SO_RCVBUF."""
        new = socket.socket()
        try:
            new.setblocking(False)
            if buffer:
                new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(self.patience):
                await loop.sock_connect(new, ("127.0.0.1", self.port))
            _, wire = await loop.create_connection(Wire, sock=new)
        except BaseException:
            new.close()
            raise
        self.report.connections += 1
        return wire

    def asks(self, most: int, choice: tuple[Ask, ...] = ASKS) -> list[Ask]:
        """Some requests for one connection."""
        number = self.random.randint(1, most) if self.keeps else 1
        return self.random.choices(choice, k=number)

    def bytes_of(self, asks: list[Ask]) -> bytes:
        """All of these requests, with padding here and there."""
        return b"".join(
            ask.data(self.random.choice(PADDING)) for ask in asks
        )

    def was_killed(self, wire: Wire) -> bool:
        """Did this connection end because a worker was killed?

        It may have begun after the kill: a worker that is dying can
        still accept. A slow reader finds out late: for it any kill in
        its life counts.
        """
        ended = wire.ended or time.monotonic()
        since = wire.begun if wire.slow else ended
        return any(
            since - CUT_SECONDS <= kill <= ended for kill in self.kills
        )

    def after_kill(self, wire: Wire) -> str:
        """How long after the last kill a connection ended, in words."""
        ended = wire.ended or time.monotonic()
        before = [kill for kill in self.kills if kill <= ended]
        if not before:
            return ""
        return (
            f" {ended - before[-1]:.2f} s after a kill, and "
            f"{ended - wire.begun:.2f} s after it began"
        )

    async def check(self, wire: Wire, ask: Ask) -> Answer | None:
        """Wait for the answer to a request; None if a kill cut it.

        Raises CutError, WrongError, and TimeoutError.
        """
        try:
            answer = await wire.answer(ask.body, self.patience)
        except CutError:
            if self.was_killed(wire):
                self.report.cut_by_kill += 1
                return None
            how = "by a reset" if wire.reset else "by an end"
            left = bytes(wire.received[:100])
            raise CutError(
                f"{how}{self.after_kill(wire)}, before the answer to "
                f"{ask.line!r}; so far {left!r}"
            ) from None
        if answer.status != ask.status:
            raise WrongError(f"{ask.line!r} got {answer.head[:200]!r}")
        if ask.status == 200 and ask.body and answer.body != self.page:
            raise WrongError(f"{ask.line!r} got {answer.body[:300]!r}")
        self.report.answered += 1
        return answer

    async def check_all(self, wire: Wire, asks: list[Ask]) -> bool:
        """The answers to all of these in order; False if a kill cut."""
        for index, ask in enumerate(asks):
            answer = await self.check(wire, ask)
            if answer is None:
                return False
            if answer.closes and index < len(asks) - 1:
                raise WrongError(f"{ask.line!r}: it closes before the last")
        return True

    async def check_end(self, wire: Wire) -> None:
        """The server ends the connection, and nothing else comes."""
        rest = await wire.end(self.patience)
        if rest:
            raise WrongError(f"more than was asked for: {rest[:200]!r}")
        if wire.reset and not self.was_killed(wire):
            raise CutError(
                f"by a reset{self.after_kill(wire)}, where an end was due"
            )

    # Roles ------------------------------------------------------------

    async def ordinary(self) -> None:
        """One request after the other, perhaps thinking in between."""
        wire = await self.connect()
        try:
            for ask in self.asks(8):
                wire.send(self.bytes_of([ask]))
                if await self.check(wire, ask) is None:
                    return
                await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.1)))
        finally:
            wire.transport.close()

    async def pipelined(self) -> None:
        """Many requests at once, in pieces that end anywhere."""
        wire = await self.connect()
        try:
            asks = self.asks(20)
            data = self.bytes_of(asks)
            cut = self.random.randrange(len(data))
            wire.send(data[:cut])
            await asyncio.sleep(self.random.choice((0, 0.001, 0.02)))
            wire.send(data[cut:])
            await self.check_all(wire, asks)
        finally:
            wire.transport.close()

    async def closing(self) -> None:
        """A request that asks to close, or an old one that implies it."""
        wire = await self.connect()
        try:
            ask = self.random.choice(ASKS)
            data = ask.data(field="Connection: close")
            if self.random.random() < 0.3:
                data = ask.data().replace(b"HTTP/1.1", b"HTTP/1.0")
            wire.send(data)
            if await self.check(wire, ask) is not None:
                await self.check_end(wire)
        finally:
            wire.transport.close()

    async def half_closing(self) -> None:
        """Requests, then the end of our side; the answers still come."""
        wire = await self.connect()
        try:
            asks = self.asks(5)
            wire.send(self.bytes_of(asks))
            wire.transport.write_eof()
            if await self.check_all(wire, asks):
                await self.check_end(wire)
        finally:
            wire.transport.close()

    async def malformed(self) -> None:
        """A request that is refused: 400, then the end."""
        wire = await self.connect()
        try:
            wire.send(self.random.choice(MALFORMED))
            ask = Ask("a malformed request", 400)
            if await self.check(wire, ask) is not None:
                await self.check_end(wire)
        finally:
            wire.transport.close()

    async def slow_reader(self) -> None:
        """A long pipeline, its answers read in small bites."""
        wire = await self.connect(SLOW_BUFFER)
        wire.slow = True
        reading = asyncio.create_task(self.bites(wire))
        try:
            asks = self.asks(2000, QUICK)
            wire.send(b"".join(ask.data() for ask in asks))
            await self.check_all(wire, asks)
        finally:
            reading.cancel()
            wire.transport.close()

    async def bites(self, wire: Wire) -> None:
        """Let a connection read only now and then."""
        pause = self.random.choice((0.001, 0.005, 0.02))
        while wire.ended is None and not wire.transport.is_closing():
            wire.transport.pause_reading()
            await asyncio.sleep(pause)
            if wire.transport.is_closing():
                return
            wire.transport.resume_reading()
            await asyncio.sleep(BITE_SECONDS)

    async def byte_by_byte(self) -> None:
        """A request whose bytes come one at a time."""
        wire = await self.connect()
        try:
            ask = self.random.choice(ASKS)
            for byte in ask.data():
                wire.send(bytes([byte]))
                await asyncio.sleep(0.005)
                if wire.ended is not None:
                    break
            await self.check(wire, ask)
        finally:
            wire.transport.close()

    async def silent(self) -> None:
        """Says nothing, or not all of it, and leaves after a while."""
        wire = await self.connect()
        try:
            wire.send(GET.data()[: self.random.choice((0, 1, 20))])
            await asyncio.sleep(self.random.uniform(0, 2))
            if wire.received or (
                wire.ended is not None and not self.was_killed(wire)
            ):
                raise WrongError(
                    f"dropped at once: {bytes(wire.received[:100])!r}"
                )
        finally:
            self.random.choice((wire.abort, wire.transport.close))()

    async def silent_for_long(self) -> None:
        """Says nothing until the server loses its patience."""
        soonest, latest = SILENCE_SECONDS
        wire = await self.connect()
        try:
            wire.send(GET.data()[: self.random.choice((0, 1, 20))])
            try:
                data = await wire.end(latest)
            except TimeoutError:
                raise WrongError(
                    f"still open after {latest:g} s of silence"
                ) from None
            if self.was_killed(wire):
                self.report.cut_by_kill += 1
            elif (wire.ended or 0.0) - wire.begun < soonest:
                raise WrongError(f"dropped too soon: {data[:100]!r}")
            elif data and not data.startswith(b"HTTP/1.1 408 "):
                raise WrongError(f"silence was answered: {data[:100]!r}")
        finally:
            wire.transport.close()

    async def resetting(self) -> None:
        """Leaves at any moment, mostly by a reset."""
        wire = await self.connect(self.random.choice((0, SLOW_BUFFER)))
        wire.slow = True
        try:
            asks = self.asks(self.random.choice((1, 3, 300)))
            data = self.bytes_of(asks)
            if self.random.random() < 0.3:  # in the middle of a request
                data = data[: self.random.randrange(len(data))]
            if self.random.random() < 0.2:
                wire.transport.pause_reading()
            wire.send(data)
            await asyncio.sleep(self.random.choice((0, 0.001, 0.02, 0.1)))
            done = self.asked_for(wire, asks)
            self.report.answered += done
            self.report.cut_by_client += len(asks) - done
        finally:
            leave = self.random.choice(
                (wire.abort, wire.abort, wire.transport.close)
            )
            leave()

    def asked_for(self, wire: Wire, asks: list[Ask]) -> int:
        """How many answers came; they must be right so far."""
        for done, ask in enumerate(asks):
            answer = take(wire.received, ask.body)
            if answer is None:
                return done
            if answer.status != ask.status:
                raise WrongError(f"{ask.line!r} got {answer.head[:200]!r}")
        return len(asks)

    # The server's processes -------------------------------------------

    async def killer(self, seconds: float) -> None:
        """Kill a worker now and then.

        Always the youngest: the eldest lives through it all, and what it
        has in the end can be compared.
        """
        every = min(10.0, seconds / 4)
        while True:
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * every)
            if time.monotonic() + RESTART_SECONDS > self.until or self.over():
                return
            workers = self.server.children()
            if not workers:  # threads cannot be killed
                return
            youngest = max(workers, key=lambda w: (w.create_time(), w.pid))
            self.kills.append(time.monotonic())
            self.report.kills += 1
            os.kill(youngest.pid, signal.SIGKILL)
            await self.restarted(workers)

    async def restarted(self, workers: list[psutil.Process]) -> None:
        """Wait until there are as many workers as before."""
        begun = time.monotonic()
        old = {worker.pid for worker in workers}
        while True:
            new = [w.pid for w in self.server.children() if _alive(w)]
            gone = time.monotonic() - begun
            if len(new) >= len(old) and set(new) != old:
                break
            if gone > 3 * RESTART_SECONDS:
                break
            await asyncio.sleep(0.02)
        longest = max(self.report.restart_seconds, gone)
        self.report.restart_seconds = longest
        if gone > RESTART_SECONDS:
            self.fault(f"a killed worker was missing for {gone:.1f} s")

    def look(self) -> dict[int, State]:
        """What each process of the server has now."""
        found = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in [self.server, *self.server.children(recursive=True)]:
                with contextlib.suppress(psutil.Error), one.oneshot():
                    found[one.pid] = State(
                        one.num_fds(), one.num_threads(),
                        int(one.memory_info().rss),
                    )
        return found

    async def rest(
        self, before: dict[int, State] | None
    ) -> dict[int, State]:
        """Wait until nothing changes, or is no more than before."""
        deadline = time.monotonic() + REST_SECONDS
        last, since = (-1, -1), time.monotonic()
        while True:
            found = self.look()
            now, wall = _sums(found), time.monotonic()
            if now != last:
                last, since = now, wall
            settled = wall - since > SETTLED_SECONDS
            if settled and before is not None:
                old = _sums(before)
                settled = now[0] <= old[0] and now[1] <= old[1]
            if settled or wall > deadline:
                return found
            await asyncio.sleep(0.1)

    def compare(self) -> None:
        """Descriptors, threads and memory are where they began."""
        before, after = self.report.before, self.report.after
        if len(after) != len(before):
            self.fault(f"{len(before)} processes became {len(after)}")
        old, new = _sums(before), _sums(after)
        if new[0] > old[0]:
            self.fault(f"{old[0]} open descriptors became {new[0]}")
        if new[1] > old[1]:
            self.fault(f"{old[1]} threads became {new[1]}")
        for pid in before.keys() & after.keys():
            growth = after[pid].memory - before[pid].memory
            self.report.growth_bytes = max(self.report.growth_bytes, growth)
            if growth > GROWTH_BYTES:
                self.fault(
                    f"a process grew from {before[pid].memory:,} to "
                    f"{after[pid].memory:,} bytes"
                )


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _sums(found: dict[int, State]) -> tuple[int, int]:
    """Descriptors and threads of all processes."""
    states = found.values()
    return sum(s.descriptors for s in states), sum(s.threads for s in states)


def soak(
    port: int,
    pid: int,
    seconds: float,
    seed: int,
    *,
    clients: int = CLIENTS,
    polite: bool = False,
    kill: bool = True,
    patience: float = PATIENCE,
    tick: Callable[[Report], None] | None = None,
) -> Report:
    """Let mixed clients loose on a server for about so many seconds.

    port: of the server on 127.0.0.1; pid: of its first process, whose
    children are its workers; seed: of all that is random; clients: at a
    time; polite: without those that hold up a server which serves one
    client at a time; kill: kill workers; patience: seconds for an
    answer; tick: called about once a second.
    """
    one = Soak(port, pid, seconds, seed, clients, polite, kill, patience)
    return asyncio.run(one.run(tick))
