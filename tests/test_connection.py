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

    def __init__(self, module: ModuleType, **options: Any) -> None:
        self.life = module.Connection(**options)
        self.sent = b""

    @property
    def next(self) -> str:
        return str(self.life.next.value)

    def take(self, size: int = 1 << 20) -> None:
        """The client takes so many bytes of the answer."""
        part = self.life.unsent[:size]
        self.sent += part
        self.life.data_sent(len(part))

    def do(self, *events: str | bytes) -> "Driver":
        """Bytes come; "work" is done; "take" the answer; "late"."""
        for event in events:
            if isinstance(event, bytes):
                self.life.data_received(event)
            elif event == "take":
                self.take()
            else:
                done = event == "work"
                (self.life.work_done if done else self.life.timed_out)()
        return self

    def statuses(self) -> list[int]:
        return [response.status for response in read_responses(self.sent)]


# What happened · what comes next · seconds until it is too late · and then
LIVES = [
    ([], "read", 10, "close"),
    ([HALF], "read", 10, "send"),
    ([GET], "work", None, None),
    ([GET, "work"], "send", 10, "close"),
    ([GET, "work", "take"], "read", 5, "close"),
    ([GET, "work", "take", HALF], "read", 10, "send"),
    ([GET + HALF, "work", "take"], "read", 10, "send"),
    ([GET + GET, "work", "take"], "work", None, None),
    ([GET_CLOSE, "work", "take"], "linger", 1, "close"),
    ([GET_CLOSE, "work", "take", b"more"], "linger", 1, "close"),
    ([BAD], "send", 10, "close"),
    ([BAD, "take"], "linger", 1, "close"),
    ([HALF, "late"], "send", 10, "close"),
    ([HALF, "late", "take"], "linger", 1, "close"),
    ([MISSING], "send", 10, "close"),
    ([b""], "close", None, None),
    ([HALF, b""], "close", None, None),
    ([GET, b"", "work"], "send", 10, "close"),
    ([GET, b"", "work", "take"], "close", None, None),
    ([GET + GET, b"", "work", "take"], "work", None, None),
    ([GET_CLOSE, "work", "take", b""], "close", None, None),
]


@pytest.mark.parametrize(("events", "next_", "seconds", "then"), LIVES)
def test_what_comes_next_and_until_when(
    module: ModuleType, clock: Clock, events: list[str | bytes],
    next_: str, seconds: float | None, then: str | None,
) -> None:
    driver = Driver(module)
    for event in events:
        clock.now += 0.5
        driver.do(event)
    assert driver.next == next_
    left = driver.life.deadline - clock.now
    assert left == (float("inf") if seconds is None else seconds)
    if seconds is not None:
        clock.now += left - 0.001
        assert driver.life.time_left() == pytest.approx(0.001)
        clock.now += 0.001
        assert driver.life.time_left() == 0
    if then:
        driver.do("late")
        assert driver.next == then


def test_dribbling_does_not_help(module: ModuleType, clock: Clock) -> None:
    driver = Driver(module)
    until = clock.now + 10
    for number in range(len(HALF)):
        driver.do(HALF[number : number + 1])
        clock.now += 0.4
    assert driver.life.deadline == until
    driver.do("late", "take")
    assert driver.statuses() == [408]


def test_a_head_is_cut_while_it_keeps_arriving(
    module: ModuleType, clock: Clock
) -> None:
    # A busy loop may see data each time it looks, and never a timeout.
    driver = Driver(module).do(HALF)
    clock.now += 9.999
    driver.do(b"a")
    assert driver.next == "read"
    clock.now += 0.001
    driver.do(b"b", "take")
    assert driver.statuses() == [408]


def test_a_request_that_has_arrived_is_not_timed_out(
    module: ModuleType, clock: Clock
) -> None:
    # We were busy: it has been in the kernel since before the deadline.
    driver = Driver(module).do(GET[:-2])
    clock.now += 60
    driver.do(GET[-2:])
    assert driver.next == "work"
    driver.do("work", "take")
    clock.now += 60
    driver.do(GET, "work", "take")
    assert driver.statuses() == [200, 200]


def test_lingering_ends_although_data_keeps_arriving(
    module: ModuleType, clock: Clock
) -> None:
    driver = Driver(module).do(BAD, "take")
    until = clock.now + module.LINGER_MOST
    while clock.now + 0.75 < until:
        clock.now += 0.75
        driver.do(b"more")
        assert driver.next == "linger"
        assert driver.life.deadline == min(clock.now + 1, until)
    clock.now = until
    driver.do(b"more")
    assert driver.next == "close"


def test_progress_gives_more_time(module: ModuleType, clock: Clock) -> None:
    driver = Driver(module).do(GET, "work")
    clock.now += 9
    driver.take(1)
    assert driver.life.deadline == clock.now + 10


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
    """Answers without their dates."""
    return [(a.status, a.closes) for a in read_responses(responses)]


@checked
@given(data=streams, numbers=choices)
def test_nothing_is_sent_after_the_last_response(
    module: ModuleType, data: bytes, numbers: list[int]
) -> None:
    driver = Driver(module)
    play(driver, data, numbers)
    responses = driver.sent
    if driver.life.last and not driver.life.unsent:
        if driver.next == "linger":
            driver.do(GET, GET, b"x")
        assert (driver.sent, driver.life.unsent) == (responses, b"")
        assert driver.next in ("linger", "close")


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
