"""A soak: good clients beside hostile ones, all at once.

Twenty seconds for a server of each family. A longer one:
``SOAK_SECONDS=900 ./test.sh --all -k test_soak``.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.marks import slow
from tests.process import Running, running
from tests.test_faults import KINDS, MOMENTS, damaged, leave, talk
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
CLIENTS = 8  # good ones at a time, and as many hostile ones
LONG = 1000  # requests in the pipeline of a slow reader
SMALL = 4096  # bytes that its kernel takes, about
GROWTH = 16 * 2**20  # bytes of a process: more is a leak
Role = Callable[[Running, random.Random], None]


# Roles: what a client does with a server. A wrong response is a fault, and
# so is a missing one.


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


def vanishing(process: Running, draw: random.Random) -> None:
    leave(process.client(), *draw.choice(MOMENTS))


HOSTILE = byte_by_byte, slow_reader, garbage, vanishing


def mix(process: Running, seconds: float) -> Counter[str]:
    """All clients at once for so long: the roles they played.

    What one of them finds ends it for all, and is raised.
    """
    over = threading.Event()
    played: Counter[str] = Counter()

    def play(number: int) -> None:
        draw = random.Random(f"{number} {seconds}")
        roles: tuple[Role, ...] = HOSTILE if number % 2 else (well_behaved,)
        try:
            while not over.is_set():
                role = draw.choice(roles)
                role(process, draw)
                played[role.__name__] += 1
                transcript.clear()
        finally:
            over.set()

    with ThreadPoolExecutor(2 * CLIENTS) as pool:
        done = [pool.submit(play, number) for number in range(2 * CLIENTS)]
        over.wait(seconds)
        over.set()
    for each in done:
        each.result()
    return played


def soak(process: Running, seconds: float) -> Counter[str]:
    """So long, after a warm-up; then nothing may be left of the clients."""
    before = process.warm_up()
    mix(process, seconds / 10)
    memory = [(each, each.memory_info().rss) for each in process.processes()]
    played = mix(process, seconds)
    process.assert_at_rest(before)
    for each, bytes_before in memory:
        assert each.memory_info().rss - bytes_before < GROWTH
    return played


@slow
@pytest.mark.parametrize("name", ["03", "05", "06", "07", "07-emulated"])
def test_soak(name: str) -> None:
    # running() looks at stderr and the exit status in the end.
    with running(by_name(name)) as process:
        played = soak(process, SECONDS)
    assert {role.__name__ for role in (*HOSTILE, well_behaved)} == {*played}


@pytest.mark.parametrize(("fault", "says"), [
    ("leaks", r"^\(descriptors, threads\) were"),
    ("mixes up", r"Response\(version="),
    ("hangs up", r"(stopped with|hung up|reset)"),
])
def test_a_fault_is_found(tmp_path: Path, fault: str, says: str) -> None:
    with running(faulty(tmp_path, fault)) as process:
        process.patience = 2.0  # with what never comes
        with pytest.raises((AssertionError, OSError), match=says):
            soak(process, 1.0)
