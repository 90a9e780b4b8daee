"""Files that are alike: a hint where to look, never a verdict.

Compared are tokens, on this machine: without comments, and without the
names that somebody chose. What the exercise gives to everybody is taken
out first. Short answers have few ways to be written: what is short is
compared to the letter, and a file of answers not at all.
"""

import functools
import io
import keyword
import tokenize
from dataclasses import dataclass
from itertools import combinations

from tools.learn.exercises import Exercise
from tools.servers import ROOT

RUN = 12  # tokens that have to agree in a row
SHORT, LITTLE = 40, 10  # runs of one's own: fewer say little, or nothing
ALIKE = 0.7  # of one's own runs
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
    tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER,
}
# Where Python 3.12 begins and ends an f-string, and 3.14 a t-string; to
# others the whole is one token.
NESTS = {
    getattr(tokenize, f"{kind}STRING_{end}", -1): step
    for kind in "FT" for end, step in (("START", 1), ("END", -1))
}
Runs = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Alike:
    """Two files that are alike.

    who: a student; other: another, or a file of this repository; share: of
    what is the student's own, from 0 to 1; same: to the letter, comments
    and spaces apart.
    """

    exercise: str
    who: str
    other: str
    share: float
    same: bool


@functools.cache
def words(text: str) -> list[str]:
    """The tokens of a file, without layout; all there are if it is broken."""
    found: list[str] = []
    deep = 0  # in so many strings
    try:
        for each in tokenize.generate_tokens(io.StringIO(text).readline):
            if each.type in LAYOUT:
                continue
            if deep:
                found[-1] += each.string
            else:
                found.append(each.string)
            deep += NESTS.get(each.type, 0)
    except (tokenize.TokenError, SyntaxError, RecursionError):
        pass
    return found


def plain(word: str) -> str:
    """A token without what somebody chose: a name, a number, a text."""
    if word.isidentifier() and not keyword.iskeyword(word):
        return "name"
    if word[:1].isdigit():
        return "1"
    return "text" if word.endswith(("'", '"')) else word


@functools.cache
def runs(text: str) -> Runs:
    """All rows of RUN tokens of a file, without names."""
    each = [plain(word) for word in words(text)]
    return frozenset(
        tuple(each[n:n + RUN]) for n in range(len(each) - RUN + 1)
    )


def ours(exercise: Exercise) -> dict[str, str]:
    """What a student might have copied of this repository, by name."""
    paths = [exercise.starter, exercise.solution, exercise.another]
    paths += sorted(ROOT.glob("0[1-7]_*/*.py"))
    return {
        (f"{exercise.id} {path.stem}" if path.parent == exercise.folder
         else str(path.relative_to(ROOT))): path.read_text("utf-8")
        for path in paths if path
    }


def find(exercise: Exercise, texts: dict[str, str]) -> list[Alike]:
    """The pairs of an exercise that are alike, the most alike first.

    texts: what each student handed in, by name.
    """
    given = runs(exercise.starter.read_text("utf-8")).union(
        *map(runs, exercise.companions().values())
    )
    files = {
        name: (words(text), runs(text) - given)
        for name, text in {**ours(exercise), **texts}.items()
    }
    pairs = list(combinations(texts, 2))
    pairs += [(name, other) for name in texts for other in ours(exercise)]
    if exercise.file == "answers.py":
        pairs = []
    alike, starter = [], f"{exercise.id} starter"
    for name, other in pairs:
        (mine, own), (theirs, its) = files[name], files[other]
        least = min(own, its, key=len) if other in texts else own
        share = len(own & its) / max(len(least), 1)
        same = mine == theirs and (len(own) >= LITTLE or other == starter)
        if same or (share >= ALIKE and len(least) >= SHORT):
            alike.append(Alike(
                exercise.id, name, other, 1.0 if same else share, same
            ))
    return sorted(alike, key=lambda x: (not x.same, -x.share))
