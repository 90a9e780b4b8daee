"""06.2: what blocks waits in a thread, not in the event loop."""

import itertools
import random

from tools.learn.plugin import Start
from tools.learn.student import (
    Program,
    Serving,
    Wrong,
    get,
    ready,
    together,
)

# Put below database.py: it writes down when a query begins (+) and ends.
NOTES = """\
open("queries", "a").close()
unnoted = query


def query(seconds):
    note("+")
    try:
        return unnoted(seconds)
    finally:
        note("-")


def note(what):
    with open("queries", "a") as file:
        file.write(what)
"""


def test_page(server: Serving) -> None:
    """One client gets the page, as before."""
    server.expect_page()


def test_others_go_on(start: Start) -> None:
    """Who needs no database is answered while others wait for it."""
    server = start("--delay", "1.5", "--workers", "2")
    with (
        together([server.visit(get()) for _ in range(2)]),
        server.visit(get("/missing")) as visitor,
    ):
        server.falls_asleep()  # now nothing waits for the CPU
        if not ready([visitor.socket], 0):
            raise Wrong(
                "the 404 first: it has nothing to wait for",
                "it had to wait for a page, whose query takes 1.5 s",
            )
        visitor.expect_status(404)


def test_overlap(start: Start, dice: random.Random) -> None:
    """As many queries as there are workers wait at the same time."""
    clients = dice.randrange(8, 12)
    server = start("--delay", "0.5", "--workers", str(clients))
    server.expect_overlap(clients, 0.5)


def test_bounded(program: Program, dice: random.Random) -> None:
    """Each page asks the database; no more do at a time than --workers."""
    workers = dice.randrange(2, 4)
    with program.below("database.py", NOTES):
        server = program.start("--delay", "0.2", "--workers", str(workers))
    clients = 4 * workers
    with together([server.visit(get()) for _ in range(clients)]) as all_:
        for visitor in all_:
            visitor.expect_page()
    story = [f"{clients} clients asked for / at once, --workers {workers}"]
    notes = program.left("queries").decode("ascii", "replace")
    if (asked := notes.count("+")) != clients:
        raise Wrong(
            f"that query is called {clients} times",
            f"it was called {asked} times", story,
        )
    steps = (1 if each == "+" else -1 for each in notes)
    if (most := max(itertools.accumulate(steps))) > workers:
        raise Wrong(
            f"no more than {workers} queries at a time",
            f"at one moment there were {most}", story,
        )
