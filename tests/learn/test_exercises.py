"""Every exercise: its starter fails as recorded, its solutions pass."""

import pytest

from tools.learn import exercises
from tools.learn.examine import examine
from tools.learn.exercises import Exercise
from tools.learn.record import SEED, record, text_of
from tools.learn.tables import tables
from tools.servers import ROOT
from tools.servers import by_name as server_by_name

EVERYTHING = exercises.everything()
TWICE = [e for e in EVERYTHING if e.another]


def ids(exercise: Exercise) -> str:
    return exercise.id


each = pytest.mark.parametrize("exercise", EVERYTHING, ids=ids)
# One of each step is tried whenever the tests run, all when all is tried.
QUICK = ("01.1", "02.1", "03.4", "04.2", "05.2", "06.1", "07.3")
tried = pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(e, marks=[] if e.id in QUICK else pytest.mark.thorough)
        for e in EVERYTHING
    ],
    ids=ids,
)


def test_three_a_step() -> None:
    steps = [e.step for e in EVERYTHING]
    assert len(EVERYTHING) >= 21
    assert all(steps.count(step) >= 3 for step in range(1, 8))
    assert {e.step for e in TWICE} == set(range(1, 8))


def test_no_folder_is_overlooked() -> None:
    folders = {p for p in ROOT.glob("0*/exercises/*") if p.is_dir()}
    assert {p for p in folders if not p.name.startswith("_")} == {
        e.folder for e in EVERYTHING
    }
    assert len({e.id for e in EVERYTHING}) == len(EVERYTHING)


def test_tables_are_cut_from_the_recordings() -> None:
    for path, text in tables().items():
        assert path.read_text("utf-8") == text, (
            "run python -m tools.learn.tables and read what it wrote"
        )


MOST_LINES = 80  # of a starter: it shows its idea, on one page


@each
def test_a_starter_shows_its_idea_only(exercise: Exercise) -> None:
    lines = exercise.starter.read_text("utf-8").splitlines()
    assert len(lines) <= MOST_LINES


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
    assert 10 <= exercise.minutes <= 30
    assert exercise.task and exercise.title
    assert len(exercise.hints) >= 2 and all(exercise.hints)
    page = exercise.read.partition("#")[0]
    assert (ROOT / "docs" / page).is_file(), exercise.read
    if exercise.like:
        assert server_by_name(exercise.like).step <= exercise.step


@tried
def test_starter_fails_as_recorded(exercise: Exercise) -> None:
    said = record(exercise)
    assert "FAILED: " in said and "trouble: " not in said
    assert "The test itself failed" not in said
    assert said == exercise.messages.read_text("utf-8"), (
        "run python -m tools.learn.record and read what changed"
    )


@tried
def test_solution_passes(exercise: Exercise) -> None:
    report = examine(exercise, exercise.solution, seed=SEED, here=True)
    assert report.passed, text_of(report)


@pytest.mark.thorough
@pytest.mark.parametrize("exercise", TWICE, ids=ids)
def test_another_solution_passes(exercise: Exercise) -> None:
    assert exercise.another
    report = examine(exercise, exercise.another, here=True)
    assert report.passed, text_of(report)
