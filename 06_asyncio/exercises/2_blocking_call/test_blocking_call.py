"""06.2: what blocks waits in a thread, not in the event loop."""

import random
import select
import time

from tools.learn.plugin import Start
from tools.learn.student import (
    Serving,
    Wrong,
    eventually,
    get,
    together,
)


def test_page(server: Serving) -> None:
    """One client gets the page, as before."""
    server.expect_page()


def test_others_go_on(start: Start) -> None:
    """Who needs no database is answered while others wait for it."""
    server = start("--delay", "1.5", "--workers", "2")
    with together([server.visit(get()) for _ in range(2)]) as pages:
        with server.visit(get("/missing")) as visitor:
            visitor.expect_status(404)
        ready, _, _ = select.select([v.socket for v in pages], [], [], 0)
        if ready:
            raise Wrong(
                "the 404 first: it has nothing to wait for",
                "a page came before it, although its query takes 1.5 s",
            )


def test_overlap(start: Start, dice: random.Random) -> None:
    """As many queries as there are workers wait at the same time."""
    clients = dice.randrange(8, 12)
    server = start("--delay", "0.5", "--workers", str(clients))
    server.expect_overlap(clients, 0.5)


def test_bounded(start: Start, dice: random.Random) -> None:
    """No more queries at a time than there are workers, each in a thread."""
    workers = dice.randrange(2, 4)
    server = start("--delay", "0.4", "--workers", str(workers))
    begun = time.monotonic()
    with together([server.visit(get()) for _ in range(4 * workers)]) as all_:
        threads = eventually(lambda: server.threads() > 1, 0.4)
        for visitor in all_:
            visitor.expect_page()
    story = [
        f"{4 * workers} clients asked for / at once; each query takes "
        f"0.4 s, --workers was {workers}"
    ]
    if not threads:
        raise Wrong(
            "queries that wait in threads",
            "there was only the thread of the loop", story,
        )
    if time.monotonic() - begun < 4 * 0.4 * 0.95:
        raise Wrong(
            f"four rounds of {workers} queries",
            "all answers came sooner: are there more threads than "
            "--workers says?", story,
        )
