"""``./learn.sh drill``: predict in numbers, until five in a row are right."""

import argparse
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from tools.learn.desk import DeskError
from tools.model.model import Shape, closed, most_rate

ABOUT = "how many requests per second? how long? predict it in numbers"
TOLERANCE = 0.15
IN_A_ROW = 5
MOST = 200  # questions of a sheet
WAITS = (20, 50, 100, 200, 250, 500)  # ms
SLIGHT, HEAVY = (1, 2), (4, 5, 8, 10, 20)  # ms of computing


@dataclass(frozen=True)
class Question:
    """A question, the number that answers it, its unit, and why.

    tried: a server, its options, milliseconds of waiting and of computing,
    and clients, with which the answer can be measured.
    """

    step: int
    text: str
    answer: float
    unit: str
    reason: str
    tried: tuple[str, tuple[str, ...], float, float, int] | None = None

    def right(self, given: float) -> bool:
        """Is a number near enough?"""
        return abs(given - self.answer) <= TOLERANCE * self.answer

    @property
    def shown(self) -> str:
        """The answer as it is printed."""
        return f"{self.answer:,.4g} {self.unit}"


def rate(how: Shape, wait: float, compute: float, clients: int) -> float:
    """Requests per second; wait and compute in ms."""
    return closed(how, wait / 1000, compute / 1000, clients)[-1]


def one_at_a_time(draw: random.Random) -> Question:
    """Steps 01, 02 and 04: the wait blocks everything."""
    wait, clients = draw.choice(WAITS), draw.choice((5, 20, 100))
    return Question(
        draw.choice((1, 2, 4)),
        f"A server waits {wait} ms with each request, one after the other. "
        f"{clients} clients send requests without a break. How many "
        "requests per second does it serve?",
        rate(Shape(1), wait, 0, clients), "requests/s",
        f"One request occupies it for {wait} ms, however many clients there "
        f"are:\n1 / {wait / 1000:g} s = {1000 / wait:,.3g} requests/s.",
        (draw.choice(("02", "04")), (), wait, 0, clients),
    )


def queue(draw: random.Random) -> Question:
    """The same servers: how long the last one waits."""
    wait, clients = draw.choice(WAITS), draw.choice((5, 10, 20, 40))
    return Question(
        draw.choice((1, 2, 4)),
        f"A server waits {wait} ms with each request, one after the other. "
        f"{clients} clients send one request each, at the same moment. After "
        "how many seconds does the last one have its response?",
        clients * wait / 1000, "s",
        f"The last one waits for all the others first:\n{clients} times "
        f"{wait / 1000:g} s = {clients * wait / 1000:g} s.",
    )


def pool(draw: random.Random) -> Question:
    """Step 03, a pool that is too small for its clients, or is not."""
    wait, size = draw.choice(WAITS), draw.choice((4, 8, 10, 16, 20))
    clients = size * draw.choice((2, 5, 10)) if draw.choice((1, 1, 0)) \
        else size // 2
    busy = min(size, clients)
    return Question(
        3,
        f"A pool of {size} threads, {wait} ms of waiting in each request, "
        f"{clients} clients that send requests without a break. How many "
        "requests per second?",
        rate(Shape(size), wait, 0, clients), "requests/s",
        f"{busy} requests wait at the same time, {wait} ms each:\n{busy} / "
        f"{wait / 1000:g} s = {1000 * busy / wait:,.4g} requests/s.",
        ("03-pool", ("--workers", str(size)), wait, 0, clients),
    )


def in_the_pool(draw: random.Random) -> Question:
    """Step 03: how long a request takes when the pool is too small."""
    wait, size = draw.choice(WAITS), draw.choice((4, 8, 10))
    clients = size * draw.choice((2, 4, 5, 10))
    return Question(
        3,
        f"A pool of {size} threads, {wait} ms of waiting in each request, "
        f"{clients} clients that send requests without a break. How long "
        "does a request take, in seconds?",
        clients / rate(Shape(size), wait, 0, clients), "s",
        f"The pool serves {1000 * size / wait:,.4g} requests/s. Little's "
        f"law:\n{clients} clients / {1000 * size / wait:,.4g} requests/s = "
        f"{clients * wait / size / 1000:,.3g} s.",
    )


def how_many_threads(draw: random.Random) -> Question:
    """Step 03: Little's law the other way round."""
    wait, wanted = draw.choice(WAITS), draw.choice((40, 100, 200, 400))
    return Question(
        3,
        f"{wanted} requests arrive in a second, and each waits {wait} ms. How "
        "many threads are occupied on average?",
        wanted * wait / 1000, "threads",
        f"Little's law:\n{wanted} requests/s times {wait / 1000:g} s = "
        f"{wanted * wait / 1000:g}.",
    )


