"""01.1: HEAD gets the head that GET would get, and no body."""

import random

from tools.common.raw_client import Response
from tools.learn.plugin import Start
from tools.learn.student import Serving, Wrong, get, telling


def head_of(response: Response) -> list[tuple[str, str]]:
    """The fields of an answer, but for the time of day."""
    return sorted(f for f in response.fields if f[0].lower() != "date")


def test_get(server: Serving) -> None:
    """GET gets the page, as before."""
    with server.visit(get()) as visitor:
        visitor.expect_page()


def test_head(server: Serving) -> None:
    """HEAD gets status 200 and the length of the page."""
    with server.visit(get(method="HEAD")) as visitor:
        visitor.expect_page(head=True)


def test_no_body(server: Serving, dice: random.Random) -> None:
    """After the head no byte follows: HEAD has no body."""
    query = f"/?{dice.randrange(10**6)}"
    with server.visit(get(query, method="HEAD")) as visitor:
        visitor.expect_page(head=True)
        visitor.expect_closed()


def test_at_once(start: Start) -> None:
    """HEAD does not wait: no page has to be made for it."""
    server = start("--delay", "30")
    with telling("--delay 30", "We asked for / with HEAD"), server.visit(
        get(method="HEAD")
    ) as visitor:
        visitor.expect_page(head=True)


def test_get_waits(start: Start) -> None:
    """GET still waits as long as --delay says."""
    with start("--delay", "2").visit(get()) as visitor:
        visitor.expect_later(1)
        visitor.expect_page()


def test_same_head(server: Serving) -> None:
    """The head is the one that GET gets, field by field."""
    heads = []
    for method in ("GET", "HEAD"):
        with server.visit(get(method=method)) as visitor:
            response = visitor.expect_page(head=method == "HEAD")
            heads.append(head_of(response))
    ours, theirs = heads
    for field in [*ours, *theirs]:
        if field not in ours or field not in theirs:
            who = "GET" if field in ours else "HEAD"
            raise Wrong(
                "the same fields for GET and for HEAD",
                f"only {who} got '{field[0]}: {field[1]}'",
            )
