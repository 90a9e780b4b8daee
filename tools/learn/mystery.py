"""``./learn.sh mystery``: which of the servers is it?

A server runs under a neutral name, and the student finds out from outside
which one it is. mystery.toml says what gives each of them away.
"""

import argparse
import contextlib
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from tools.common.files import save_json
from tools.common.launch import Launched, LaunchError, why_no_uring
from tools.learn import desk
from tools.learn.desk import DeskError
from tools.learn.examine import Outcome, Report
from tools.servers import NO, POOL, SERVERS, YES, Server, by_name

ROUNDS = 3
DELAY = 1  # seconds a request waits: long enough to be felt
ENDINGS = (signal.SIGTERM, signal.SIGHUP)  # they end it as Ctrl-C does
PAGE = "exercises/mystery.md"
KEPT = ".mystery.json"  # in my/
Rounds = list[tuple[str, str]]  # which server it was, and what was said
MAIN = 'if __name__ == "__main__":\n'
# http.server names itself in each response, and no other server does.
NAMELESS = """\
    Handler.send_header = lambda self, name, value: (
        name == "Server"
        or BaseHTTPRequestHandler.send_header(self, name, value)
    )
"""

console = Console(highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Clue:
    """A command, and what it shows: server -> sign, sign -> in words."""

    command: str
    signs: dict[str, str]
    words: dict[str, str]


def read_clues() -> list[Clue]:
    """All clues, in the order in which they are told."""
    table = Path(__file__).with_suffix(".toml").read_text("utf-8")
    found = []
    for at, clue in enumerate(tomllib.loads(table)["clue"]):
        shown = {server.name: signs(server)[at] for server in SERVERS}
        words = {seen["sign"]: seen["what"] for seen in clue["seen"]}
        found.append(Clue(clue["command"], shown, words))
    return found


def signs(server: Server) -> tuple[str, ...]:
    """Its sign for each clue, in their order.

    They follow from what it promises, its step, and what it imports.
    """
    does = server.lessons
    version = "HTTP/1.0" if server.step == 1 else "HTTP/1.1"
    kept = "kept" if does["keep_alive"] == YES else "closed"
    few = "ready" if does["overlap"] == POOL else "one"
    threads = {YES: few, NO: "come and go", POOL: "come and stay"}
    waits = "poll" if server.step < 4 else "epoll_wait"
    text = server.path.read_text("utf-8")
    return (
        "twice" if server.step == 7 else "once",
        f"{version}, {kept}",
        "serial" if does["overlap"] == NO else "overlaps",
        threads[does["threads"]],
        "io_uring_enter" if does["batching"] == YES else waits,
        "asyncio" if "\nimport asyncio\n" in text else "no asyncio",
    )


FIRST = {signs(server): server.name for server in reversed(SERVERS)}
# Nobody can tell these from another from outside: name -> the other's.
ALIKE = {
    server.name: FIRST[signs(server)] for server in SERVERS
    if server.name not in FIRST.values()
}
ANSWERS = tuple(s.name for s in SERVERS if s.name not in ALIKE)


def evidence(answer: str) -> list[tuple[Clue, list[str]]]:
    """The clues that lead to an answer, each with who is left after it."""
    left, found = list(ANSWERS), []
    for clue in read_clues():
        same = [n for n in left if clue.signs[n] == clue.signs[answer]]
        if same != left:
            found.append((clue, same))
        left = same
    return found


# A server that nobody recognizes -------------------------------------------


@contextlib.contextmanager
def disguised(server: Server, delay: float) -> Iterator[Launched]:
    """It runs as ``python server.py``, on any port, and is killed at last.

    Its options stand in the copy that runs, which is removed when it does.
    Raises LaunchError.
    """
    words = ["--port", "0", "--delay", str(delay), *server.options]
    if server.step == 7:  # the same on every machine
        words += ["--workers", "2", "--worker-kind", "process"]
    begins = f"{MAIN}    import sys\n    sys.argv += {words!r}\n"
    begins += NAMELESS if server.step == 1 else ""
    with contextlib.ExitStack() as stack:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            for path in server.path.parent.glob("*.py"):  # what it imports
                shutil.copy(path, place)
            text = server.path.read_text("utf-8").replace(MAIN, begins)
            (place / "server.py").write_text(text, "utf-8")
            process = Launched([sys.executable, "server.py"], cwd=place)
            stack.callback(process.kill)
            process.wait_until_ready()
        yield process


def drawn(seed: int | None) -> list[str]:
    """What has to be answered in each round."""
    names = random.Random(seed).sample(ANSWERS, ROUNDS)
    other = "07-emulated" if why_no_uring() else "07"
    return [other if name == "07" else name for name in names]


# The game ------------------------------------------------------------------


def play(options: argparse.Namespace) -> int:
    """Three rounds; 0: all were right, 1: not all."""
    for ending in ENDINGS:
        signal.signal(ending, signal.default_int_handler)
    seed = "" if options.seed is None else str(options.seed)
    games, rounds = kept(), Rounds()
    again = seed and seed in games
    for number, was in enumerate(drawn(options.seed), 1):
        console.print(f"\n[bold]Round {number} of {ROUNDS}[/]")
        try:
            with disguised(by_name(was), DELAY) as process:
                rounds.append((was, one_round(process, was)))
                if not again:
                    save_json(desk.MY / KEPT, {**games, seed: rounds})
                ask("\nIt still runs: try them. Enter goes on. ")
        except LaunchError as error:
            raise DeskError(str(error)) from None
    right = sum(was == said for was, said in rounds)
    console.print(f"\n[bold]{right} of {ROUNDS} right.[/] " + (
        "You have played this seed before: your first game counts." if again
        else "./learn.sh report shows it."
    ))
    return 0 if right == ROUNDS else 1


def one_round(process: Launched, was: str) -> str:
    """Ask which server it is, and tell; the answer."""
    port = process.wait_until_ready()
    url = f"http://127.0.0.1:{port}/"
    console.print(
        f"A server runs at {url} as process {process.pid}.\n"
        f"Each request waits {DELAY} s. Look at it from another terminal "
        f"(docs/{PAGE} says how).\nWhich one is it? {', '.join(ANSWERS)}"
    )
    said = ""
    while not said:
        try:
            said = answer_in(ask("> "))
        except ValueError as error:
            console.print(escape(str(error)))
    right = "[green]Yes[/]: it is" if said == was else "[red]No[/]: it is"
    console.print(f"{right} {was}, {by_name(was).title}.\n")
    console.print("What gives it away:")
    pid = process.processes()[-1].pid  # of 07: a worker's
    for clue, left in evidence(was):
        shown = clue.command.format(url=url, port=port, pid=pid)
        console.print(
            f"  [cyan]$ {shown}[/]\n    {clue.words[clue.signs[was]]}\n"
            f"    [dim]Left: {', '.join(left)}[/]"
        )
    return said


def ask(prompt: str) -> str:
    """What is typed; its end is taken as Ctrl-C."""
    try:
        return input(prompt)
    except EOFError:
        raise KeyboardInterrupt from None


def answer_in(typed: str) -> str:
    """The answer that was typed. Raises ValueError with a sentence."""
    word = re.sub(r"^(?=\d\b)", "0", typed.strip().lower())
    if ALIKE.get(word, word) not in ANSWERS:
        raise ValueError(
            f"No server is called {typed.strip()!r}. Type one of these: "
            f"{', '.join(ANSWERS)}"
        )
    return ALIKE.get(word, word)


# What is kept of it ---------------------------------------------------------


def kept() -> dict[str, Rounds]:
    """The games by their seeds, of each the first; "": the last without."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Rounds] = json.loads((desk.MY / KEPT).read_text())
        return found
    return {}


def played() -> list[Report]:
    """The games as reports of exercises."""
    found = []
    for seed, rounds in kept().items():
        report = Report(
            f"mystery-{seed}" if seed else "mystery",
            "The mystery server" + (f", seed {seed}" if seed else ""),
            total=ROUNDS,
        )
        for number, (was, said) in enumerate(rounds, 1):
            report.outcomes.append(Outcome(
                f"round_{number}", f"round {number}: it was {was}",
                was == said, 0.0, came=f"you said {said}",
            ))
        if len(rounds) < ROUNDS:
            report.trouble = f"{len(rounds)} of {ROUNDS} rounds were played"
        if not report.missing:
            report.state = "passed"
        found.append(report)
    return found
