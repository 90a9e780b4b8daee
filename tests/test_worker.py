"""The worker of 07 with an engine that says what we want it to say.

Orders of completions that real clients bring about once in a long while.
"""

import errno
import math
import socket
import time
from argparse import Namespace
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.marks import Patch
from tests.process import load
from tools.servers import ROOT

ACCEPTED, RECEIVED, SENT, SLEPT = range(4)
CLOCK = -1
OK, NOT_FOUND = b"HTTP/1.1 200", b"HTTP/1.1 404"
UNAVAILABLE = b"HTTP/1.1 503"
FD = 500  # of the client
MOST_KINDS = 256
LAST = b"GET / HTTP/1.0\r\n\r\n"
KEPT = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
CHECK = KEPT.replace(b"/ ", b"/healthz ")
Completion = tuple[int, int, int, bytes, bool]


class Done(Exception):
    """The script is at its end."""


class Script:
    """An engine that plays batches and notes what it was asked for."""

    def __init__(self) -> None:
        self.batches: list[list[Completion]] = []
        self.failures: list[list[tuple[int, int]]] = []
        self.failed: list[tuple[int, int]] = []
        self.asked: list[tuple[Any, ...]] = []
        self.number = 0  # of the batch

    def wait(self, block: bool = True) -> list[Completion]:
        if not self.batches:
            raise Done
        self.number += 1
        self.failed = self.failures.pop(0) if self.failures else []
        return self.batches.pop(0)

    def prepare(self, response: bytes, last: bool) -> Namespace:
        return Namespace(response=response, last=last)

    def responses(self) -> list[bytes]:
        """The status lines of what was sent at once, in order."""
        return [call[2].response[:12] for call in self.of("send_now")]

    def __getattr__(self, name: str) -> Any:
        def note(*arguments: Any) -> None:
            self.asked.append((name, *arguments))

        return note

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """The calls of that name for our client."""
        return [call for call in self.asked if call[:2] == (name, FD)]


@pytest.fixture(scope="module")
def loaded() -> ModuleType:
    return load(ROOT / "07_parallel" / "server.py")


@pytest.fixture
def step(loaded: ModuleType) -> Iterator[ModuleType]:
    """The server as a module; afterwards there was no signal."""
    yield loaded
    loaded.signals_received.clear()
    loaded.shutting_down.clear()


class Play:
    """Plays batches to a worker."""

    def __init__(
        self, step: ModuleType, delay: float = 0, compute: int = 0
    ) -> None:
        self.script = Script()
        self.ours, self.theirs = socket.socketpair()
        self.listener = socket.socket()
        options = Namespace(
            engine=lambda: self.script, delay=delay, compute=compute,
            directory=None,
        )
        self.worker = step.Worker(self.listener, self.theirs, options)
        self.first = (ACCEPTED, self.listener.fileno(), FD, b"", True)

    def run(self, *batches: list[Completion]) -> None:
        """A client comes; then these batches of completions."""
        self.script.batches = [[self.first], *batches]
        with pytest.raises(Done):
            self.worker.run()
        for each in (self.ours, self.theirs, self.listener):
            each.close()


@pytest.fixture
def play(step: ModuleType) -> Play:
    """No work, and no response that is prepared already."""
    step.AtOnce.send.__globals__["kind_of"].cache_clear()
    return Play(step)


def came(data: bytes, again: bool = False) -> Completion:
    return (RECEIVED, FD, len(data), data, again)


SLEPT_NOW = (SLEPT, FD, 0, b"", False)
TICK = (SLEPT, CLOCK, 0, b"", False)
MISSING = KEPT.replace(b"/ ", b"/missing ")

# Batches of completions after the first request · the status lines of what
# is sent at once. A response is prepared from what has been asked for
# before, and only from that.
BATCHES: dict[str, tuple[list[list[Completion]], list[bytes]]] = {
    "pieces in order": (
        [[came(piece, True) for piece in (KEPT, MISSING[:7], MISSING[7:])],
         [], []], [OK, OK, NOT_FOUND],
    ),
    **{name: ([[came(KEPT, True)], [came(data, True)]], [OK, OK, *sent])
       for name, data, sent in (
        ("another target", KEPT.replace(b"/ ", b"/?a=1 "), [OK]),
        ("one that is not there", MISSING, [NOT_FOUND]),
        ("another Host", KEPT.replace(b"a\r", b"b\r"), [OK]),
        ("not complete", KEPT[:-2], []),
        ("pipelined", KEPT + KEPT, []),
        ("with a body", KEPT[:-2] + b"Content-Length: 3\r\n\r\n", []),
        ("the last", KEPT[:-2] + b"Connection: close\r\n\r\n", []),
        ("malformed", KEPT.replace(b"/ ", b"/?\x00 "), []),
        ("too long", KEPT.replace(b"/ ", b"/?" + b"a" * 8192 + b" "), []),
        ("another version", KEPT.replace(b"1.1", b"1.0"), []),
    )},
}


