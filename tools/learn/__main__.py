"""``./learn.sh``: the exercises, from a terminal."""

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tools import race
from tools.common.launch import UnseenError
from tools.common.terminal import a_table
from tools.learn import (
    desk,
    drill,
    exercises,
    grade,
    handout,
    mystery,
    reports,
    step,
)
from tools.learn.desk import DeskError
from tools.learn.examine import Report, examine, told
from tools.learn.exercises import Exercise, ExerciseError
from tools.steps.run import shows

console = Console(highlight=False, soft_wrap=True)
WATCH_SECONDS = 0.5  # between two looks at the files


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status.

    0: done, or passed; 1: not passed; 2: wrong usage; 130: interrupted;
    141: nobody reads what we say any more.
    """
    options = read_words(sys.argv[1:] if words is None else words)
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        status = command(options)
        sys.stdout.flush()
        return status
    except (ExerciseError, DeskError, UnseenError) as error:
        print(f"learn.sh: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print()
        return 130
    except BrokenPipeError:  # who reads has enough, as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def read_words(words: Sequence[str]) -> argparse.Namespace:
    """The command line. Exits with status 2 if it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="./learn.sh",
        description="The exercises: each is a server with something wrong "
        "or missing, and tests that say what.",
        epilog="Begin with: ./learn.sh start 02.1",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    made = {}
    for name, run, text in (
        ("list", show_list, "the exercises, and what you have done"),
        ("start", start_one, "begin one: copies it to my/"),
        ("check", check_some, "run the tests on your file"),
        ("watch", watch, "check again whenever you save"),
        ("hint", show_hint, "a hint, one more each time"),
        ("solution", show_solution, "one way to do it"),
        ("reset", reset, "begin again; your files are kept beside"),
        ("report", make_report, "check all and sum up"),
        ("mystery", mystery.play, "which server is it? three rounds"),
        ("step", step.run, step.ABOUT),
        ("race", race.run, race.ABOUT),
        ("drill", drill.run, drill.ABOUT),
        ("grade", grade.run, grade.ABOUT),
        ("handout", handout.run, handout.ABOUT),
    ):
        made[name] = commands.add_parser(name, help=text, description=text)
        made[name].set_defaults(run=run)
    made["start"].add_argument("exercise", metavar="ID", help="as in 02.1")
    for name in ("watch", "hint", "solution", "reset"):
        made[name].add_argument(
            "exercise", metavar="ID", nargs="?",
            help="as in 02.1 (default: the last one you began)",
        )
    for name in ("check", "report"):
        made[name].add_argument(
            "exercise", metavar="ID", nargs="*",
            help="as in 02.1 (default: all you have begun)",
        )
    for name, option, text in (
        ("check", "--all", "go on after the first test that fails"),
        ("solution", "--give-up", "show it before you have passed"),
        ("report", "--json", "as JSON, to standard output"),
    ):
        made[name].add_argument(option, action="store_true", help=text)
    made["report"].add_argument(
        "--junit", metavar="FILE", type=Path, help="as JUnit XML, to FILE"
    )
    made["mystery"].add_argument(
        "--seed", metavar="N", type=int,
        help="the same servers for all who give the same number",
    )
    step.add_options(made["step"])
    race.add_options(made["race"])
    drill.add_options(made["drill"])
    grade.add_options(made["grade"])
    handout.add_options(made["handout"])
    if not words:
        parser.print_help()
        parser.exit(2)
    return parser.parse_args(words)


def begun(or_none: bool = False) -> list[Exercise]:
    """All that were begun. Raises DeskError if there is none."""
    found = [e for e in exercises.everything() if desk.is_begun(e)]
    if not found and not or_none:
        raise DeskError("nothing is begun yet: ./learn.sh start 02.1")
    return found


def one(options: argparse.Namespace) -> Exercise:
    """The exercise that is meant: named, or the last that was changed."""
    if options.exercise:
        return exercises.by_id(options.exercise)
    return max(begun(), key=desk.changed_at)


def some(
    options: argparse.Namespace, or_none: bool = False
) -> list[Exercise]:
    """The exercises that are meant: named, or all that were begun."""
    named = [exercises.by_id(word) for word in options.exercise]
    return named or begun(or_none)


