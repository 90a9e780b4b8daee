"""``./learn.sh``: the exercises, from a terminal."""

import argparse
import dataclasses
import difflib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.learn import desk, exercises, grade
from tools.learn.desk import DeskError
from tools.learn.examine import Report, examine, told
from tools.learn.exercises import Exercise, ExerciseError

console = Console(highlight=False, soft_wrap=True)
WATCH_SECONDS = 0.5  # between two looks at the files


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; the exit status.

    0: done, or passed; 1: not passed; 2: wrong usage; 130: interrupted.
    """
    options = read_words(words)
    command: Callable[[argparse.Namespace], int] = options.run
    try:
        return command(options)
    except (ExerciseError, DeskError) as error:
        print(f"learn.sh: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print()
        return 130


def read_words(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line. Exits with status 2 if it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="./learn.sh",
        description="The exercises: each is a server with something wrong "
        "or missing, and tests that say what.",
        epilog="Begin with: ./learn.sh start 02.1",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str,
        which: str = "",
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        if which:
            made.add_argument(
                "exercises" if which == "*" else "exercise", nargs=which,
                metavar="ID", help="as in 02.1"
                + {"?": " (default: the last one you began)",
                   "*": " (default: all you have begun)"}[which],
            )
        return made

    add("list", show_list, "the exercises, and what you have done")
    start = add("start", start_one, "begin one: copies it to my/")
    start.add_argument("exercise", metavar="ID", help="as in 02.1")
    check = add(
        "check", check_some, "run the tests on your file", "*"
    )
    check.add_argument(
        "--all", action="store_true",
        help="go on after the first test that fails",
    )
    add("watch", watch, "check again whenever you save", "?")
    add("hint", show_hint, "a hint, one more each time", "?")
    solution = add("solution", show_solution, "one way to do it", "?")
    solution.add_argument(
        "--give-up", action="store_true",
        help="show it before you have passed",
    )
    add("diff", show_diff, "your file against the solution", "?")
    add("reset", reset, "begin again; your file is kept beside", "?")
    report = add("report", make_report, "check all and sum up", "*")
    report.add_argument(
        "--json", action="store_true", help="as JSON, to standard output"
    )
    report.add_argument(
        "--junit", metavar="FILE", type=Path, help="as JUnit XML, to FILE"
    )
    grade.add_options(add("grade", grade.run, grade.ABOUT))
    if not (sys.argv[1:] if words is None else words):
        parser.print_help()
        parser.exit(2)
    return parser.parse_args(words)


def one(options: argparse.Namespace) -> Exercise:
    """The exercise that is meant: named, or the last that was begun."""
    if options.exercise:
        return exercises.by_id(options.exercise)
    begun = [
        e for e in exercises.everything()
        if (desk.place(e) / e.file).is_file()
    ]
    if not begun:
        raise DeskError("nothing is begun yet: ./learn.sh start 02.1")
    return max(
        begun,
        key=lambda e: (desk.place(e) / e.file).stat().st_mtime,
    )


def some(options: argparse.Namespace) -> list[Exercise]:
    """The exercises that are meant: named, or all that were begun."""
    if options.exercises:
        return [exercises.by_id(word) for word in options.exercises]
    begun = desk.begun()
    found = [e for e in exercises.everything() if e.id in begun]
    if not found:
        raise DeskError("nothing is begun yet: ./learn.sh start 02.1")
    return found


# The commands ---------------------------------------------------------------


def show_list(options: argparse.Namespace) -> int:
    """Every exercise with its state."""
    known, begun = desk.notes(), desk.begun()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("ID")
    table.add_column("Exercise")
    table.add_column("Minutes", justify="right")
    table.add_column("")
    for exercise in exercises.everything():
        note = known.get(exercise.id, desk.Note())
        mark, said = " ", ""
        if note.passed:
            mark, said = "[green]✓[/]", f"[dim]passed {note.passed}[/]"
        elif exercise.id in begun:
            mark, said = "[yellow]·[/]", "[yellow]begun[/]"
        table.add_row(
            mark, exercise.id, escape(exercise.title),
            str(exercise.minutes), said,
        )
    console.print(table)
    done = sum(bool(note.passed) for note in known.values())
    total = len(exercises.everything())
    console.print(f"\n{done} of {total} passed.", end=" ")
    console.print(
        "Begin with: ./learn.sh start 02.1" if not begun
        else "./learn.sh --help says what else there is."
    )
    return 0


def start_one(options: argparse.Namespace) -> int:
    """Copy an exercise to my/ and say what to do next."""
    exercise = exercises.by_id(options.exercise)
    new = desk.start(exercise)
    folder = desk.shown(desk.place(exercise))
    heading(exercise)
    console.print(escape(exercise.task))
    console.print()
    if not new:
        console.print(
            f"You had begun this one: {folder}/{exercise.file} is as you left "
            f"it.\nTo begin again: ./learn.sh reset {exercise.id}"
        )
    console.print(f"Your file:  {folder}/{exercise.file}")
    console.print(f"The task:   {folder}/task.md")
    console.print(f"Then:       ./learn.sh check {exercise.id}")
    return 0


def heading(exercise: Exercise) -> None:
    """Print its name and how long it takes."""
    console.print(
        f"[bold]{exercise.id} {escape(exercise.title)}[/]  "
        f"[dim]about {exercise.minutes} minutes[/]\n"
    )


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
    if changed := desk.changed(exercise):
        console.print(
            f"  [yellow]{' and '.join(changed)} beside your file: missing or "
            f"changed. The tests use ours; ./learn.sh start {exercise.id} "
            "puts it right.[/]\n"
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
    seen, gone = 0, False
    while True:
        try:
            now, gone = path.stat().st_mtime_ns, False
        except FileNotFoundError:  # some editors put a new file in its place
            if gone:
                console.print(f"[dim]{desk.shown(path)} is gone. Waiting ...")
                while not path.exists():
                    time.sleep(WATCH_SECONDS)
            now, gone = seen, True
        if now != seen:
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


def may_see(exercise: Exercise) -> None:
    """Raises DeskError unless it was passed or given up."""
    note = desk.note(exercise)
    if not note.passed and not note.given_up:
        raise DeskError(
            f"{exercise.id} is not passed yet. A hint: ./learn.sh hint "
            f"{exercise.id}. Or give up: ./learn.sh solution {exercise.id} "
            "--give-up"
        )


def show_solution(options: argparse.Namespace) -> int:
    """One way to do it, after it was passed or with --give-up."""
    exercise = one(options)
    note = desk.note(exercise)
    if options.give_up and not note.passed:
        note.given_up = True
        desk.keep(exercise, note)
    may_see(exercise)
    print(exercise.solution.read_text("utf-8"), end="")
    if another := exercise.another:
        print(f"\n\n# === Another way {'=' * 51}\n")
        print(another.read_text("utf-8"), end="")
    return 0


def show_diff(options: argparse.Namespace) -> int:
    """The student's file against the solution, as diff -u."""
    exercise = one(options)
    may_see(exercise)
    path = desk.own_file(exercise)
    lines = list(difflib.unified_diff(
        path.read_text("utf-8", "replace").splitlines(),
        exercise.solution.read_text("utf-8").splitlines(),
        desk.shown(path), "the solution", lineterm="",
    ))
    for line in lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        console.print(escape(line), style=style)
    if not lines:
        console.print("Yours is the solution, to the letter.")
    return 0


