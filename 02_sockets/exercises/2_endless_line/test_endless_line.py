"""02.2: a request that is too long is refused while it comes."""

import random
import select
import time

from tools.learn.plugin import Start
from tools.learn.student import (
    Serving,
    Visitor,
    Wrong,
    clock,
    get,
    shown,
    telling,
)

MAX_HEAD = 16 * 1024  # as in web.py
PATIENCE = 5.0  # seconds for a client that never stops


def send_for_ever(visitor: Visitor, data: bytes) -> None:
    """Send it again and again until the server hangs up.

    Not too fast: who keeps all of it should not fill this computer.
    What comes back is received meanwhile. Raises Wrong if the server
    reads on and on.
    """
    visitor.story.append(f"sent {shown(data[:4])} for ever, never a line end")
    deadline = clock() + PATIENCE
    while clock() < deadline:
        time.sleep(0.005)
        readable, writable, _ = select.select(
            [] if visitor.ended else [visitor.socket], [visitor.socket], [], 1
        )
        if readable:
            visitor.receive(1)
        if writable and not send_some(visitor, data):
            return
    raise Wrong(
        "a server that hangs up on this client",
        f"it still read {PATIENCE:g} s later",
    )


def send_some(visitor: Visitor, data: bytes) -> bool:
    """As much of data as goes out at once; False if nobody reads it."""
    visitor.socket.setblocking(False)
    try:
        visitor.socket.send(data)
    except BlockingIOError:  # not now
        pass
    except OSError:
        return False
    finally:
        visitor.socket.settimeout(visitor.timeout)
    return True


def test_page(server: Serving) -> None:
    """A request gets the page, in pieces as well, as before."""
    request = get()
    with server.visit() as visitor:
        visitor.send_pieces(request, 7)
        visitor.expect_page()


def line_of(size: int) -> str:
    """The path that makes a request line of so many bytes."""
    return "/" + "x" * (size - len("GET / HTTP/1.1"))


def test_long_line(start: Start, dice: random.Random) -> None:
    """A line that is too long gets 414, though its end has not come."""
    longest = dice.randrange(100, 2000)
    server = start("--longest", str(longest))
    with server.visit() as visitor:
        visitor.send_pieces(b"GET /" + b"x" * longest, longest // 3)
        visitor.expect_status(414)


def test_long_line_at_once(start: Start, dice: random.Random) -> None:
    """A line with a byte too much gets 414, though all of it is there."""
    longest = dice.randrange(100, 2000)
    server = start("--longest", str(longest))
    for size, status in ((longest + 1, 414), (longest, 404)):
        with telling(
            f"--longest {longest}",
            f"We sent a request with a first line of {size} bytes",
        ), server.visit(get(line_of(size))) as visitor:
            visitor.expect_status(status)


def test_long_head(server: Serving, dice: random.Random) -> None:
    """A head that is too long gets 431, though its end has not come."""
    head = get()[:-2] + b"X-Long: " + b"y" * MAX_HEAD
    with server.visit() as visitor:
        visitor.send_pieces(head, dice.randrange(2000, 5000))
        visitor.expect_status(431)


def test_long_enough(start: Start, dice: random.Random) -> None:
    """What is long, and not too long, is answered as ever."""
    longest = dice.randrange(1000, 2000)
    server = start("--longest", str(longest))
    with server.visit() as visitor:
        visitor.send_pieces(get(line_of(longest - 20)), 300)
        visitor.expect_status(404)
    field = "y" * (MAX_HEAD - 500 - dice.randrange(500))
    with server.visit() as visitor:
        visitor.send_pieces(get(X_Long=field), 3000)
        visitor.expect_page()


def test_never_ends(server: Serving, dice: random.Random) -> None:
    """A client that never stops gets 414, and is hung up on."""
    letter = dice.choice("abcdef").encode()
    with server.visit(b"GET /") as visitor:
        send_for_ever(visitor, letter * 50_000)
        visitor.expect_status(414)
    server.expect_page()
