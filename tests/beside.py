"""Tests that wait do so side by side: one session of them all.

They mostly sleep, each with a server of its own, so there is no reason to
sleep one after the other. Whoever is first starts those of all servers
that were chosen; each test then has the outcome of its own.
"""

import ast
import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.common.raw_client import transcript

AT_ONCE = 32
# One worker runs them. Who shares out the work has not imported the tests.
NAMES = {
    name for path in Path(__file__).parent.rglob("test_*.py")
    for name in re.findall(r"^@beside\ndef (\w+)", path.read_text(), re.M)
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


@pytest.fixture(scope="session")
def all_waits(
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Future[None]]]:
    """node id -> what comes of that test."""
    pool = ThreadPoolExecutor(AT_ONCE)
    waits = {}
    items: list[Any] = [*request.session.items]
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        if test := getattr(getattr(item, "function", None), "test", None):
            parameters = {
                name: item.callspec.params[name]
                for name in inspect.signature(test).parameters
            }
            waits[item.nodeid] = pool.submit(test, **parameters)
    yield waits
    pool.shutdown(cancel_futures=True)


@pytest.fixture
def waited(
    request: pytest.FixtureRequest, all_waits: dict[str, Future[None]]
) -> Future[None]:
    """What comes of this test."""
    transcript.clear()  # it shows everybody's clients, mixed
    return all_waits[request.node.nodeid]