def reset(options: argparse.Namespace) -> int:
    """The starter again."""
    exercise = one(options)
    backup = desk.reset(exercise)
    console.print(
        f"{desk.shown(desk.place(exercise))}/{exercise.file} is as at the "
        f"start; what you had is in {desk.shown(backup)}."
    )
    return 0


def make_report(options: argparse.Namespace) -> int:
    """Check all, sum up: as a table, JSON or JUnit XML."""
    found = []
    if options.junit and not desk.from_caller(options.junit).parent.is_dir():
        raise DeskError(f"there is no folder for {options.junit}")
    for exercise in some(options):
        path = desk.own_file(exercise)
        print(f"{exercise.id} ...", file=sys.stderr, flush=True)
        found.append((exercise, examine(exercise, path)))
    if options.junit:
        write_junit(options.junit, found)
    if options.json:
        print(json.dumps(
            [dataclasses.asdict(r) | {"passed": r.passed} for _, r in found],
            indent=1,
        ))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("", "ID", "Exercise", "Tests", "What is missing"):
            table.add_column(name)
        for exercise, report in found:
            passed = sum(o.passed for o in report.outcomes)
            missing = report.trouble or "; ".join(
                o.title for o in report.failures
            )
            table.add_row(
                "[green]✓[/]" if report.passed else "[red]✗[/]",
                exercise.id, escape(exercise.title),
                f"{passed}/{report.total}", escape(missing),
            )
        console.print(table)
    return 0 if all(report.passed for _, report in found) else 1


def write_junit(
    path: Path, found: Sequence[tuple[Exercise, Report]]
) -> None:
    """The reports as JUnit XML. Raises DeskError if it cannot be written."""
    root = ElementTree.Element("testsuites")
    for exercise, report in found:
        suite = ElementTree.SubElement(
            root, "testsuite", name=f"{exercise.id} {exercise.title}",
            tests=str(max(report.total, 1)),
            failures=str(len(report.failures)),
            errors="1" if report.trouble else "0",
        )
        for outcome in report.outcomes:
            case = ElementTree.SubElement(
                suite, "testcase", classname=exercise.id,
                name=outcome.title, time=str(outcome.seconds),
            )
            if not outcome.passed:
                failure = ElementTree.SubElement(
                    case, "failure",
                    message=outcome.came or outcome.expected,
                )
                failure.text = "\n".join(told(outcome))
        if report.trouble:
            case = ElementTree.SubElement(
                suite, "testcase", classname=exercise.id, name="runs",
            )
            ElementTree.SubElement(case, "error", message=report.trouble)
    try:
        ElementTree.ElementTree(root).write(
            desk.from_caller(path), encoding="utf-8", xml_declaration=True
        )
    except OSError as error:
        raise DeskError(
            f"cannot write {path}: {error.strerror}"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
