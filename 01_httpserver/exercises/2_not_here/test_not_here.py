"""01.2: 404 for what is not here, 405 for what is not allowed."""

import random

from tools.common.raw_client import Response
from tools.learn.plugin import Start
from tools.learn.student import Serving, Visitor, Wrong, get, shown

KNOWN = (
    "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT",
)


def expect_body(response: Response) -> None:
    """An error is read by people too: it needs a page of its own."""
    if not response.body or "html" not in response.get("Content-Type"):
        raise Wrong(
            "a short page in HTML that says what is wrong",
            "there was no body" if not response.body else
            f"Content-Type was {response.get('Content-Type')!r}",
        )


def expect_refused(visitor: Visitor, method: str) -> None:
    """The next answer is a 405 that says what is, and is not, allowed."""
    response = visitor.expect_status(405)
    allowed = response.get("Allow")
    methods = sorted(word.strip() for word in allowed.split(","))
    if methods != ["GET", "HEAD"]:
        raise Wrong(
            "the field 'Allow: GET, HEAD'",
            f"it was 'Allow: {allowed}'" if allowed else "there was none",
        )
    expect_body(response)
    if method.encode() not in response.body:
        raise Wrong(
            f"a body that names the method, {method}",
            f"the body was {shown(response.body)}",
        )


def test_page(server: Serving, dice: random.Random) -> None:
    """The page stays where it is, with and without a query."""
    for path in ("/", f"/?page={dice.randrange(10**6)}", "/?from=/here"):
        with server.visit(get(path)) as visitor:
            visitor.expect_page()


def test_elsewhere(server: Serving, dice: random.Random) -> None:
    """Another path gets 404, whatever it is called."""
    name = "".join(dice.choices("abcdefgh", k=8))
    for path in (f"/{name}", f"/{name}/", f"/{name}?x=/", "/index.html"):
        with server.visit(get(path)) as visitor:
            expect_body(visitor.expect_status(404))
            visitor.expect_closed()


def test_methods(server: Serving, dice: random.Random) -> None:
    """A known method that is not allowed gets 405, Allow, and its name."""
    for method in dice.sample(KNOWN, len(KNOWN)):
        with server.visit(get(method=method)) as visitor:
            expect_refused(visitor, method)


def test_at_once(start: Start) -> None:
    """Neither error waits: there is nothing to work on."""
    server = start("--delay", "30")
    with server.visit(get("/missing")) as visitor:
        visitor.expect_status(404)
    with server.visit(get(method="POST")) as visitor:
        visitor.expect_status(405)


def test_unknown(server: Serving, dice: random.Random) -> None:
    """A word that is no method gets 501, as before."""
    word = "".join(dice.choices("QXYZ", k=7))
    with server.visit(get(method=word)) as visitor:
        visitor.expect_status(501)


def test_head(server: Serving) -> None:
    """HEAD is allowed, as before."""
    with server.visit(get(method="HEAD")) as visitor:
        visitor.expect_page(head=True)
        visitor.expect_closed()
