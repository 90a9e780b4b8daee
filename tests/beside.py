"""Tests that wait do so side by side: one session of them all.

They mostly sleep, each with a server of its own, so there is no reason to
sleep one after the other. The first of them starts those of all servers
that were chosen; each test then has the outcome of its own.
"""

import ast
import contextlib
import gc
import inspect
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
WANTED = 8192  # descriptors for all of them; fewer, and they take longer
FEW, MANY = 60, 230  # that a test has open at most; that one of a crowd has
CROWD = threading.Semaphore(0)  # taken to have more than FEW open
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


def limit() -> int:
    """How many descriptors this process may open, raised if it can be.

    An ordinary login has 1,024, macOS 256; both may have more if they ask.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    most = WANTED if hard == unlimited else min(hard, WANTED)
    if soft != unlimited and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def beside(test: Callable[..., None]) -> Callable[..., None]:
    """Run this test beside the others; all it takes are parameters."""
    signature = inspect.signature(test)

    def outcome(waited: Future[None], **parameters: object) -> None:
        waited.result()

    mine = inspect.Parameter("waited", inspect.Parameter.KEYWORD_ONLY)
    outcome.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), mine]
    )
    outcome.__name__, outcome.__doc__ = test.__name__, test.__doc__
    outcome.test = test  # type: ignore[attr-defined]
    return outcome


def beside_with(
    descriptors: int,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Beside, with so many descriptors open: no more than FEW."""
    assert descriptors <= FEW
    return beside


def run(test: Callable[..., None], parameters: dict[str, Any]) -> None:
    """Run a test in this thread, and close what it leaves open."""
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


@pytest.fixture(scope="session")
def all_waits(
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Future[None]]]:
    """node id -> what comes of that test."""
    gc.collect()  # what earlier tests have left
    free = limit()
    number = max(1, min(AT_ONCE, (free - MANY) // FEW))
    CROWD.release(max(1, (free - number * FEW) // MANY))
    waits = {}
    items: list[Any] = [*request.session.items]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    with ThreadPoolExecutor(number) as pool:
        for item in items:
            if test := getattr(getattr(item, "function", None), "test", None):
                parameters = {
                    name: item.callspec.params[name]
                    for name in inspect.signature(test).parameters
                }
                waits[item.nodeid] = pool.submit(run, test, parameters)
        yield waits
        pool.shutdown(cancel_futures=True)


@pytest.fixture
def waited(
    request: pytest.FixtureRequest, all_waits: dict[str, Future[None]]
) -> Future[None]:
    """What comes of this test."""
    transcript.clear()  # it shows everybody's clients, mixed
    return all_waits[request.node.nodeid]
