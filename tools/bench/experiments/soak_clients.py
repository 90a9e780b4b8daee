"""The clients of a soak: each role is a way to use, or abuse, a connection.

Every request must be answered right and in order, unless its own client
cut it short, or the worker that had its connection was killed. Which
connections that were nobody can see from outside: those that end within
`CUT_SECONDS` of a kill are taken for them.
"""

import asyncio
import contextlib
import random
import socket
import struct
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tools.common.raw_client import NoResponse, Response, read_response

CUT_SECONDS = 1.0  # from a kill until its connections have ended
PATIENCE = 10.0  # seconds for an answer
SILENCE_SECONDS = (9.0, 15.0)  # a silent client is dropped between these
MOST_FAULTS = 20  # then it is clear enough
# Fields that some requests have: none, or one of so many bytes.
PADDING = ((), (), (), *(
    (f"X-Padding: {'p' * size}",) for size in (10, 100, 1000, 3000, 9000)
))  # fmt: skip
SLOW_BUFFER = 4096  # bytes a slow reader's kernel takes, about
BITE_SECONDS = 0.001  # that it reads before it pauses again
PAGE_BYTES = 249
ANSWER_BYTES = 2048  # more than any answer has
# Roles, and how often each is played; the second: not by polite clients.
POLITE = {
    "ordinary": 8, "pipelined": 6, "closing": 4, "half_closing": 4,
    "resetting": 6, "malformed": 2,
}
IMPOLITE = {
    "slow_reader": 2, "byte_by_byte": 2, "silent": 2, "silent_for_long": 1,
}
# What the kernel of a client may hold for it, if not as much as usual.
BUFFERS = {"slow_reader": (SLOW_BUFFER,), "resetting": (0, SLOW_BUFFER)}
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

    def data(self, *fields: str, version: str = "1.1") -> bytes:
        """Its bytes, perhaps with other fields."""
        lines = [f"{self.line} HTTP/{version}", "Host: soak", *fields]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


