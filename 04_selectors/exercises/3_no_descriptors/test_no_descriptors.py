"""04.3: no descriptor is left, and the loop neither spins nor stops."""

import random

from tools.learn.plugin import Start
from tools.learn.student import (
    Serving,
    Visitor,
    Wrong,
    clock,
    eventually,
    get,
    together,
)

MORE = 20  # clients than the server has descriptors
ROUNDS = 20  # requests on an open connection
TICK = 0.5  # seconds: as in web.py


class Crowd:
    """So many silent clients that the server runs out of descriptors.

    kept: the first of them, who have got a page; silent: the others.
    """

    def __init__(self, start: Start, dice: random.Random) -> None:
        limit = dice.randrange(30, 50)
        self.server: Serving = start("--delay", "0", descriptors=limit)
        self.kept = self.server.visit(get())
        self.kept.expect_page()
        self.silent = [self.server.visit() for _ in range(limit + MORE)]
        self.story = [
            f"the server may open {limit} descriptors (ulimit -n {limit}), "
            f"{1 + len(self.silent)} clients connected"
        ]
        if not eventually(lambda: self.server.descriptors() > limit - 5):
            raise self.wrong(
                "a server that accepts as long as it can",
                "it has descriptors left and leaves clients waiting",
            )

    def wrong(self, expected: str, came: str, *story: str) -> Wrong:
        """What is wrong, with our story."""
        return Wrong(expected, came, [*self.story, *story])

    def page(self, visitor: Visitor, who: str) -> None:
        """This one asks and gets the page. Raises Wrong."""
        try:
            visitor.send(get())
            visitor.expect_page()
        except Wrong as error:
            story = f"then {who} sent 'GET / HTTP/1.1'"
            raise self.wrong(error.expected, error.came, story) from None


def test_few(start: Start) -> None:
    """With descriptors for all, everybody gets the page."""
    server: Serving = start("--delay", "0", descriptors=40)
    with together([server.visit() for _ in range(10)]) as made:
        for visitor in reversed(made):
            visitor.send(get())
            visitor.expect_page()


def test_asleep(start: Start, dice: random.Random) -> None:
    """When no descriptor is left, the server sleeps."""
    crowd = Crowd(start, dice)
    try:
        crowd.server.expect_idle(1.5)
    except Wrong as error:
        raise crowd.wrong(error.expected, error.came) from None


def test_most(start: Start, dice: random.Random) -> None:
    """No more than --most clients are here, and the next one waits."""
    most = dice.randrange(5, 10)
    server: Serving = start("--delay", "0", "--most", str(most))
    with together([server.visit(get()) for _ in range(most)]) as made:
        for visitor in made:
            visitor.expect_page()
        with server.visit(get()) as late:
            late.story[0] = f"connected, one more than --most {most}"
            server.expect_idle()
            late.expect_quiet(0.2)
            made[0].close()
            late.story.append("(one of the others left)")
            late.expect_page()


def test_stops(start: Start, dice: random.Random) -> None:
    """A full server can be stopped."""
    crowd = Crowd(start, dice)
    crowd.server.signal()
    try:
        crowd.server.expect_end()
    except Wrong as error:
        story = "then we sent SIGTERM to the server"
        raise crowd.wrong(error.expected, error.came, story) from None


def test_others_are_served(start: Start, dice: random.Random) -> None:
    """Meanwhile those who are connected are served, and not held up."""
    crowd = Crowd(start, dice)
    crowd.page(crowd.silent[0], "the second of them")
    begun = clock()
    for _ in range(ROUNDS):
        crowd.page(crowd.kept, "the first of them")
        if clock() - begun > ROUNDS * TICK / 3:
            raise crowd.wrong(
                f"{ROUNDS} answers, one right after the other",
                "each answer was late: does the loop sleep in accept?",
            )


def test_the_waiting_come_in(start: Start, dice: random.Random) -> None:
    """When descriptors are free again, those who waited are served."""
    crowd = Crowd(start, dice)
    *others, last = crowd.silent
    for _ in range(2):
        for visitor in others:
            visitor.close()
        crowd.page(last, "all but the first and the last left, who")
        last.close()
        *others, last = [crowd.server.visit() for _ in crowd.silent]
