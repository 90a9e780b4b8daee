"""Tests that wait do so side by side: one session of them all.

They mostly sleep, each with a server of its own, so there is no reason to
sleep one after the other. Whoever is first starts those of all servers
that were chosen; each test then has the outcome of its own.

All of them share the descriptors of one process, of which an ordinary
login has 1,024 and macOS 256. So each test names how many it has open at
most, and starts when so many are free.
"""

import ast
import contextlib
import gc
import inspect
import os
import re
import resource
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.common.raw_client import transcript

AT_ONCE = 32
FEW = 12  # descriptors: a server's two files, and some clients
SPARE = 64  # for the process itself, and tests that run one by one
# One worker runs them. Who shares out the work has not imported the tests.
NAMES = {
    name for path in Path(__file__).parent.rglob("test_*.py")
    for name in re.findall(r"^@beside.*\ndef (\w+)", path.read_text(), re.M)
}

PARSE = ast.parse


def parse_again(*given: Any, **named: Any) -> Any:
    """ast.parse, tried again if Python lost its count of the depth.

    Python 3.11 counts once for all: another thread that parses in between,
    or a finalizer, ends it with a SystemError, and so the whole session
    (https://github.com/python/cpython/issues/106905).
    """
    for _ in range(9):
        with contextlib.suppress(SystemError):
            return PARSE(*given, **named)
    return PARSE(*given, **named)


ast.parse = parse_again  # pytest and traceback parse to show an error


class Budget:
    """Descriptors that tests take and give back."""

    def __init__(self, size: int) -> None:
        self.size = self.free = size
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Wait until so many are free."""
        if number > self.size:
            pytest.skip(
                f"needs {number} descriptors more, and this process may "
                f"open {limit()} (ulimit -n)"
            )
        with self.changed:
            self.changed.wait_for(lambda: self.free >= number)
            self.free -= number
        try:
            yield
        finally:
            with self.changed:
                self.free += number
                self.changed.notify_all()


def limit() -> int:
    """How many descriptors this process may open (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10**6 if soft == resource.RLIM_INFINITY else soft


def opened() -> int:
    """How many descriptors this process has open."""
    found = 0
    for fd in range(min(limit(), 4096)):
        with contextlib.suppress(OSError):
            os.fstat(fd)
            found += 1
    return found


def beside(
    test: Callable[..., None], descriptors: int = FEW
) -> Callable[..., None]:
    """Run this test beside the others; all it takes are parameters.

    descriptors: how many it has open at most.
    """
    signature = inspect.signature(test)

    def outcome(waited: Future[None], **parameters: object) -> None:
        waited.result()

    mine = inspect.Parameter("waited", inspect.Parameter.KEYWORD_ONLY)
    outcome.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), mine]
    )
    outcome.__name__, outcome.__doc__ = test.__name__, test.__doc__
    outcome.test = test  # type: ignore[attr-defined]
    outcome.descriptors = descriptors  # type: ignore[attr-defined]
    return outcome


def beside_with(
    descriptors: int,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like `beside`, for a test that has so many descriptors open."""
    return lambda test: beside(test, descriptors)


@pytest.fixture(scope="session")
def all_waits(
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Future[None]]]:
    """node id -> what comes of that test."""
    pool = ThreadPoolExecutor(AT_ONCE)
    gc.collect()  # what earlier tests have left
    budget = Budget(limit() - opened() - SPARE)
    waits = {}

    def in_turn(
        descriptors: int, test: Callable[..., None], **parameters: Any
    ) -> None:
        with budget.take(descriptors):
            try:
                test(**parameters)
            except BaseException as error:
                # What its frames hold would stay open until the last.
                traceback.clear_frames(error.__traceback__)
                raise
            finally:
                for client in transcript:
                    if client.thread == threading.get_ident():
                        client.socket.close()

    items: list[Any] = [*request.session.items]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if test := getattr(getattr(item, "function", None), "test", None):
            parameters = {
                name: item.callspec.params[name]
                for name in inspect.signature(test).parameters
            }
            waits[item.nodeid] = pool.submit(
                in_turn, item.function.descriptors, test, **parameters
            )
    yield waits
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def waited(
    request: pytest.FixtureRequest, all_waits: dict[str, Future[None]]
) -> Future[None]:
    """What comes of this test."""
    transcript.clear()  # it shows everybody's clients, mixed
    return all_waits[request.node.nodeid]
