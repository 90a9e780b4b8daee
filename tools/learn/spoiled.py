"""``python -m tools.learn.spoiled``: does a file of ours pass an exercise?

    python -m tools.learn.spoiled                  all files, all exercises
    python -m tools.learn.spoiled 02.1 03.3        all files, these exercises
    python -m tools.learn.spoiled 02.1 FILE ...    these files

An exercise is spoiled if a file that is not its solution passes its tests:
who copies that file has learnt nothing. Status 1 if one is.
"""

import argparse
import ast
import contextlib
import functools
import multiprocessing
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tools.learn import exercises
from tools.learn.desk import from_caller, shown
from tools.learn.examine import Report, examine
from tools.learn.exercises import Exercise
from tools.learn.record import SEED
from tools.servers import ROOT

Pair = tuple[Exercise, Path]
BESIDE = 5  # pairs at the same time: most of each is waiting
READY = "Serving on "  # how the line begins that all tests wait for


@functools.cache
def plain(path: Path) -> str:
    """The text of a file without its comments and empty lines."""
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(x for x in lines if x.partition("#")[0].strip())


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The same for Python."""
    return ast.parse(plain(path))


@functools.cache
def imported(path: Path) -> set[str]:
    """The modules that a file imports as soon as it runs."""
    found = set()
    for line in parsed(path).body:
        if isinstance(line, ast.Import):
            found |= {name.name.partition(".")[0] for name in line.names}
        elif isinstance(line, ast.ImportFrom):
            found.add(str(line.module).partition(".")[0])
    return found


@functools.cache
def names_set(path: Path) -> set[str]:
    """The names in capitals that a file sets: answers are such names."""
    return {
        target.id for line in parsed(path).body if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def can_pass(exercise: Exercise, path: Path) -> bool:
    """Is it worth a try? Not if it cannot even begin to run.

    A file runs with the files of the exercise beside it. It has to find
    what it imports there, and to print the ready line (a file beside it
    may do so) or to set a name that is asked for.
    """
    beside = {name.removesuffix(".py") for name in exercise.companions()}
    if not imported(path) <= beside | sys.stdlib_module_names:
        return False
    if not exercise.like:
        return bool(names_set(path) & names_set(exercise.solution))
    return READY in path.read_text("utf-8") or bool(imported(path) & beside)


def strangers(exercise: Exercise) -> Iterator[Path]:
    """The files that could pass an exercise and are not its own.

    Of those that differ in their comments only, the first.
    """
    own = (exercise.starter, exercise.solution, exercise.another)
    seen = set()
    for path in sorted(ROOT.glob("0[1-7]_*/**/*.py")):
        if path.name.startswith("test_") or path in own:
            continue
        if plain(path) not in seen:
            seen.add(plain(path))
            if can_pass(exercise, path):
                yield path


def is_near(exercise: Exercise, path: Path) -> bool:
    """Is it likely to pass? A file of the same step, a server beside it."""
    step = path.relative_to(ROOT).parts[0]
    beside = abs(int(step[:2]) - exercise.step) == 1
    return (
        not exercise.like or ROOT / step in exercise.folder.parents
        or (beside and path == ROOT / step / "server.py")
    )


@contextlib.contextmanager
def examining(
    pairs: Iterable[Pair], **how: Any
) -> Iterator[dict[Pair, Future[Report]]]:
    """Meanwhile the tests run on files that we know, several at a time.

    how: see `examine`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([examine.__module__])
    with ProcessPoolExecutor(BESIDE, context) as pool:
        try:
            yield {
                pair: pool.submit(
                    examine, *pair, seed=SEED, here=True, **how
                )
                for pair in pairs
            }
        finally:
            pool.shutdown(cancel_futures=True)


def examined(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, Report]]:
    """What the tests say, up to the first that fails."""
    with examining(pairs, first_only=True, hardest_first=True) as running:
        which = {future: pair for pair, future in running.items()}
        for done in as_completed(which):
            yield which[done], done.result()


def main(words: list[str] | None = None) -> int:
    """Try what is named, a line for each pair."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.learn.spoiled", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="ID or FILE")
    parser.add_argument(
        "--near", action="store_true",
        help="only files of the same step, and the servers beside it",
    )
    options = parser.parse_args(words)
    files = [
        from_caller(Path(word)).absolute() for word in options.what
        if word.endswith(".py")
    ]
    chosen = [
        exercises.by_id(word) for word in options.what
        if not word.endswith(".py")
    ]
    pairs = [
        (exercise, path) for exercise in chosen or exercises.everything()
        for path in files or strangers(exercise)
        if not options.near or is_near(exercise, path)
    ]
    spoiled = 0
    for (exercise, path), report in examined(pairs):
        spoiled += report.passed
        said = "PASSES" if report.passed else f"fails: {report.missing}"
        print(f"{exercise.id} {shown(path)} {said}", flush=True)
    print(f"{len(pairs)} pairs, {spoiled} pass")
    return 1 if spoiled else 0


if __name__ == "__main__":
    sys.exit(main())
