"""03.6: a server from an empty file, with a quota for each key."""

import random

from tools.learn.plugin import Start
from tools.learn.student import Wrong, get, telling, together

CROWD = 24  # clients that ask at the same moment


def key_of(dice: random.Random) -> str:
    """A new key."""
    return "".join(dice.choices("abcdefgh", k=8))


def test_page(start: Start) -> None:
    """A request gets the page, and the next one on its connection."""
    with start("--quota", "1").visit() as visitor:
        for _ in range(3):
            visitor.send(get())
            visitor.expect_page()


def test_quota(start: Start, dice: random.Random) -> None:
    """Of one key, --quota requests get the page, and the next a 429."""
    quota = dice.randint(2, 4)
    key = key_of(dice)
    server = start("--quota", str(quota))
    with telling(
        f"--quota {quota}", f"We asked for /?key={key} again and again"
    ):
        with server.visit() as visitor:
            for _ in range(quota - 1):
                visitor.send(get(f"/?key={key}"))
                visitor.expect_page()
        with server.visit(get(f"/?key={key}") * 2) as visitor:
            visitor.expect_page()
            visitor.expect_status(429)
            visitor.expect_closed()
    with telling(f"--quota {quota}", "then for another key, and for none"):
        for target in (f"/?key={key}x", f"/?x=1&key={key}y", "/"):
            with server.visit(get(target, close=True)) as visitor:
                visitor.expect_page()


def test_refused_at_once(start: Start, dice: random.Random) -> None:
    """The 429 comes before any work."""
    key = key_of(dice)
    server = start("--quota", "1", "--delay", "60")
    with server.visit(get(f"/?key={key}")):
        server.falls_asleep()  # it has this request, and works for it
        with server.visit(get(f"/?key={key}")) as visitor:
            visitor.expect_status(429)


def test_errors_are_not_counted(start: Start, dice: random.Random) -> None:
    """A request that gets an error costs nothing of the quota."""
    key = key_of(dice)
    server = start("--quota", "1")
    for request, status in (
        (get(f"/missing?key={key}"), 404),
        (get(f"/?key={key}", method="DELETE"), 405),
    ):
        with server.visit(request) as visitor:
            visitor.expect_status(status)
    with server.visit(get(f"/?key={key}", close=True)) as visitor:
        visitor.expect_page()


def test_exactly(start: Start, dice: random.Random) -> None:
    """Exactly --quota get the page, also if all ask at the same moment."""
    quota = dice.randint(5, 9)
    asked = get(f"/?key={key_of(dice)}", close=True)
    server = start("--quota", str(quota), "--delay", "0.5")
    with server.frozen():  # all are there when it looks
        made = [server.visit(asked, timeout=10) for _ in range(CROWD)]
    with together(made):
        came = [visitor.expect_status(200, 429).status for visitor in made]
    if (pages := came.count(200)) != quota:
        raise Wrong(
            f"the page for {quota} of {CROWD} clients, a 429 for the others",
            f"{pages} got the page: is the request counted before its work, "
            "and in one step with the look at the count?",
            [f"--quota {quota}", f"{CROWD} clients with one key asked at "
             "the same moment"],
        )


def test_overlap(start: Start, dice: random.Random) -> None:
    """The waits of requests overlap, those of one key as well."""
    start("--delay", "1").expect_overlap(8, 1, f"/?key={key_of(dice)}")


def test_silent_clients(start: Start) -> None:
    """Silent clients, and those that vanish, hold up nobody."""
    server = start()
    with together([server.visit(b"GET /") for _ in range(5)]):
        server.visit(get("/?key=x")).reset()
        server.expect_page()


def test_stop(start: Start) -> None:
    """After SIGTERM a request in progress gets the page; then it ends."""
    server = start("--delay", "1")
    with server.visit(), server.visit(get("/?key=a")) as visitor:
        server.falls_asleep()
        server.signal()
        visitor.story.append("(we sent SIGTERM to the server)")
        visitor.expect_page()
        server.expect_end(4)