# The commands ---------------------------------------------------------------


def show_list(options: argparse.Namespace) -> int:
    """Every exercise with its state."""
    known = desk.notes()
    rows = []
    for exercise in exercises.everything():
        note = known.get(exercise.id, desk.Note())
        mark, said = " ", ""
        if note.passed:
            mark, said = "[green]✓[/]", f"[dim]passed {note.passed}[/]"
        elif desk.is_begun(exercise):
            mark, said = "[yellow]·[/]", "[yellow]begun[/]"
        rows.append([
            mark, exercise.id, escape(exercise.title),
            str(exercise.minutes), said,
        ])
    console.print(a_table(["", "ID", "Exercise", "Minutes>", ""], rows))
    done = sum(bool(note.passed) for note in known.values())
    total = len(exercises.everything())
    console.print(
        f"\n{done} of {total} passed. Begin with: ./learn.sh start 02.1; "
        "./learn.sh --help says what else there is."
    )
    return 0


def start_one(options: argparse.Namespace) -> int:
    """Copy an exercise to my/ and say what to do next."""
    exercise = exercises.by_id(options.exercise)
    kept = desk.start(exercise)
    folder = desk.shown(desk.place(exercise))
    console.print(
        f"[bold]{exercise.id} {escape(exercise.title)}[/]  "
        f"[dim]about {exercise.minutes} minutes[/]\n\n"
        f"{escape(exercise.task)}\n"
    )
    if kept:
        console.print(
            "You had begun this one. Kept as you left it: "
            f"{', '.join(kept)}.\nThe beginning again: ./learn.sh reset "
            f"{exercise.id}"
        )
    console.print(
        f"Your file:  {folder}/{exercise.file}\n"
        f"The task:   {folder}/task.md\n"
        f"Then:       ./learn.sh check {exercise.id}"
    )
    return 0


def check_some(options: argparse.Namespace) -> int:
    """Run the tests, say what the first failure is about."""
    results = [
        check(exercise, first_only=not options.all)
        for exercise in some(options)
    ]
    if len(results) > 1:
        passed = sum(results)
        console.print(f"{passed} of {len(results)} exercises pass.")
    return 0 if all(results) else 1


def check(exercise: Exercise, first_only: bool = True) -> bool:
    """Check one exercise, note it, and say it."""
    path = desk.own_file(exercise)
    with console.status(f"{exercise.id} {exercise.title} ..."):
        report = examine(exercise, path, first_only=first_only)
    note = desk.note(exercise)
    note.tries += 1
    if report.passed and not note.passed:
        note.passed = time.strftime("%Y-%m-%d %H:%M")
    desk.keep(exercise, note)
    say(exercise, report)
    if changed := {*desk.changed(exercise)} & {*exercise.companions()}:
        console.print(
            f"  [yellow]{' and '.join(sorted(changed))} beside your file: "
            "missing or changed. The tests use ours. To have it as well, "
            f"remove yours and type ./learn.sh start {exercise.id}[/]\n"
        )
    return report.passed


def say(exercise: Exercise, report: Report) -> None:
    """Print what the tests of an exercise did."""
    console.print(f"[bold]{exercise.id} {escape(exercise.title)}[/]")
    for outcome in report.outcomes:
        if outcome.passed:
            console.print(f"  [green]✓[/] {escape(outcome.title)}")
        else:
            console.print(f"  [red]✗ {escape(outcome.title)}[/]")
            for line in told(outcome):
                console.print(f"      {escape(line)}")
            for line in outcome.wrote:
                console.print(f"      [dim]{escape(line)}[/]")
            if clients := shows(f"{exercise.id}/{outcome.name}"):
                console.print(
                    "      Line by line: ./learn.sh step "
                    f"{desk.shown(desk.own_file(exercise))} "
                    f"--clients {clients}"
                )
    if report.trouble:
        console.print(f"  [red]✗[/] {escape(report.trouble)}")
    left = report.total - len(report.outcomes)
    if left > 0 and report.outcomes:
        console.print(f"  [dim]({left} more to come)[/]")
    if report.passed:
        more = [
            e for e in exercises.everything()
            if e.id > exercise.id and not desk.note(e).passed
        ]
        after = f"  Next: ./learn.sh start {more[0].id}" if more else ""
        console.print(f"  [bold green]Passed.[/]{after}\n")
    else:
        console.print(
            f"  Read: docs/{exercise.read}   Stuck? ./learn.sh hint "
            f"{exercise.id}\n"
        )


