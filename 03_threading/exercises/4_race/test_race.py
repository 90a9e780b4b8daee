"""03.4: no ticket is given twice, however many ask at once."""

import random
import signal
import time

from tools.learn.plugin import Start
from tools.learn.student import (
    Program,
    Serving,
    Visitor,
    Wrong,
    eventually,
    get,
    ready,
    together,
)

TICKET = "/?ticket"
WAY_SECONDS = 0.005  # to the database or back, as in tickets.py
FAR_AWAY = "WAY_SECONDS = 2"  # put below tickets.py: more than a test takes


def expect_ticket(visitor: Visitor) -> int:
    """The page with a ticket: its number. Raises Wrong."""
    text = visitor.expect_page().get("Ticket")
    if not text.isdecimal():
        raise Wrong(
            "a header field Ticket with a number",
            f"it was {text!r}" if text else "there was none",
        )
    return int(text)


def take_together(server: Serving, clients: int, each: int) -> list[int]:
    """The tickets that so many clients at once get, several for each."""
    asked = get(TICKET) * (each - 1) + get(TICKET, close=True)
    made = [server.visit(timeout=20) for _ in range(clients)]
    with together(made) as crowd:
        for visitor in crowd:
            visitor.send(asked)
        return [
            expect_ticket(visitor) for visitor in crowd for _ in range(each)
        ]


def test_one_client(server: Serving, dice: random.Random) -> None:
    """One client gets the tickets 1, 2, 3 and so on."""
    with server.visit() as visitor:
        for number in range(1, dice.randint(4, 7)):
            visitor.send(get(TICKET))
            if expect_ticket(visitor) != number:
                raise Wrong(f"ticket {number}", "it was another")


def test_many_clients(start: Start, dice: random.Random) -> None:
    """Many clients at once: nobody gets a ticket that another has."""
    server = start("--delay", "0")
    clients, each = dice.randint(6, 9), dice.randint(5, 8)
    found = take_together(server, clients, each)
    story = [f"{clients} clients at once asked for {each} tickets each"]
    if len(set(found)) < len(found):
        raise Wrong(
            f"{len(found)} different tickets",
            "some were given more than once", story,
        )
    if sorted(found) != [*range(1, len(found) + 1)]:
        raise Wrong(
            f"the tickets from 1 to {len(found)}",
            "some of them are missing", story,
        )


def test_still_in_the_database(start: Start) -> None:
    """Each ticket is still looked up and stored in the database."""
    server = start("--delay", "0")
    number = 50
    begun = time.monotonic()
    take_together(server, 1, number)
    if time.monotonic() - begun < number * 2 * WAY_SECONDS:
        raise Wrong(
            f"{number} look-ups in the database, and {number} stores",
            f"{number} tickets came sooner than these can take: is there "
            "one of each for every ticket?",
            [f"one client asked for {number} tickets"],
        )


def test_midnight(server: Serving, dice: random.Random) -> None:
    """When the database has been set to 0, the next ticket is 1."""
    take_together(server, 1, dice.randint(3, 6))
    server.signal(signal.SIGUSR1)
    if not eventually(lambda: take_together(server, 1, 1) == [1]):
        raise Wrong(
            "the tickets 1, 2 and so on, since the database begins anew",
            "the numbers went on: is there a second counter?",
            ["one client took some tickets",
             "it was midnight: another program set the database to 0",
             "one client after the other asked for a ticket"],
        )


def test_waiting_overlaps(start: Start) -> None:
    """The delays of the requests overlap, as before."""
    start("--delay", "1").expect_overlap(8, 1, TICKET)


def test_only_tickets_wait(program: Program) -> None:
    """Only who takes a ticket waits for others who do."""
    with program.below("tickets.py", FAR_AWAY):
        server = program.start("--delay", "0")
    many, pages = 4, 10
    asked = get(TICKET, close=True)
    with (
        together([server.visit(asked) for _ in range(many)]),
        together([server.visit() for _ in range(pages)]) as others,
    ):
        for visitor in others:
            visitor.send(get(close=True))
        # When all its threads sleep, it has read all requests, and who
        # has no page by now waits for something else than the CPU.
        server.falls_asleep()
        if any(not ready([visitor.socket], 0) for visitor in others):
            raise Wrong(
                "the pages at once, while the tickets are waited for",
                "a page did not come meanwhile: do requests without "
                "?ticket wait, too?",
                [f"{many} clients asked for a ticket, then {pages} others "
                 "for the page without one"],
            )
        for visitor in others:
            visitor.expect_page()


def test_silent_clients(server: Serving) -> None:
    """Silent clients, and those that vanish, hold up nobody."""
    half = get(TICKET)[:20]
    with together([server.visit(half) for _ in range(3)]):
        for _ in range(4):
            server.visit(get(TICKET)).reset()
        with server.visit(get(TICKET)) as visitor:
            expect_ticket(visitor)
        server.expect_page()
