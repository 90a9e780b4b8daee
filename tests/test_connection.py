"""Connection in web.py: the life of one connection, without I/O.

All deadlines are proved in no time: the tests set its clock.
"""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.marks import Patch
from tests.process import load
from tools.common.raw_client import GET, GET_CLOSE, HOST, read_responses
from tools.servers import ROOT

HALF = GET[:20]
MISSING = b"GET /missing HTTP/1.1\r\n" + HOST + b"\r\n"
BAD = b"GET / HTTP/1.1\r\n\r\n"
BODY = b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"
OLD = b"GET / HTTP/1.0\r\n\r\n"
Event = bytes | str | float
KINDS = [GET, MISSING, b"\r\n" + GET, GET_CLOSE, BAD, BODY, OLD, HALF]


class Clock:
    """A clock that tests set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load(ROOT / "02_sockets" / "web.py")


@pytest.fixture
def clock(module: ModuleType, monkeypatch: Patch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(module, "clock", made)
    yield made


class Driver:
    """Tells a connection what happens, and keeps what it sends."""

    def __init__(
        self, module: ModuleType, clock: Clock | None = None, **options: Any
    ) -> None:
        self.life = module.Connection(**options)
        self.clock = clock or Clock()
        self.sent = b""

    @property
    def next(self) -> str:
        return str(self.life.next.value)

    def take(self, size: int = 1 << 20) -> None:
        """The client takes so many bytes of the response."""
        part = self.life.unsent[:size]
        self.sent += part
        self.life.data_sent(len(part))

    def do(self, *events: Event) -> "Driver":
        """Bytes arrive; "work" is done; "take" the response, or its first
        "byte"; "late"; or so many seconds pass."""
        for event in events:
            if isinstance(event, bytes):
                self.life.data_received(event)
            elif isinstance(event, float):
                self.clock.now += event
            elif event in ("take", "byte"):
                self.take(1 if event == "byte" else 1 << 20)
            else:
                done = event == "work"
                (self.life.work_done if done else self.life.timed_out)()
        return self

    def statuses(self) -> list[int]:
        return [response.status for response in read_responses(self.sent)]


BYTEWISE: list[Event] = [
    event for byte in HALF for event in (bytes([byte]), 0.4)
]
MORE: list[Event] = [0.75, b"more"]  # while we linger
# What happened · what comes next · seconds until it is too late · what
# follows then · the responses before that
LIVES: list[tuple[list[Event], str, float | None, str | None, list[int]]] = [
    ([], "read", 10, "close", []),
    ([HALF], "read", 10, "send", []),
    ([GET], "work", None, None, []),
    ([GET, "work"], "send", 10, "close", []),
    ([GET, "work", 9.0, "byte"], "send", 10, "close", []),
    ([GET, "work", "take"], "read", 5, "close", [200]),
    ([GET, "work", "take", HALF], "read", 10, "send", [200]),
    ([GET + HALF, "work", "take"], "read", 10, "send", [200]),
    ([GET + GET, "work", "take"], "work", None, None, [200]),
    ([GET_CLOSE, "work", "take"], "linger", 1, "close", [200]),
    ([GET_CLOSE, "work", "take", b"more"], "linger", 1, "close", [200]),
    # Nothing is sent after the last response.
    ([GET_CLOSE, "work", "take", GET, GET], "linger", 1, "close", [200]),
    ([GET_CLOSE + GET, "work", "take"], "linger", 1, "close", [200]),
    ([BAD + GET, "take", GET], "linger", 1, "close", [400]),
    ([BAD], "send", 10, "close", []),
    ([BAD, "take"], "linger", 1, "close", [400]),
    ([HALF, "late"], "send", 10, "close", []),
    ([HALF, "late", "take"], "linger", 1, "close", [408]),
    ([MISSING], "send", 10, "close", []),
    ([b""], "close", None, None, []),
    ([HALF, b""], "close", None, None, []),
    ([GET, b"", "work"], "send", 10, "close", []),
    ([GET, b"", "work", "take"], "close", None, None, [200]),
    ([GET + GET, b"", "work", "take"], "work", None, None, [200]),
    ([GET_CLOSE, "work", "take", b""], "close", None, None, [200]),
    # Dribbling does not help: the time of a head is that of its first byte.
    (BYTEWISE, "read", 2, "send", []),
    # A busy loop may see data each time it looks, and never a timeout.
    ([HALF, 9.999, b"a"], "read", 0.001, "send", []),
    ([HALF, 9.999, b"a", 0.001, b"b", "take"], "linger", 1, "close", [408]),
    # A request that has arrived is not timed out, however busy we were.
    ([GET[:-2], 60.0, GET[-2:]], "work", None, None, []),
    ([GET, "work", "take", 60.0, GET, "work", "take"], "read", 5, "close",
     [200, 200]),
    # Lingering ends ten seconds later, although data keeps arriving.
    ([BAD, "take", *MORE * 12], "linger", 1, "close", [400]),
    ([BAD, "take", *MORE * 13], "linger", 0.25, "close", [400]),
    ([BAD, "take", *MORE * 13, 0.25, b"more"], "close", None, None, [400]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "next_", "seconds", "then", "responses"), LIVES
)
def test_what_comes_next_and_until_when(
    module: ModuleType, clock: Clock, events: list[Event], next_: str,
    seconds: float | None, then: str | None, responses: list[int],
) -> None:
    driver = Driver(module, clock).do(*events)
    assert driver.next == next_
    left = driver.life.deadline - clock.now
    assert left == (
        float("inf") if seconds is None else pytest.approx(seconds)
    )
    if next_ != "send":
        assert driver.statuses() == responses
    if seconds is not None:
        clock.now += left / 2
        assert driver.life.time_left() == pytest.approx(left / 2)
        clock.now += left
        assert driver.life.time_left() == 0
    if then:
        driver.do("late")
        assert driver.next == then


def test_not_kept(module: ModuleType) -> None:
    driver = Driver(module, keep=False).do(GET + GET, "work", "take")
    assert driver.next == "linger"
    (response,) = read_responses(driver.sent)
    assert response.closes


def test_the_last_response_when_we_stop(
    module: ModuleType, monkeypatch: Patch
) -> None:
    driver = Driver(module).do(GET + GET)
    monkeypatch.setattr(module, "shutting_down", [15])
    driver.do("work", "take")
    assert driver.next == "linger"
    assert read_responses(driver.sent)[-1].closes


def test_health_checks_of_a_lame_duck(
    module: ModuleType, monkeypatch: Patch
) -> None:
    check = GET.replace(b"/ ", b"/healthz ")
    driver = Driver(module).do(check, "work", "take")
    monkeypatch.setattr(module, "signals_received", [15])
    driver.do(check, "take", GET, "work", "take")
    assert driver.statuses() == [200, 503, 200]
    assert driver.next == "read"


checked = settings(deadline=None, derandomize=True, max_examples=300)
streams = st.lists(st.sampled_from(KINDS), max_size=5).map(b"".join)
choices = st.lists(st.integers(0, 60), max_size=40)


def play(driver: Driver, data: bytes, numbers: list[int]) -> bytes:
    """Work, send, or have some more data come; what has not come yet."""
    for number in numbers:
        if driver.next == "work" and number % 2:
            driver.do("work")
        elif driver.next == "send" and number % 3:
            driver.take(number * number)
        elif data and driver.next != "close":
            driver.do(data[:number + 1])
            data = data[number + 1:]
    return data


def finish(driver: Driver) -> Driver:
    """The client ends its side, and takes all that is still to come."""
    if driver.next != "close":
        driver.do(b"")
    while driver.next in ("work", "send"):
        driver.do("work" if driver.next == "work" else "take")
    return driver


@checked
@given(data=streams, numbers=choices)
@example(data=GET + GET + GET_CLOSE + GET, numbers=[1] * 40)
def test_any_interleaving_gives_the_same_responses(
    module: ModuleType, data: bytes, numbers: list[int]
) -> None:
    """Bytes in any pieces, before, while and after we work and send."""
    wanted = finish(Driver(module).do(data))
    driver = Driver(module)
    rest = play(driver, data, numbers)
    if rest and driver.next != "close":
        driver.do(rest)
    finish(driver)
    assert same(driver.sent) == same(wanted.sent)
    assert driver.next == "close"


def same(responses: bytes) -> list[tuple[int, bool]]:
    """Responses without their dates."""
    return [(each.status, each.closes) for each in read_responses(responses)]


@checked
@given(data=streams, numbers=choices)
def test_every_state_has_a_way_out(
    module: ModuleType, data: bytes, numbers: list[int]
) -> None:
    """Whatever happened: time alone ends the connection."""
    driver = Driver(module)
    play(driver, data, numbers)
    for _ in range(3):  # perhaps a 408, which nobody takes
        if driver.next == "work":
            driver.do("work")
        if driver.next != "close":
            driver.do("late")
    assert driver.next == "close"