def watch(options: argparse.Namespace) -> int:
    """Check one exercise again whenever its file changes."""
    exercise = one(options)
    path = desk.own_file(exercise)
    seen, missing = 0.0, 0
    while True:
        now = desk.changed_at(exercise)
        missing = 0 if now else missing + 1
        if missing == 2:  # some editors put a new file in its place
            console.print(f"[dim]{desk.shown(path)} is gone. Waiting ...")
        if now and now != seen:
            seen = now
            console.rule(time.strftime("%H:%M:%S"))
            check(exercise)
            console.print(
                f"[dim]Waiting for you to save {desk.shown(path)} "
                "(Ctrl-C ends)[/]"
            )
        time.sleep(WATCH_SECONDS)


def show_hint(options: argparse.Namespace) -> int:
    """The hints so far, and one more."""
    exercise = one(options)
    note = desk.note(exercise)
    total = len(exercise.hints)
    note.hints = min(note.hints + 1, total)
    desk.keep(exercise, note)
    for number, hint in enumerate(exercise.hints[:note.hints], 1):
        console.print(f"[bold]Hint {number} of {total}[/]\n{escape(hint)}\n")
    if note.hints == total:
        console.print(
            "That was the last one. Still stuck? "
            f"./learn.sh solution {exercise.id} --give-up"
        )
    return 0


def show_solution(options: argparse.Namespace) -> int:
    """One way to do it, after it was passed or with --give-up."""
    exercise = one(options)
    if not exercise.solution.exists():
        raise DeskError(
            f"the solution of {exercise.id} is not part of this copy: ask "
            "your teacher"
        )
    note = desk.note(exercise)
    if options.give_up and not note.passed:
        note.given_up = True
        desk.keep(exercise, note)
    if not note.passed and not note.given_up:
        raise DeskError(
            f"{exercise.id} is not passed yet. A hint: ./learn.sh hint "
            f"{exercise.id}. Or give up: ./learn.sh solution {exercise.id} "
            "--give-up"
        )
    print(exercise.solution.read_text("utf-8"), end="")
    if another := exercise.another:
        print(f"\n\n# === Another way {'=' * 51}\n")
        print(another.read_text("utf-8"), end="")
    return 0


def reset(options: argparse.Namespace) -> int:
    """The starter again."""
    exercise = one(options)
    kept = desk.reset(exercise)
    console.print(
        f"{desk.shown(desk.place(exercise))}/ is as at the start.\n"
        f"What you had is in {desk.shown(kept)}/"
    )
    return 0


def what_is_missing(report: Report, before: str) -> str:
    """Why it does not pass now. before: when it was first passed, or ""."""
    had = f"[dim](passed {before})[/] " if before else ""
    return "" if report.passed else had + escape(report.missing)


def make_report(options: argparse.Namespace) -> int:
    """Check all, sum up: as a table, JSON or JUnit XML."""
    found = [] if options.exercise else mystery.played()
    if options.junit:
        desk.check_folder(options.junit)
    for exercise in some(options, bool(found)):
        path = desk.own_file(exercise)
        print(f"{exercise.id} ...", file=sys.stderr, flush=True)
        found.append(examine(exercise, path))
    before = {id: note.passed for id, note in desk.notes().items()}
    if options.junit:
        desk.write(options.junit, reports.junit_text(found))
    if options.json:
        print(json.dumps(
            [dataclasses.asdict(r) | {
                "passed": r.passed,
                "passed_before": before.get(r.exercise, ""),
            } for r in found],
            indent=1,
        ))
    else:
        console.print(a_table(
            ["", "ID", "Exercise", "Tests>", "What is missing"],
            [[
                "[green]✓[/]" if report.passed else "[red]✗[/]",
                report.exercise, escape(report.title),
                f"{report.tests}/{report.total}",
                what_is_missing(report, before.get(report.exercise, "")),
            ] for report in found],
        ))
    return 0 if all(report.passed for report in found) else 1


if __name__ == "__main__":
    sys.exit(main())
