"""05.2: the timers in a heap, and the loop asleep until one is due."""

import itertools
import os
import random
import signal
import time

from tools.learn.student import (
    ANSWER_SECONDS,
    Program,
    Serving,
    Visitor,
    Wrong,
    clock,
    eventually,
    get,
    ready,
    together,
)

WAITS = (0.4, 0.7, 1.0, 1.3, 1.6, 1.9)  # seconds
LONG = 30.0  # seconds: longer than a test
SHORT, TIMES = 0.03, 40  # seconds, and how often one after the other
TICK = 0.5  # seconds: as in web.py
WAKE_UPS = 10  # in a second: the TICKs, and some for chance
CROWD, ASKED = 120, 20  # who wait long; requests beside them
# Put below clients.py: a comparison of two times writes a byte.
COUNTING = """\
import os
import time

import web

counting = True
compared = os.open("compared", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


class Moment(float):
    def __add__(self, other):
        return Moment(float.__add__(self, other))


def counted(compare):
    def counting_compare(self, other):
        if counting:
            os.write(compared, b".")
        return compare(self, other)
    return counting_compare


for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__"):
    setattr(Moment, name, counted(getattr(float, name)))


def uncounted(method):
    def uncounted_method(self):
        global counting
        counting = False
        found = method(self)
        counting = True
        return found
    return uncounted_method


for method in (Clients.is_tick, Clients.overdue):
    setattr(Clients, method.__name__, uncounted(method))


def clock():
    return Moment(time.monotonic())


web.clock = clock
"""


def compared(program: Program) -> int:
    """How often two times have been compared so far."""
    with program.opened("compared") as file:  # of one that spins, it is long
        return file.seek(0, os.SEEK_END)


def wait(seconds: float) -> bytes:
    """A request that waits so long."""
    return get(f"/?wait={seconds:g}")


def test_one(server: Serving) -> None:
    """A request gets the page, and another on the same connection."""
    with server.visit() as visitor:
        for _ in range(2):
            visitor.send(wait(0.2))
            visitor.expect_page()


def arrivals(made: dict[float, Visitor]) -> list[list[float]]:
    """Whose answers came, one after the other or at the same time."""
    left = {visitor.socket: each for each, visitor in made.items()}
    groups = []
    while left:
        found = ready([*left], ANSWER_SECONDS)
        if not found:
            raise Wrong("an answer to each", "some got none")
        groups.append([left.pop(sock) for sock in found])
    return groups


def test_order(server: Serving, dice: random.Random) -> None:
    """Whoever waits shortest is answered first, whoever came first."""
    longest, *waits = sorted(WAITS, reverse=True)
    dice.shuffle(waits)
    # The first to come is the last to be answered. All come at once, on a
    # busy machine too.
    with server.frozen():
        made = {each: server.visit(wait(each)) for each in [longest, *waits]}
    groups = arrivals(made)
    for earlier, later in itertools.pairwise(groups):
        if max(earlier) > min(later):
            raise Wrong(
                "the answers in the order of the waits",
                f"the answer to wait={max(earlier):g} came before that to "
                f"wait={min(later):g}",
            )
    if longest in groups[0]:
        raise Wrong(
            "the answers in the order of the waits",
            "all answers came at once, after the longest wait",
        )
    for visitor in made.values():
        visitor.expect_page()


def test_same_moment(server: Serving, dice: random.Random) -> None:
    """Many that are due at the same moment all get the page."""
    made = [server.visit() for _ in range(dice.randrange(20, 40))]
    eventually(lambda: server.descriptors() > len(made))
    # Stopped for a moment, it finds them all in one turn of its loop.
    server.signal(signal.SIGSTOP)
    for visitor in made:
        visitor.send(wait(0.2))
    server.signal(signal.SIGCONT)
    try:
        for visitor in made:
            visitor.expect_page()
    except Wrong:
        server.expect_alive()
        raise


def test_asleep(server: Serving, dice: random.Random) -> None:
    """While many wait and nobody is due, the server sleeps."""
    many = dice.randrange(50, 70)
    made = [server.visit(wait(LONG)) for _ in range(many)]
    story = [f"{many} clients sent 'GET /?wait={LONG:g} HTTP/1.1'"]
    eventually(lambda: server.descriptors() > len(made))
    time.sleep(TICK)
    begun, before = time.monotonic(), server.sleeps()
    try:
        server.expect_idle()
    except Wrong as error:
        raise Wrong(error.expected, error.came, story) from None
    passed = time.monotonic() - begun
    if server.sleeps() - before > WAKE_UPS * passed:
        raise Wrong(
            "that the loop sleeps until somebody is due",
            "it woke up again and again, and nobody was", story,
        )
    if server.threads() > 1:
        raise Wrong("one thread", "the waits have threads", story)


def test_punctual(server: Serving) -> None:
    """Answers come when they are due, while others wait longer."""
    with together([server.visit(wait(LONG)) for _ in range(3)]):
        begun = clock()
        with server.visit() as visitor:
            for _ in range(TIMES):
                visitor.send(wait(SHORT))
                visitor.expect_page()
                if clock() - begun > TIMES * TICK / 2:
                    raise Wrong(
                        f"answers that are hardly later than {SHORT:g} s",
                        "they were much later: when does the selector "
                        "return?",
                        ["3 clients wait long, and beside them one sent "
                         f"'GET /?wait={SHORT:g} HTTP/1.1' again and again"],
                    )


def test_looks_around(server: Serving) -> None:
    """However long the first timer is, the loop looks around in between."""
    with together([server.visit(wait(LONG)), server.visit()]) as made:
        eventually(lambda: server.descriptors() > len(made))
        time.sleep(TICK)
        server.signal()
        server.waited = True  # it may end now
        made[1].story.append("(SIGTERM: silent clients should be let go)")
        made[1].expect_closed()


def test_few_looks(program: Program) -> None:
    """However many wait, only a few of them are looked at."""
    with program.below("clients.py", COUNTING):
        server = program.start()
    with together([server.visit(wait(LONG)) for _ in range(CROWD)]) as made:
        eventually(lambda: server.descriptors() > len(made))
        with server.visit() as visitor:
            for number in range(ASKED + 1):
                if number == 1:  # by now all the others wait
                    before = compared(program)
                visitor.send(wait(SHORT))
                visitor.expect_page()
    looks = compared(program) - before
    if looks > CROWD * ASKED / 2:
        raise Wrong(
            "that only the first timer is looked at, and a few of the "
            "others when one comes or goes: that is what a heap is for",
            "times were compared as often as if each turn of the loop went "
            "through all timers",
            [f"{CROWD} clients wait long, and beside them one sent "
             f"'GET /?wait={SHORT:g} HTTP/1.1' {ASKED} times"],
        )
