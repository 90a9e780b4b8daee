"""A soak: good clients beside hostile ones, while workers are killed.

Twenty seconds for a server of each family. A longer one:
``SOAK_SECONDS=900 ./test.sh --all -k test_soak``.
"""

import math
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.marks import slow
from tests.process import PATIENCE, Running, alive, eventually, running
from tests.test_faults import KINDS, MOMENTS, damaged, leave, replaced, talk
from tests.tools.faulty import faulty
from tools.common.raw_client import (
    GET,
    Client,
    NoResponse,
    read_responses,
    transcript,
)
from tools.servers import by_name

pytestmark = pytest.mark.thorough
SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
KILL_SECONDS = min(4.0, SECONDS / 5)  # from one killed worker to the next
DYING_SECONDS = 1.0  # until the kernel has ended a dead worker's io_uring
CLIENTS = 8  # good ones at a time, and as many hostile ones
LONG = 1000  # requests in the pipeline of a slow reader
SMALL = 4096  # bytes that its kernel takes, about
GROWTH = 16 * 2**20  # bytes of a process: more is a leak
Role = Callable[[Running, random.Random], None]


# Roles: what a client does with a server. A wrong response is a fault, and so
# is a missing one, unless a worker was killed meanwhile.


def well_behaved(process: Running, draw: random.Random) -> None:
    talk(process, draw.randrange(10**9))


def byte_by_byte(process: Running, draw: random.Random) -> None:
    with process.client() as client:
        for byte in GET:
            client.send(bytes([byte]))
            time.sleep(0.002)
        assert len(client.response().body) == 249


def slow_reader(process: Running, draw: random.Random) -> None:
    """A long pipeline, its responses read in small bites."""
    asked = draw.choices(KINDS[2:], k=LONG)  # those without a delay
    with Client(
        process.port, b"".join(request for request, _ in asked),
        receive_buffer=SMALL, timeout=process.patience,
    ) as client:
        client.half_close()
        while bite := client.socket.recv(draw.choice((100, 1000, 10_000))):
            client.received += bite
            time.sleep(0.0002)
        found = read_responses(client.rest())
        # A killed worker's kernel closes between two responses, too.
        if len(found) < LONG:
            raise NoResponse(f"hung up after {len(found)} of {LONG}")
        # The first of them alone: to show a difference of all takes minutes.
        wrong = (
            one for one, (_, status) in zip(found, asked, strict=True)
            if one.status != status
        )
        assert next(wrong, None) is None


def garbage(process: Running, draw: random.Random) -> None:
    with process.client(damaged(draw)) as client:
        client.half_close()
        read_responses(client.rest())
        client.reset()


def half_request(process: Running, draw: random.Random) -> None:
    with process.client(GET[: draw.choice((0, 1, 20))]) as client:
        time.sleep(draw.random())
        draw.choice((client.close, client.reset))()


def vanishing(process: Running, draw: random.Random) -> None:
    leave(process.client(), *draw.choice(MOMENTS))


HOSTILE = byte_by_byte, slow_reader, garbage, half_request, vanishing


class Soak:
    """All clients of a server: what they played, and who was killed."""

    def __init__(self, process: Running) -> None:
        self.process = process
        self.over = threading.Event()
        self.played: Counter[str] = Counter()
        self.kills: list[list[float]] = []  # from the signal until it is gone

    def mix(self, seconds: float, *more: Callable[[], None]) -> None:
        """All clients at once for so long; raises what one of them found."""
        work = [*more]
        for number in range(CLIENTS):
            draw = random.Random(f"{number} {seconds}")
            work.append(partial(self.play, draw, well_behaved))
            work.append(partial(self.play, draw, *HOSTILE))
        self.over.clear()
        with ThreadPoolExecutor(len(work)) as pool:
            done = [pool.submit(self.go_on, once) for once in work]
            self.over.wait(seconds)
            self.over.set()
        for each in done:
            each.result()

    def go_on(self, once: Callable[[], None]) -> None:
        """Again and again until it is over. A fault ends it, for all."""
        try:
            while not self.over.is_set():
                once()
        except BaseException:
            self.over.set()
            raise

    def play(self, draw: random.Random, *roles: Role) -> None:
        """One of the roles."""
        role, begun = draw.choice(roles), time.monotonic()
        try:
            role(self.process, draw)
        except (NoResponse, OSError) as error:
            # Which worker had a connection cannot be seen from outside.
            now = time.monotonic()
            assert any(
                kill <= now and begun <= gone for kill, gone in self.kills
            ), f"{role.__name__}: {error}"
        self.played[role.__name__] += 1
        transcript.clear()

    def kill(self) -> None:
        """Kill the youngest worker; another comes.

        The eldest lives through it all, so its memory can be compared.
        """
        if self.over.wait(KILL_SECONDS):
            return
        workers = self.process.workers()
        youngest = max(workers, key=lambda worker: worker.create_time())
        kill = [time.monotonic(), math.inf]
        self.kills.append(kill)
        youngest.kill()
        there = partial(replaced, self.process, [youngest], len(workers))
        assert eventually(there, PATIENCE), self.process.workers()
        kill[1] = time.monotonic() + DYING_SECONDS


def soak(process: Running, seconds: float) -> Soak:
    """So long, after a warm-up; then nothing may be left of the clients."""
    one = Soak(process)
    before = process.warm_up()
    one.mix(seconds / 10)
    memory = [(each, each.memory_info().rss) for each in process.processes()]
    one.mix(seconds, *[one.kill] * bool(process.workers()))
    process.assert_at_rest(before)
    for each, bytes_before in memory:
        if alive(each):
            assert each.memory_info().rss - bytes_before < GROWTH
    return one


@slow
@pytest.mark.parametrize("name", ["03", "05", "06", "07", "07-emulated"])
def test_soak(name: str) -> None:
    # running() looks at stderr and the exit status in the end.
    with running(by_name(name)) as process:
        workers = process.workers()  # none where they are threads
        one = soak(process, SECONDS)
    assert {role.__name__ for role in HOSTILE} < {*one.played}
    assert bool(one.kills) == bool(workers)


@pytest.mark.parametrize(("fault", "says"), [
    ("leaks", r"^\(descriptors, threads\) were"),
    ("mixes up", r"Response\(version="),
    ("hangs up", r"^\w+: .*(stopped with|hung up)"),
])
def test_a_fault_is_found(tmp_path: Path, fault: str, says: str) -> None:
    with running(faulty(tmp_path, fault)) as process:
        process.patience = 2.0  # with what never comes
        with pytest.raises(AssertionError, match=says):
            soak(process, 1.0)