def overlapping(draw: random.Random) -> Question:
    """Steps 05 and 06: the waits overlap, computing is slight."""
    wait, compute = draw.choice(WAITS[2:]), draw.choice(SLIGHT)
    clients = draw.choice((10, 20, 30))
    return Question(
        draw.choice((5, 6)),
        f"An event loop whose waits overlap: each request waits {wait} ms and "
        f"computes {compute} ms. {clients} clients send requests without a "
        "break. How many requests per second?",
        rate(Shape(), wait, compute, clients), "requests/s",
        f"Each client gets one response in about {wait + compute} ms:\n"
        f"{clients} / {(wait + compute) / 1000:g} s = "
        f"{1000 * clients / (wait + compute):,.4g} requests/s; the core is "
        "not full.",
        (draw.choice(("05", "06")), (), wait, compute, clients),
    )


def full_core(draw: random.Random) -> Question:
    """Steps 05 and 06: computing fills the one core."""
    wait, compute = draw.choice(WAITS[:4]), draw.choice(HEAVY)
    clients = 20 * max(1, wait // compute)
    return Question(
        draw.choice((5, 6)),
        f"An event loop whose waits overlap: each request waits {wait} ms and "
        f"computes {compute} ms. {clients:,} clients send requests without a "
        "break. How many requests per second?",
        rate(Shape(), wait, compute, clients), "requests/s",
        "The waits overlap, but one core does all of the computing:\n"
        f"1 / {compute / 1000:g} s = {1000 / compute:,.4g} requests/s.",
        (draw.choice(("05", "06")), (), wait, compute, clients),
    )


def cores(draw: random.Random) -> Question:
    """Step 07: workers compute at the same time."""
    compute, number = draw.choice(HEAVY), draw.choice((2, 4, 8))
    return Question(
        7,
        f"{number} workers on {number} cores, and each request computes "
        f"{compute} ms. How many requests per second can they serve at most?",
        most_rate(Shape(0, number), 0, compute / 1000), "requests/s",
        f"A core serves 1 / {compute / 1000:g} s = {1000 / compute:,.4g} "
        f"requests/s:\n{number} times {1000 / compute:,.4g} = "
        f"{1000 * number / compute:,.4g} requests/s.",
    )


KINDS: dict[Callable[[random.Random], Question], tuple[int, ...]] = {
    one_at_a_time: (1, 2, 4), queue: (1, 2, 4), pool: (3,),
    in_the_pool: (3,), how_many_threads: (3,), overlapping: (5, 6),
    full_core: (5, 6), cores: (7,),
}  # fmt: skip


def questions(seed: int, number: int, step: int = 0) -> list[Question]:
    """So many, the same for each seed; step: of one step only."""
    draw = random.Random(seed)
    kinds = [kind for kind, of in KINDS.items() if step in (0, *of)]
    return [draw.choice(kinds)(draw) for _ in range(number)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """What may be said after ``drill``."""
    add = parser.add_argument
    add("--seed", type=int, metavar="N",
        help="the same questions for all who give the same number")
    add("--step", type=int, choices=range(1, 8), default=0,
        help="questions about one step")
    add("--print", type=int, metavar="N", dest="sheet",
        help="print a sheet of N questions, and its solutions")


def run(options: argparse.Namespace) -> int:
    """Ask, or print a sheet; 0 if five in a row were right.

    Raises DeskError if a sheet of that size makes no sense.
    """
    seed = options.seed
    seed = secrets.randbelow(10_000) if seed is None else seed
    if options.sheet is not None:
        if not 1 <= options.sheet <= MOST:
            raise DeskError(f"a sheet has 1 to {MOST} questions")
        print(sheet(seed, options.sheet, options.step))
        return 0
    return ask(seed, options.step)


def sheet(seed: int, number: int, step: int = 0) -> str:
    """Questions and, on a page of their own, solutions, in Markdown."""
    found = questions(seed, number, step)
    asked = [f"{at}. {each.text}" for at, each in enumerate(found, 1)]
    solved = [
        f"{at}. **{each.shown}**. {' '.join(each.reason.split())}"
        for at, each in enumerate(found, 1)
    ]
    return "\n".join([
        f"# {number} predictions (seed {seed})", "", *asked, "", "\f",
        f"# Solutions (seed {seed}; {TOLERANCE:.0%} either way are right)",
        "", *solved,
    ])


def ask(seed: int, step: int) -> int:
    """Ask until five in a row are right, or there is no more input."""
    print(f"Predict: five in a row, {TOLERANCE:.0%} either way. End: Ctrl-D.")
    row = 0
    for each in questions(seed, 1000, step):
        print(f"\n{each.text}")
        given = number(each.unit)
        if given is None:
            print()
            return 1
        row = row + 1 if each.right(given) else 0
        print(f"{'Right' if row else 'No'}: {each.shown}.\n{each.reason}")
        if row == IN_A_ROW:
            print("\nFive in a row: passed.")
            return 0
        print(f"{row} of {IN_A_ROW} in a row.")
    return 1


def number(unit: str) -> float | None:
    """A number that is typed; None: there comes no more."""
    while True:
        try:
            typed = input(f"{unit}? ")
        except EOFError:
            return None
        try:
            return float(typed.replace(",", "").strip())
        except ValueError:
            print("Type a number, as 12.5.")
