"""The sketches: each runs, shows its lesson, and stays a sketch."""

import ast
import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process import PATIENCE, Running, eventually, started
from tests.test_folders import difference
from tools.common.raw_client import GET, Client, NoResponse
from tools.data import rules_seen
from tools.rules import RULES
from tools.servers import ROOT, SERVERS, SKETCHES, STEPS, by_name
from tools.sketch import changed

PATHS = sorted(ROOT.glob("0*/sketch.py"))
RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"
DELAY = 0.1  # of a request, in every sketch
MANY = 30  # clients

# The rows of the table of lessons that a sketch shows already.
OVERLAP = {"03", "05", "06", "07"}  # many wait at the same time
SILENT = {"03", "04", "05", "06", "07"}  # a silent client is no trouble
GROWS = {"03"}  # a thread more for each client
# Lines that are new or gone since the sketch before, without docstrings.
CHANGED = {"02": 21, "03": 3, "04": 17, "05": 17, "06": 38, "07": 38}


def step(path: Path) -> str:
    return path.parent.name[:2]


@pytest.fixture(params=PATHS, ids=lambda path: f"sketch-{step(path)}")
def sketch(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def running(sketch: Path) -> Iterator[Running]:
    server = by_name(f"{step(sketch)}-sketch")
    with started(server, "--delay", f"{DELAY}") as it:
        with Client(it.port, GET) as client:
            assert client.rest() == RESPONSE
        yield it


def test_a_sketch_for_each_step() -> None:
    assert [step(path) for path in PATHS] == [
        f"{number:02}" for number in STEPS
    ]
    assert [ROOT / sketch.options[0] for sketch in SKETCHES] == PATHS
    assert not {sketch.name for sketch in SKETCHES} & {
        server.name for server in SERVERS
    }


def test_is_short_and_plain(sketch: Path) -> None:
    text = sketch.read_text()
    lines = text.splitlines()
    assert 15 <= len(lines) <= 36
    doc = ast.get_docstring(ast.parse(text)) or ""
    assert doc.startswith(f"{step(sketch)}: ")
    assert doc.splitlines()[-1].startswith("Left out: ")
    assert repr(RESPONSE).replace("'", '"') in text
    for name in ("RESPONSE", "8000", "0.1"):
        assert name in text, name


def code(path: Path) -> list[str]:
    """The lines below the docstring."""
    return path.read_text().split('"""', 2)[2].splitlines()


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.pairwise(PATHS)),
    ids=lambda path: step(path),
)
def test_the_diff_is_the_idea(before: Path, after: Path) -> None:
    changed = difference(code(before), code(after))
    assert len(changed) <= CHANGED[step(after)], "\n".join(changed)


def test_waiting_overlaps_or_not(sketch: Path) -> None:
    # Waits one after the other cannot take less than this. If they overlap
    # they take two seconds, and other work would have to add a minute.
    overlap = step(sketch) in OVERLAP
    delay = PATIENCE / MANY if overlap else DELAY
    server = by_name(f"{step(sketch)}-sketch")
    with started(server, "--delay", f"{delay}") as process:
        begin = time.monotonic()
        for client in [process.client(GET) for _ in range(MANY)]:
            assert client.rest(timeout=PATIENCE) == RESPONSE
            client.close()
        shorter = time.monotonic() - begin < 0.9 * MANY * delay
        assert shorter == overlap


def test_a_silent_client(running: Running, sketch: Path) -> None:
    with Client(running.port) as silent, Client(running.port, GET) as client:
        if step(sketch) in SILENT:
            assert client.rest() == RESPONSE
            return
        with pytest.raises(NoResponse):
            client.rest(timeout=1)
        silent.close()
        assert client.rest() == RESPONSE


def test_threads(running: Running, sketch: Path) -> None:
    # Threads of earlier clients may be about to end.
    assert step(sketch) not in GROWS or eventually(
        lambda: running.threads() == 1
    )
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


# What a sketch cannot do. That the list is the real one is proved by the
# shared tests: under --all they run against the sketches, and a test has to
# fail if the list names it, else to pass.


def test_only_port_and_delay_are_changed(sketch: Path) -> None:
    text = sketch.read_text()
    assert changed(text, 8000, 0.1) == text
    other = changed(text, 45678, 0.25)
    lines = zip(text.splitlines(), other.splitlines(), strict=True)
    different = [(a, b) for a, b in lines if a != b]
    assert len(different) == 2
    for old, new in different:
        moved, slower = ("8000", "45678"), ("0.1", "0.25")
        assert new in (old.replace(*moved), old.replace(*slower))
    with pytest.raises(ValueError, match="8000"):
        changed(text.replace("8000", "8001"), 0, 0.1)


def test_every_rule_is_tried_or_left_out_for_a_reason() -> None:
    run = rules_seen.load(rules_seen.SKETCHED)
    assert list(run.rules) == list(rules_seen.TRIED)
    for cells in run.rules.values():
        assert list(cells) == [sketch.name for sketch in SKETCHES]
    for name, reason in rules_seen.NOT_TRIED.items():
        assert RULES[name].part in rules_seen.PARTS
        assert len(reason) > 10


def test_the_bridge_to_the_servers() -> None:
    run = rules_seen.load(rules_seen.SKETCHED)
    for sketch in SKETCHES:
        found = rules_seen.broken(run, sketch.name)
        assert {"silent", "two-lengths"} <= {*found}
        assert ("pieces" in found) == (sketch.step > 1)
        assert ("pipelining" in found) == (sketch.step > 2)
