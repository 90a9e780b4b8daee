"""The sketches: each runs, shows its lesson, and stays a sketch."""

import ast
import difflib
import itertools
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tools.common.launch import Launched, eventually
from tools.common.raw_client import GET, Client, NoAnswer
from tools.servers import ROOT

SKETCHES = sorted(ROOT.glob("0*/sketch.py"))
ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"
DELAY = 0.1  # of a request, in every sketch
MANY = 30  # clients: one after the other they take three seconds

# The rows of the table of lessons that a sketch shows already.
OVERLAP = {"03", "05", "06", "07"}  # many wait at the same time
SILENT = {"03", "04", "05", "06", "07"}  # a silent client is no trouble
GROWS = {"03"}  # a thread more for each client
# Lines that are new or gone since the sketch before, without docstrings.
CHANGED = {"02": 21, "03": 3, "04": 17, "05": 17, "06": 36, "07": 36}


def step(path: Path) -> str:
    return path.parent.name[:2]


def ids(path: Path) -> str:
    return f"sketch-{step(path)}"


@pytest.fixture(params=SKETCHES, ids=ids)
def sketch(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


class Running(Launched):
    """A copy of a sketch that listens on a free port."""

    def __init__(self, path: Path, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        for neighbour in path.parent.glob("*.py"):  # 07 has an engine
            shutil.copy(neighbour, folder)
        text = path.read_text()
        assert text.count("8000") == 1
        copy = folder / "sketch.py"
        copy.write_text(text.replace("8000", str(self.port)))
        super().__init__([sys.executable, str(copy)])
        assert eventually(self.listens), self.complaints

    def listens(self) -> bool:
        """Does it answer?"""
        try:
            with Client(self.port, GET) as client:
                return bool(client.rest())
        except OSError:
            return False


@pytest.fixture
def running(sketch: Path, tmp_path: Path) -> Iterator[Running]:
    process = Running(sketch, tmp_path)
    yield process
    process.kill()


def test_a_sketch_for_each_step() -> None:
    assert [step(path) for path in SKETCHES] == [
        f"{number:02}" for number in range(1, 8)
    ]


def test_is_short_and_plain(sketch: Path) -> None:
    text = sketch.read_text()
    lines = text.splitlines()
    assert 15 <= len(lines) <= 36
    assert max(map(len, lines)) <= 72
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert doc.startswith(f"{step(sketch)}: ")
    assert doc.splitlines()[-1].startswith("Left out: ")
    assert repr(ANSWER).replace("'", '"') in text
    for name in ("listener", "ANSWER", "8000", "0.1"):
        assert name in text, name


def code(path: Path) -> list[str]:
    """The lines below the docstring."""
    return path.read_text().split('"""', 2)[2].splitlines()


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.pairwise(SKETCHES)),
    ids=lambda path: step(path),
)
def test_the_diff_is_the_idea(before: Path, after: Path) -> None:
    changed = [
        line for line in difflib.ndiff(code(before), code(after))
        if line[0] in "+-" and line[2:].strip()
    ]
    assert len(changed) <= CHANGED[step(after)], "\n".join(changed)


def test_waiting_overlaps_or_not(running: Running, sketch: Path) -> None:
    begin = time.monotonic()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(Client(running.port, GET))
            for _ in range(MANY)
        ]
        for client in clients:
            assert client.rest() == ANSWER
    # Waits one after the other cannot take less than this.
    shorter = time.monotonic() - begin < MANY * DELAY
    assert shorter == (step(sketch) in OVERLAP)


def test_a_silent_client(running: Running, sketch: Path) -> None:
    with Client(running.port) as silent, Client(running.port, GET) as client:
        if step(sketch) in SILENT:
            assert client.rest() == ANSWER
            return
        with pytest.raises(NoAnswer):
            client.rest(timeout=1)
        silent.close()
        assert client.rest() == ANSWER


def test_threads(running: Running, sketch: Path) -> None:
    alone = running.threads()
    with ExitStack() as stack:
        for _ in range(5):  # as many as http.server's accept queue takes
            stack.enter_context(Client(running.port))
        if step(sketch) in GROWS:
            assert eventually(lambda: running.threads() == alone + 5)
        else:
            if step(sketch) in SILENT:  # they have all been accepted
                stack.enter_context(Client(running.port, GET)).rest()
            assert running.threads() == alone