GET = Ask("GET /", 200, waits=True)
ASKS = (
    GET,
    GET,
    Ask("GET /?query=1", 200, waits=True),
    Ask("HEAD /", 200, body=False, waits=True),
    Ask("GET /missing", 404),
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


def take(received: bytearray, body: bool) -> Response | None:
    """Take an answer off the front; None if it is not complete yet.

    body: has it one? Raises WrongError for what is not an answer.
    """
    try:
        response = read_response(bytes(received[:ANSWER_BYTES]), head=not body)
    except NoResponse as error:
        raise WrongError(str(error)) from None
    if response is not None:
        del received[: len(response.raw)]
    return response


class Wire(asyncio.Protocol):
    """One connection; notes the moment at which the server ends it."""

    def __init__(self, slow: bool = False) -> None:
        self.begun = time.monotonic()
        self.received = bytearray()
        self.ended: float | None = None
        self.reset = False
        self.slow = slow  # notices an end late
        self.news = asyncio.Event()
        self.transport: asyncio.Transport = asyncio.Transport()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.send = transport.write

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
        self.eof_received()

    async def response(self, body: bool) -> Response:
        """The next answer. Raises CutError and WrongError."""
        while (response := take(self.received, body)) is None:
            if self.ended is not None:
                raise CutError
            await self.something()
        return response

    async def end(self) -> bytes:
        """What comes until the server ends it."""
        while self.ended is None:
            await self.something()
        return bytes(self.received)

    async def something(self) -> None:
        """Wait until more has come, or the end."""
        self.news.clear()
        await self.news.wait()

    def abort(self) -> None:
        """Vanish: a reset, whatever is under way."""
        ours = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self.transport.abort()


@dataclass
class Counts:
    """What the clients did, and what was wrong.

    answered: requests answered right; cut_by_client: requests whose
    client left before the answer; cut_by_kill: connections that ended
    because a worker was killed; roles: how often each was played.
    """

    connections: int = 0
    answered: int = 0
    cut_by_client: int = 0
    cut_by_kill: int = 0
    roles: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class Clients:
    """All clients of a server, and what they count."""

    def __init__(
        self, port: int, seed: int, polite: bool, patience: float
    ) -> None:
        """See `tools.bench.experiments.soak.soak`."""
        self.port = port
        self.random = random.Random(seed)
        self.polite = polite
        self.patience = patience
        self.counts = Counts()
        self.kills: list[float] = []  # moments at which a worker was killed
        self.page = b""
        self.keeps = True  # does it keep connections?
        self.old = False  # is it http.server, which lets much pass?
        self.until = 0.0

    def over(self) -> bool:
        """Shall clients stop?"""
        enough = len(self.counts.faults) >= MOST_FAULTS
        return enough or time.monotonic() >= self.until

    def fault(self, text: str) -> None:
        """Note that a rule was broken."""
        if len(self.counts.faults) < MOST_FAULTS:
            self.counts.faults.append(text)

    async def probe(self) -> None:
        """GET / is answered; what is its page, are connections kept?"""
        try:
            async with self.wire() as wire:
                wire.send(GET.data())
                async with asyncio.timeout(self.patience):
                    response = await wire.response(True)
        except (CutError, WrongError, OSError) as error:
            self.fault(f"GET / alone has no good answer: {error!r}")
            return
        if (response.status, len(response.body)) != (200, PAGE_BYTES):
            self.fault(f"GET / alone: {response.raw[:100]!r}")
        self.page = response.body
        self.old = response.version == "HTTP/1.0"
        self.keeps = not (self.old or response.closes)
        self.counts.answered += 1

    async def client(self) -> None:
        """Take up roles until the time is over."""
        roles = POLITE if self.polite else POLITE | IMPOLITE
        if self.old:
            roles = {n: w for n, w in roles.items() if n != "malformed"}
        while not self.over():
            (name,) = self.random.choices([*roles], [*roles.values()])
            last = time.monotonic() + SILENCE_SECONDS[1]
            if name == "silent_for_long" and last >= self.until:
                continue
            self.counts.roles[name] = self.counts.roles.get(name, 0) + 1
            buffer = self.random.choice(BUFFERS.get(name, (0,)))
            try:
                async with self.wire(buffer) as wire:
                    await getattr(self, name)(wire)
            except CutError as error:
                self.fault(f"{name}: cut without a kill {error}")
            except TimeoutError:
                self.fault(f"{name}: no answer in {self.patience:g} s")
            except (WrongError, OSError) as error:
                self.fault(f"{name}: {error}")
            await asyncio.sleep(self.random.uniform(0, 0.02))

    @contextlib.asynccontextmanager
    async def wire(self, buffer: int = 0) -> AsyncIterator[Wire]:
        """A new connection, closed at the end; buffer: its SO_RCVBUF."""
        with socket.socket() as new:
            new.setblocking(False)
            if buffer:
                new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(self.patience):
                await loop.sock_connect(new, ("127.0.0.1", self.port))
            ours = socket.socket(fileno=new.detach())
        _, wire = await loop.create_connection(
            lambda: Wire(slow=bool(buffer)), sock=ours
        )
        self.counts.connections += 1
        try:
            yield wire
        finally:
            wire.transport.close()

    def asks(self, most: int, choice: tuple[Ask, ...] = ASKS) -> list[Ask]:
        """Some requests for one connection."""
        number = self.random.randint(1, most) if self.keeps else 1
        return self.random.choices(choice, k=number)

    def bytes_of(self, *asks: Ask) -> bytes:
        """All of these requests, with padding here and there."""
        return b"".join(ask.data(*self.random.choice(PADDING)) for ask in asks)

    # Judging ----------------------------------------------------------

    def was_killed(self, wire: Wire) -> bool:
        """Did this connection end because a worker was killed?

        It may have begun after the kill: a worker that is dying can
        still accept. A slow reader finds out late: for it any kill in
        its life counts.
        """
        ended = wire.ended or time.monotonic()
        since = wire.begun if wire.slow else ended
        return any(since - CUT_SECONDS <= kill <= ended for kill in self.kills)

    def cut(self, wire: Wire, due: str) -> CutError:
        """How a connection ended, where something else was due."""
        ended = wire.ended or time.monotonic()
        before = [kill for kill in self.kills if kill <= ended]
        after = f" {ended - before[-1]:.2f} s after a kill" if before else ""
        return CutError(
            f"by {'a reset' if wire.reset else 'an end'}{after}, "
            f"{ended - wire.begun:.2f} s after it began, {due}"
        )

    async def check(self, wire: Wire, ask: Ask) -> Response | None:
        """Wait for the answer to a request; None if a kill cut it.

        Raises CutError, WrongError, and TimeoutError.
        """
        try:
            async with asyncio.timeout(self.patience):
                response = await wire.response(ask.body)
        except CutError:
            if self.was_killed(wire):
                self.counts.cut_by_kill += 1
                return None
            left = bytes(wire.received[:100])
            due = f"before the answer to {ask.line!r}; so far {left!r}"
            raise self.cut(wire, due) from None
        self.judge(ask, response)
        self.counts.answered += 1
        return response

    def judge(self, ask: Ask, response: Response) -> None:
        """Is it the right answer? Raises WrongError."""
        page = self.page if ask.status == 200 and ask.body else response.body
        if (response.status, response.body) != (ask.status, page):
            raise WrongError(f"{ask.line!r} got {response.raw[:400]!r}")

    async def check_all(
        self, wire: Wire, asks: list[Ask], ends: bool = False
    ) -> None:
        """The answers to all in order, unless a kill cuts them.

        ends: then the server ends the connection, and nothing else comes.
        """
        for index, ask in enumerate(asks):
            response = await self.check(wire, ask)
            if response is None:
                return
            if response.closes and index < len(asks) - 1:
                raise WrongError(f"{ask.line!r}: it closes before the last")
        if ends:
            async with asyncio.timeout(self.patience):
                rest = await wire.end()
            if rest:
                raise WrongError(f"more than was asked for: {rest[:200]!r}")
            if wire.reset and not self.was_killed(wire):
                raise self.cut(wire, "where an end was due")

    # Roles ------------------------------------------------------------

    async def ordinary(self, wire: Wire) -> None:
        """One request after the other, perhaps thinking in between."""
        for ask in self.asks(8):
            wire.send(self.bytes_of(ask))
            if await self.check(wire, ask) is None:
                return
            await asyncio.sleep(self.random.choice((0, 0, 0.01, 0.1)))

    async def pipelined(self, wire: Wire) -> None:
        """Many requests at once, in pieces that end anywhere."""
        asks = self.asks(20)
        data = self.bytes_of(*asks)
        cut = self.random.randrange(len(data))
        wire.send(data[:cut])
        await asyncio.sleep(self.random.choice((0, 0.001, 0.02)))
        wire.send(data[cut:])
        await self.check_all(wire, asks)

    async def closing(self, wire: Wire) -> None:
        """A request that asks to close, or an old one that implies it."""
        ask = self.random.choice(ASKS)
        if self.random.random() < 0.3:
            wire.send(ask.data(version="1.0"))
        else:
            wire.send(ask.data("Connection: close"))
        await self.check_all(wire, [ask], ends=True)

    async def half_closing(self, wire: Wire) -> None:
        """Requests, then the end of our side; the answers still come."""
        asks = self.asks(5)
        wire.send(self.bytes_of(*asks))
        wire.transport.write_eof()
        await self.check_all(wire, asks, ends=True)

    async def malformed(self, wire: Wire) -> None:
        """A request that is refused: 400, then the end."""
        wire.send(self.random.choice(MALFORMED))
        ask = Ask("a malformed request", 400)
        await self.check_all(wire, [ask], ends=True)

    async def slow_reader(self, wire: Wire) -> None:
        """A long pipeline, its answers read in small bites."""
        reading = asyncio.create_task(self.bites(wire))
        try:
            asks = self.asks(2000, QUICK)
            wire.send(b"".join(ask.data() for ask in asks))
            await self.check_all(wire, asks)
        finally:
            reading.cancel()

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

    async def byte_by_byte(self, wire: Wire) -> None:
        """A request whose bytes come one at a time."""
        ask = self.random.choice(ASKS)
        for byte in ask.data():
            wire.send(bytes([byte]))
            await asyncio.sleep(0.005)
            if wire.ended is not None:
                break
        await self.check(wire, ask)

    async def silent(self, wire: Wire) -> None:
        """Says nothing, or not all of it, and leaves after a while."""
        wire.send(GET.data()[: self.random.choice((0, 1, 20))])
        await asyncio.sleep(self.random.uniform(0, 2))
        gone = wire.ended is not None and not self.was_killed(wire)
        if wire.received or gone:
            got = bytes(wire.received[:100])
            raise WrongError(f"dropped at once: {got!r}")
        self.random.choice((wire.abort, wire.transport.close))()

    async def silent_for_long(self, wire: Wire) -> None:
        """Says nothing until the server loses its patience."""
        soonest, latest = SILENCE_SECONDS
        wire.send(GET.data()[: self.random.choice((0, 1, 20))])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(latest):
                await wire.end()
        data = bytes(wire.received[:100])
        if wire.ended is None:
            raise WrongError(f"still open after {latest:g} s of silence")
        if self.was_killed(wire):
            self.counts.cut_by_kill += 1
        elif wire.ended - wire.begun < soonest:
            raise WrongError(f"dropped too soon: {data!r}")
        elif data and not data.startswith(b"HTTP/1.1 408 "):
            raise WrongError(f"silence was answered: {data!r}")

    async def resetting(self, wire: Wire) -> None:
        """Leaves at any moment, mostly by a reset."""
        wire.slow = True
        asks = self.asks(self.random.choice((1, 3, 300)))
        data = self.bytes_of(*asks)
        if self.random.random() < 0.3:  # in the middle of a request
            data = data[: self.random.randrange(len(data))]
        if self.random.random() < 0.2:
            wire.transport.pause_reading()
        wire.send(data)
        await asyncio.sleep(self.random.choice((0, 0.001, 0.02, 0.1)))
        while asks and (response := take(wire.received, asks[0].body)):
            self.judge(asks.pop(0), response)  # what came must be right
            self.counts.answered += 1
        self.counts.cut_by_client += len(asks)
        leave = (wire.abort, wire.abort, wire.transport.close)
        self.random.choice(leave)()
