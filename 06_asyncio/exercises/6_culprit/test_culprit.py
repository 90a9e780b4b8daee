"""06.6: which function stopped everybody, and whether it still does.

The test plays the backup: it locks the file of visits as long as it needs.
"""

import contextlib
import fcntl
import hashlib
import random
import re
from collections.abc import Iterator
from typing import IO, Any

from tools.learn.student import (
    Program,
    Serving,
    Visitor,
    Wrong,
    eventually,
    get,
    together,
)

CULPRIT = "count_visit"
NOT_IT = {
    "write_log": "it runs in a thread, and the loop goes on meanwhile",
    "look_up": "it awaits, and the loop goes on meanwhile",
    "find": "it takes a moment, but always the same: look while all wait",
    "scramble": "it takes a moment, but always the same: look while all wait",
    "work": "it has called the culprit, and waits for it like all others",
    "handle_client": "it has called work, and waits for it like all others",
}
WAITING = 40  # clients: asyncio has at most 32 threads by itself


def expect_result(visitor: Visitor, result: str) -> None:
    """The page with this field Result. Raises Wrong."""
    found = visitor.expect_page().get("Result")
    if found != result:
        came = f"it was {found!r}" if found else "there was none"
        raise Wrong(f"a field 'Result: {result}'", came)


def count(server: Serving) -> int:
    """The number of a visit, counted for a client of its own."""
    with server.visit(get("/?visit", close=True)) as visitor:
        text = visitor.expect_page().get("Result")
        if not text.isdecimal():
            raise Wrong("the number of the visit as Result", repr(text))
        return int(text)


def ask(server: Serving, query: str, result: str) -> None:
    """A client of its own asks, and gets this result. Raises Wrong."""
    with server.visit(get(f"/?{query}", close=True)) as visitor:
        expect_result(visitor, result)


@contextlib.contextmanager
def backup(program: Program) -> Iterator[None]:
    """Lock the file of visits meanwhile."""
    with program.opened("visits.txt") as file:
        if not eventually(lambda: locked(file)):
            raise Wrong(
                "that visits.txt is free between two visits",
                "the server keeps it locked",
            )
        yield


def locked(file: IO[bytes]) -> bool:
    """Is it ours now?"""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def expect_others(server: Serving, why: str) -> None:
    """Who does not need the file is answered. Raises Wrong."""
    try:
        ask(server, "find=7", "252")
        ask(server, "login=tea", scrambled("tea"))
    except Wrong as error:
        if "nothing came" not in error.came:
            raise
        raise Wrong(
            "that only visits have to wait for the file",
            f"{error.came} for another client: {why}",
        ) from None


def scrambled(password: str) -> str:
    """What the answer to a login says."""
    word = password.encode()
    return hashlib.pbkdf2_hmac("sha1", word, b"salt", 5000).hex()


def test_as_before(program: Program, dice: random.Random) -> None:
    """Every kind of request gets the same result as before."""
    server = program.start("--delay", "0")
    word = "".join(dice.choices("abcdefgh", k=8))
    ask(server, f"login={word}", scrambled(word))
    ask(server, "find=99", "9")
    first = count(server)
    for number in range(1, dice.randrange(4, 7)):
        ask(server, "visit", str(first + number))


def test_culprit(values: dict[str, Any]) -> None:
    """CULPRIT: the function in which the loop stands still."""
    found = values.get("CULPRIT")
    wanted = "for CULPRIT the name of the function that stops everybody"
    if not isinstance(found, str):
        raise Wrong(wanted, f"it is {found!r}")
    name = found.strip().removesuffix("()")
    if name != CULPRIT:
        why = NOT_IT.get(name, "no such function is on the stack")
        raise Wrong(wanted, f"it is not {name!r}: {why}")


def test_evidence(values: dict[str, Any]) -> None:
    """EVIDENCE: a line with the function, the file and the line number."""
    found = values.get("EVIDENCE")
    wanted = (
        "for EVIDENCE one line of a tool's output, with the name of the "
        "culprit, server.py and the number of the line"
    )
    if not isinstance(found, str):
        raise Wrong(wanted, f"it is {found!r}")
    if "Executing" in found:
        raise Wrong(
            wanted, "this one says that the loop stood still and how long, "
            "but not in which function",
        )
    if CULPRIT not in found or not re.search(r"server\.py.*\d", found):
        raise Wrong(wanted, "one of them is missing")


def test_others_go_on(program: Program) -> None:
    """While a visit waits for the locked file, all others are answered."""
    server = program.start("--delay", "0")
    first = count(server)
    with server.visit() as visitor:
        with backup(program):
            visitor.story.append("(we locked visits.txt, as a backup does)")
            visitor.send(get("/?visit"))
            server.falls_asleep()
            expect_others(server, "does the loop stand still?")
            try:
                visitor.expect_quiet(0.2)
            except Wrong as error:
                raise Wrong(
                    "that client 2 waits while visits.txt is locked",
                    error.came,
                ) from None
            visitor.story.append("(we unlocked visits.txt)")
        expect_result(visitor, str(first + 1))


def test_many_wait(program: Program) -> None:
    """However many visits wait for the file, all others are answered."""
    server = program.start("--delay", "0")
    first = count(server)
    with together([server.visit() for _ in range(WAITING)]) as visitors:
        with backup(program):
            for visitor in visitors:
                visitor.send(get("/?visit"))
                visitor.story = [
                    f"one of {WAITING} that asked for /?visit while we kept "
                    "visits.txt locked"
                ]
            server.falls_asleep()
            expect_others(
                server, "does the loop stand still, or do all of asyncio's "
                "threads wait for the file?",
            )
        found = [v.expect_page().get("Result") for v in visitors]
    if set(found) != {str(first + n) for n in range(1, WAITING + 1)}:
        raise Wrong(
            f"the {WAITING} numbers after {first}, each once",
            "some came twice or not at all",
        )
