"""Which submissions are alike: copies are, honest answers are not."""

import re
import tokenize

import pytest

from tools.learn import copies, exercises
from tools.learn.exercises import Exercise
from tools.servers import ROOT

POOL = exercises.by_id("03.3")
SOLUTION = POOL.solution.read_text("utf-8")


def disguised(text: str) -> str:
    """Another name for everything of its own, comments gone, more space."""
    text = re.sub(r"#.*", "", text).replace("\n\n", "\n\n\n")
    for word in {*re.findall(r"\bdef (\w+)|\b(\w+) = |self\.(\w+)", text)}:
        name = "".join(word)
        text = re.sub(rf"\b{name}\b", f"{name}_1", text)
    return text


def told(**texts: str) -> dict[tuple[str, str], bool]:
    """The pairs that are alike; whether to the letter."""
    return {(a.who, a.other): a.same for a in copies.find(POOL, texts)}


def test_to_the_letter() -> None:
    pool = (ROOT / "03_threading" / "pool.py").read_text("utf-8")
    found = told(
        anna=SOLUTION, ben=SOLUTION + "\n# Ben\n", cleo=pool,
        dora=POOL.starter.read_text("utf-8"), emil="", frieda="(",
    )
    assert found.items() >= {
        ("anna", "ben"): True, ("anna", "03.3 solution"): True,
        ("ben", "03.3 solution"): True, ("cleo", "03_threading/pool.py"): True,
        ("dora", "03.3 starter"): True,
    }.items()
    assert not any({"emil", "frieda"} & {*pair} for pair in found)


def test_other_names_and_comments() -> None:
    found = told(anna=SOLUTION, ben=disguised(SOLUTION))
    assert found["anna", "ben"] is False
    assert found["ben", "03.3 solution"] is False


def test_a_string_is_one_token_on_every_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = """f"{a!r}b{f'{c}'}" """.strip()
    assert copies.words(f"x = {whole}\n") == ["x", "=", whole]
    assert copies.plain(whole) == "text" and not copies.plain("")
    # As Python 3.12 cuts it, also if this one does not.
    start, middle, end = 1001, 1002, 1003
    cut = [
        (tokenize.NAME, "x"), (tokenize.OP, "="), (start, 'f"'),
        (middle, ""), (tokenize.OP, "{"), (tokenize.NAME, "a"),
        (tokenize.OP, "!"), (tokenize.NAME, "r"), (tokenize.OP, "}"),
        (middle, "b"), (tokenize.OP, "{"), (start, "f'"),
        (tokenize.OP, "{"), (tokenize.NAME, "c"), (tokenize.OP, "}"),
        (end, "'"), (tokenize.OP, "}"), (end, '"'), (tokenize.OP, ";"),
    ]
    monkeypatch.setattr(copies, "NESTS", {start: 1, end: -1})
    monkeypatch.setattr(tokenize, "generate_tokens", lambda _: [
        tokenize.TokenInfo(kind, text, (1, 0), (1, 0), "")
        for kind, text in cut
    ])
    assert copies.words("as 3.12 cuts it") == ["x", "=", whole, ";"]


@pytest.mark.parametrize(
    "exercise", [e for e in exercises.everything() if e.another],
    ids=lambda e: e.id,
)
def test_two_ways_are_not_alike(exercise: Exercise) -> None:
    assert exercise.another
    texts = {
        "anna": exercise.solution.read_text("utf-8"),
        "ben": exercise.another.read_text("utf-8"),
    }
    found = copies.find(exercise, texts)
    assert ("anna", "ben") not in {(a.who, a.other) for a in found}


def test_right_responses_are_no_copies() -> None:
    exercise = exercises.by_id("01.3")
    text = exercise.solution.read_text("utf-8")
    assert not copies.find(exercise, {"anna": text, "ben": text})
