"""``python -m tools.learn.record``: what the tests say about starters.

Writes messages.txt beside each starter (or those named), which the tests
compare. Read what changed before you commit it: it is what a student
reads first.
"""

import sys

from tools.learn import exercises
from tools.learn.examine import Report, examine, told

SEED = 1  # chance is the same in each recording


def text_of(report: Report) -> str:
    """What a report says in words: of each test, and why if it failed."""
    lines = []
    for outcome in report.outcomes:
        mark = "passed" if outcome.passed else "FAILED"
        lines.append(f"{mark}: {outcome.title}")
        if not outcome.passed:
            lines += [f"    {line}" for line in told(outcome)]
    if report.trouble:
        lines.append(f"trouble: {report.trouble}")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Record those named, or all."""
    chosen = [exercises.by_id(word) for word in words]
    for exercise in chosen or exercises.everything():
        text = text_of(
            examine(exercise, exercise.starter, seed=SEED, here=True)
        )
        exercise.messages.write_text(text, "utf-8")
        print(f"{exercise.id} {exercise.title}\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
