"""Recordings to play in tests: simple times, never shown as measured.

Twenty clients begin at 0 and each waits 100 ms in the server. One for each
way in which a server waits.
"""

from dataclasses import replace
from pathlib import Path

from tools.data.recording import NOBODY, TIMER, Client, Lane, Recording, Span
from tools.data.results import Machine

COUNT = 20
DELAY = 100_000  # µs
BEGUN, CONNECTED, SENT = 10, 60, 100  # µs
SOON = 1_000  # µs that anything takes but the delay


def _recording(
    name: str, clients: list[Client], lanes: list[Lane], note: str = ""
) -> Recording:
    end = max(c.done for c in clients)
    return Recording(
        server=name,
        command=f"python3 {name}",
        started="2000-01-02T03:04:05+00:00",
        commit="",
        machine=Machine("A & B <CPU>", 2, 2**33, "Linux", "CPython", 1024),
        tools={"strace": "6.1"},
        delay=DELAY / 1e6,
        clients=clients,
        lanes=lanes,
        calls=[(0, 0), (end // 2, 111), (end, 1234)],
        calls_by_name={"accept4": 20, "recvfrom": 1214},
        note=note,
    )


def _client(accepted: int, read: int, answered: int, lane: int) -> Client:
    return Client(
        BEGUN, CONNECTED, SENT, answered + 200, answered + 400,
        accepted, read, answered, lane,
    )  # fmt: skip


def _life(client: int, begin: int) -> tuple[Span, ...]:
    """One request from reading to closing in one thread."""
    read = begin + SOON
    answered = read + DELAY
    return (
        Span("read", begin + 500, read, client),
        Span("wait", read, answered - 100, client),
        Span("write", answered, answered + 100, client),
        Span("wait", answered + 200, answered + 300, client),
    )


def one(name: str, accept_all: bool = False) -> Recording:
    """One thread, one request after the other (01, 02; 04: accept_all)."""
    spans: list[Span] = []
    clients = []
    for at in range(COUNT):
        begin = at * (DELAY + 2 * SOON) + SOON
        accepted = SOON + at if accept_all else begin
        spans.append(Span("accept", begin - 100, begin, at))
        spans += _life(at, begin)
        answered = begin + SOON + DELAY
        clients.append(_client(accepted, begin + SOON, answered, 0))
    return _recording(name, clients, [Lane("main", 0, tuple(spans))])


def threads(name: str, pool: int = COUNT) -> Recording:
    """A thread for each of so many requests (03, 03-pool)."""
    clients = []
    spans: list[list[Span]] = [[] for _ in range(pool)]
    main = []
    for at in range(COUNT):
        turn, lane = divmod(at, pool)
        accepted = SOON + at * 50
        begin = 2 * SOON + at * 50 + turn * (DELAY + 3 * SOON)
        main.append(Span("accept", accepted - 50, accepted, at))
        spans[lane] += _life(at, begin)
        clients.append(
            _client(accepted, begin + SOON, begin + SOON + DELAY, lane + 1)
        )
    main.append(Span("wait", 50 * SOON, 60 * SOON))
    lanes = [Lane("main", 0, tuple(main))]
    lanes += [
        Lane(f"thread {at}", 0, tuple(its))
        for at, its in enumerate(spans, 1)
    ]
    return _recording(name, clients, lanes)


def timers(name: str) -> Recording:
    """A loop that does all but the waiting, a thread each for that (05)."""
    made = executor(name, COUNT)
    made.lanes[1:] = [
        replace(lane, name=f"{TIMER} {at}")
        for at, lane in enumerate(made.lanes[1:], 1)
    ]
    return made


def loop(name: str, workers: int = 1, note: str = "") -> Recording:
    """A loop that parks its requests, or several (05-heap, 06, 07)."""
    clients = []
    spans: list[list[Span]] = [[] for _ in range(workers)]
    for at in range(COUNT):
        lane = at % workers
        read = SOON + 100 * at
        answered = read + DELAY
        spans[lane] += [
            Span("accept", read - 90, read - 60, at),
            Span("read", read - 50, read, at),
            Span("write", answered, answered + 40, at),
        ]
        clients.append(_client(read - 60, read, answered, lane))
    for its in spans:
        its.append(Span("wait", 5 * SOON, 90 * SOON, NOBODY))
        its.sort(key=lambda span: span.begin)
    lanes = [
        Lane(f"worker {at}", at, tuple(its)) for at, its in enumerate(spans)
    ]
    return _recording(name, clients, lanes, note)


def executor(name: str, pool: int = 6) -> Recording:
    """A loop that reads all at once, and threads that wait in turn."""
    clients = []
    spans: list[list[Span]] = [[] for _ in range(pool)]
    main: list[Span] = []
    for at in range(COUNT):
        turn, lane = divmod(at, pool)
        read = SOON + 100 * at
        begin = 4 * SOON + turn * (DELAY + SOON)
        answered = begin + DELAY + 2 * SOON
        main.append(Span("read", read - 50, read, at))
        main.append(Span("write", answered + at, answered + at + 1, at))
        spans[lane].append(Span("wait", begin, begin + DELAY, at))
        clients.append(_client(read - 60, read, answered, lane + 1))
    main.sort(key=lambda span: span.begin)
    lanes = [Lane("main", 0, tuple(main))]
    lanes += [
        Lane(f"thread {at}", 0, tuple(its))
        for at, its in enumerate(spans, 1)
    ]
    return _recording(name, clients, lanes)


def everybody() -> list[Recording]:
    """One recording for each server."""
    return [
        one("01"), one("02"), threads("03"), threads("03-pool", 10),
        one("04", accept_all=True), timers("05"), loop("05-heap"),
        loop("06"), executor("06-executor"), loop("06-protocol"),
        loop("07", 2, "Seen from the clients."), loop("07-emulated", 2),
    ]


def save(folder: Path) -> Path:
    """Write a recording of every server; the folder."""
    for made in everybody():
        made.save(folder)
    return folder
