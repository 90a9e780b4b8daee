"""Every exercise: its starter fails as recorded, its solutions pass.

And no server near it does: who copies that one has learnt nothing. Wrong
solutions, those of wrong.toml, are caught, with words that help.
"""

import contextlib
import multiprocessing
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.learn import exercises
from tools.learn.examine import Report, examine
from tools.learn.exercises import FAMILIES, WEB, Exercise
from tools.learn.record import SEED, text_of
from tools.learn.tables import tables
from tools.servers import ROOT, SERVERS
from tools.servers import by_name as server_by_name

EVERYTHING = exercises.everything()
each = pytest.mark.parametrize("exercise", EVERYTHING, ids=lambda e: e.id)
# One of each step is tried whenever the tests run, all when all is tried.
QUICK = ("01.1", "02.1", "03.4", "04.2", "05.2", "06.1", "07.3")
MOST_LINES = 84  # of a starter: it shows its idea, on one page
WRONG = tomllib.loads(
    Path(__file__).with_name("wrong.toml").read_text("utf-8")
)
BESIDE = 5  # files are examined at the same time: most of it is waiting
Pair = tuple[Exercise, Path]


def test_three_a_step_and_no_folder_is_overlooked() -> None:
    steps = [e.step for e in EVERYTHING]
    assert all(steps.count(step) >= 3 for step in range(1, 8))
    folders = {p.parent for p in ROOT.glob("0*/exercises/*/test_*.py")}
    assert folders == {e.folder for e in EVERYTHING}
    assert len({e.id for e in EVERYTHING}) == len(EVERYTHING)


def test_tables_are_cut_from_the_recordings() -> None:
    for path, text in tables().items():
        assert path.read_text("utf-8") == text, (
            "run python -m tools.learn.tables and read what it wrote"
        )


def test_what_lies_beside_several_is_the_same() -> None:
    texts: dict[str, str] = {}
    for exercise in EVERYTHING:
        for name, text in exercise.companions().items():
            if name.endswith(".py"):
                assert texts.setdefault(name, text) == text, exercise.id


@each
def test_complete(exercise: Exercise) -> None:
    for path in (exercise.starter, exercise.solution, exercise.tests):
        assert path.is_file(), path
    lines = exercise.starter.read_text("utf-8").splitlines()
    assert len(lines) <= MOST_LINES
    assert 10 <= exercise.minutes <= 30
    assert exercise.task and exercise.title
    assert len(exercise.hints) >= 2 and all(exercise.hints)
    if exercise.like:
        assert server_by_name(exercise.like).step <= exercise.step
    found = exercise.companions()  # what is shared is the step's own
    shared = {WEB, *FAMILIES} & {*found}
    assert WEB in shared or not exercise.like
    for name in shared:
        path = exercise.folder.parents[1] / name
        assert found[name] == path.read_text("utf-8")


def examined(*files: str) -> pytest.MarkDecorator:
    """These files of each exercise that has them."""
    return pytest.mark.parametrize("tried", [
        pytest.param(
            (exercise, path), id=f"{exercise.id}-{file}",
            marks=[pytest.mark.slow] + [pytest.mark.thorough] * (
                file == "another" or exercise.id not in QUICK
            ),
        )
        for exercise in EVERYTHING for file in files
        if (path := getattr(exercise, file))
    ])  # fmt: skip


@contextlib.contextmanager
def examining(
    pairs: Iterable[Pair], first_only: bool = False
) -> Iterator[dict[Pair, Future[Report]]]:
    """Meanwhile the tests run on these files, several at a time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([examine.__module__])
    with ProcessPoolExecutor(BESIDE, context) as pool:
        try:
            yield {
                pair: pool.submit(
                    examine, *pair, seed=SEED, here=True,
                    first_only=first_only,
                )
                for pair in pairs
            }
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest,
) -> Iterator[dict[Pair, Future[Report]]]:
    """What comes of all that the chosen tests examine."""
    chosen: list[Any] = [
        item.callspec.params["tried"] for item in request.session.items
        if isinstance(item, pytest.Function) and "report" in item.fixturenames
    ]
    with examining(chosen) as running:
        yield running


@pytest.fixture
def report(tried: Pair, reports: dict[Pair, Future[Report]]) -> Report:
    """What comes of the file of this test."""
    return reports[tried].result()


@examined("starter")
def test_starter_fails_as_recorded(tried: Pair, report: Report) -> None:
    messages = tried[0].messages.read_text("utf-8")
    said = text_of(report)
    assert "FAILED: " in said and "trouble: " not in said
    assert "The test itself failed" not in said
    assert said == messages, (
        "run python -m tools.learn.record and read what changed"
    )


@examined("solution", "another")
def test_solution_passes(tried: Pair, report: Report) -> None:
    assert report.passed, text_of(report)


@pytest.mark.slow
@pytest.mark.thorough
@each
def test_no_server_near_it_passes(exercise: Exercise) -> None:
    near = {s.path for s in SERVERS if abs(s.step - exercise.step) < 2}
    pairs = [(exercise, path) for path in sorted(near)]
    with examining(pairs, first_only=True) as running:
        passing = [
            path for (_, path), future in running.items()
            if future.result().passed
        ]
    assert not passing


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", WRONG)
def test_wrong_solutions_are_caught(name: str, tmp_path: Path) -> None:
    exercise = exercises.by_id(name)
    pairs = []
    for number, wrong in enumerate(WRONG[name]):
        text = exercise.solution.read_text("utf-8")
        for old, new in wrong["changes"]:
            assert text.count(old) == 1, (wrong["what"], old)
            text = text.replace(old, new)
        pairs.append((exercise, tmp_path / f"{number}.py"))
        pairs[-1][1].write_text(text, "utf-8")
    with examining(pairs, first_only=True) as running:
        for pair, wrong in zip(pairs, WRONG[name], strict=True):
            report = running[pair].result()
            said = text_of(report)
            assert report.passed != ("told" in wrong), (wrong["what"], said)
            assert wrong.get("told", "") in said, (wrong["what"], said)