@pytest.mark.parametrize(
    ("batches", "responses"), BATCHES.values(), ids=BATCHES
)
def test_what_is_sent_at_once(
    play: Play, batches: list[list[Completion]], responses: list[bytes]
) -> None:
    play.run([came(KEPT)], *batches)
    assert play.script.responses() == responses


def test_a_last_response_and_the_clock_in_one_batch(
    step: ModuleType, monkeypatch: Patch
) -> None:
    # The delay was as long as our patience: the response is under way, so
    # the client is not too slow, and the connection is closed once.
    web = step.Client.data_received.__globals__
    monkeypatch.setitem(web, "HEAD_SECONDS", 0.0)
    play = Play(step, delay=10)
    play.run([came(LAST)], [SLEPT_NOW, TICK], [TICK])
    assert [call[2].last for call in play.script.of("send_now")] == [True]
    assert not play.script.of("close") and not play.worker.clients


def test_a_last_response_that_did_not_go(play: Play) -> None:
    play.script.failures = [[], [], [(FD, 100)]]
    play.run([came(LAST)], [TICK], [(SENT, FD, 400, b"", False)])
    ((_, _, ready),) = play.script.of("send_now")
    assert play.script.of("send")[0][2] == ready.response[100:]


def test_a_flood_behind_a_response_is_paused(play: Play) -> None:
    flood = [came(KEPT * 9, True)] * 40
    play.run([came(KEPT)], [came(KEPT, True), *flood])
    assert play.script.of("pause"), "it may send without end"


def test_no_buffer_was_free(play: Play) -> None:
    empty = (RECEIVED, FD, -errno.ECANCELED, b"", False)
    play.run([empty], [came(KEPT)])
    assert len(play.script.of("receive")) == 3  # first, again, a stream


def test_a_late_worker_does_not_time_out_what_has_arrived(
    step: ModuleType, play: Play, monkeypatch: Patch
) -> None:
    # A batch took longer than our patience; what clients sent meanwhile
    # may come with the next.
    web = step.Client.__init__.__globals__
    monkeypatch.setitem(web, "IDLE_SECONDS", 0.0)
    moments = [0.0, 0.1, 20.0, 20.1, 20.2]
    monkeypatch.setattr(step, "clock", lambda: moments[play.script.number])
    play.run([came(KEPT)], [TICK], [came(KEPT, True)])
    assert not play.script.of("cancel") and not play.script.of("close")
    assert len(play.script.of("send_now")) == 2


def test_prepared_responses_are_of_this_second(
    play: Play, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(
        time, "time", lambda: 1_000_000_000 + play.script.number // 3
    )
    play.run([came(KEPT)], *[[came(KEPT, True)]] * 3)
    sent = play.script.of("send_now")
    dates = [call[2].response.split(b"\r\n")[1] for call in sent]
    assert [date[-6:-4] for date in dates] == [b"40", b"41", b"41", b"41"]


def test_prepared_responses_are_not_too_many(play: Play) -> None:
    play.run([came(KEPT)], *(
        [came(KEPT.replace(b"a\r", b"%d\r" % number), True)]
        for number in range(2 * MOST_KINDS)
    ))
    assert 0 < len(play.worker.at_once.prepared) <= MOST_KINDS


@pytest.mark.parametrize(("delay", "compute"), [(0.1, 0), (0.0, 1)])
def test_work_is_done_each_time(
    step: ModuleType, delay: float, compute: int
) -> None:
    play = Play(step, delay, compute)
    play.run([came(KEPT)])
    assert not play.worker.at_once.prepares
    assert not play.worker.at_once.prepared


@pytest.mark.parametrize("words", [[b"stop"], [b"leave", b"leavestop"]])
def test_words_of_the_parent(
    step: ModuleType, play: Play, words: list[bytes]
) -> None:
    """They may come one by one, or together; or there was no buffer."""
    line = play.theirs.fileno()
    play.run([(RECEIVED, line, -errno.ECANCELED, b"", False)], *(
        [(RECEIVED, line, 1, word, False)] for word in words
    ))
    assert step.signals_received and step.shutting_down
    assert play.worker.leave_until < math.inf


def test_a_health_check_has_no_prepared_response(play: Play) -> None:
    """Nor is its own one prepared for others."""
    leave = (RECEIVED, play.theirs.fileno(), 5, b"leave", False)
    both = [came(CHECK, True)], [came(KEPT, True)]
    play.run([came(CHECK)], [came(CHECK, True)], [leave], *both, *both)
    assert play.script.responses() == [OK, OK, *[UNAVAILABLE, OK] * 2]
