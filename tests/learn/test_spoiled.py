"""No exercise is spoiled: none of our files passes it but its solutions.

``python -m tools.learn.spoiled`` tries all pairs; here are the likely ones.
"""

import pytest

from tools.learn import exercises, spoiled
from tools.learn.desk import shown
from tools.learn.exercises import Exercise

each = pytest.mark.parametrize(
    "exercise", exercises.everything(), ids=lambda e: e.id
)


@each
def test_what_could_pass_is_tried(exercise: Exercise) -> None:
    for path in (exercise.starter, exercise.solution, exercise.another):
        assert not path or spoiled.can_pass(exercise, path)
    assert exercise.solution not in spoiled.strangers(exercise)


@pytest.mark.slow
@pytest.mark.thorough
@each
def test_no_other_file_passes(exercise: Exercise) -> None:
    near = [
        (exercise, path) for path in spoiled.strangers(exercise)
        if spoiled.is_near(exercise, path)
    ]
    spoiling = [
        shown(path) for (_, path), report in spoiled.examined(near)
        if report.passed
    ]
    assert not spoiling
