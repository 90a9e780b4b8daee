"""The reference pages: nothing is forgotten, and nothing goes stale."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data import raw
from tools.data.results import Results
from tools.servers import ROOT
from tools.site import ab_lines
from tools.site.errors import SiteError

PAGES = ROOT / "docs" / "reference"
DATA = ROOT / "docs" / "data"
LABEL = re.compile(
    r"""^\ *(?:
        (?P<bare>This\ is\ ApacheBench|Copyright|Licensed\ to|Benchmarking
            |Completed|Finished|Connection\ Times|\d+%
            |Percentage\ of\ the\ requests\ served\ within\ a\ certain\ time)
        |(?P<warning>(?:WARNING|ERROR):\ The\ median\ and\ mean\ for\ the)\ .*
        |\((?P<kinds>Connect:.*)\)
        |(?P<colon>[A-Z][\w/ -]*):
        |(?P<columns>min\ +mean\[\+/-sd\]\ median\ +max)
    )""",
    re.VERBOSE,
)
KNOWN_TERMS = """
accept-queue address-family back-pressure backlog blocking body bottleneck
buffer busy-loop c10k callback chunked client closed-load completion
concurrency connection context-switch coordinated-omission coroutine
cpu-bound deadlock delayed-acknowledgement descriptor edge-triggered emfile
ephemeral-port epoll event-loop executor fork framing free-threading future
generator gil graceful-shutdown half-close head header-field heap io-bound
io-multiplexing io_uring iocp keep-alive kernel kqueue latency
level-triggered littles-law listening-socket load-generator lock loopback
median multishot nagles-algorithm non-blocking open-load parallelism parked
percentile pipelining poll pool port pre-fork proactor process
provided-buffer queue race-condition reactor readiness request reset
response ring round-trip so_reuseaddr so_reuseport scheduler select selector
self-pipe-trick signal slow-client socket starvation status-code stream
sweep switch-interval system-call tail-latency task tcp thread throughput
time-out timer-heap time_wait tracing traceback warm-up worker zero-copy
"""
OURS = ("Our servers", "`./bench.sh`", "`./test.sh`", "The site")
NOT_OURS = {
    "Serving on ...",  # that it does not come
    "Aborted with 1 warnings in strict mode!",
    "No module named mkdocs",
    "XPASS(strict)",
    "no tests ran",
}
OF_OTHERS = {  # what stands in a part of ours
    "server.py", "argument --port", "Address already in use",
    "Permission denied", "Cannot assign requested address",
    "Name or service not known", "Cannot allocate memory",
    "Too many open files", "No such file or directory",
    "No space left on device.", "sudo apt-get install -y apache2-utils",
    "400 Bad Request", "408 Request Timeout", "414 URI Too Long",
    "505 HTTP Version Not Supported",
}  # fmt: skip


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


# ab -------------------------------------------------------------------


def labels(text: str) -> Iterator[str]:
    """What stands in front of the numbers in ab's output."""
    for line in text.splitlines():
        match = LABEL.match(line)
        if match is None or line.startswith("$"):
            continue
        if match["kinds"]:
            yield from re.findall(r"(\w+): \d", match["kinds"])
        elif match["columns"]:
            yield from match["columns"].split()
        else:
            yield next(w for w in match.groups() if w)


def test_every_line_of_ab_is_explained() -> None:
    folder = DATA / "reference"
    found = {
        label for name in raw.names(folder)
        for label in labels(raw.read(folder, name))
        if not label.startswith("Process ")  # strace's, not ab's
    }
    assert {"Requests per second", "99%", "Receive", "Waiting"} <= found
    terms = set()
    for block in re.findall(r"(?m)^(`.+)\n:   ", page("ab")):
        terms |= set(re.findall(r"`([^`]+)`", block))
    assert not found - terms


def test_lines_of_ab_are_cut_out(reference: Results, render: Render) -> None:
    text = "$ ab\nHead\n\n Connection Times\n   a\nTotal:  1\nrest"
    assert ab_lines.cut(text, "Connection", "Total:") == (
        " Connection Times\n   a\nTotal:  1"
    )
    with pytest.raises(SiteError, match="no line that begins with 'None'"):
        ab_lines.cut(text, "Head", "None")
    html = render(
        "```ablines\nserver: 06\nsuite: raw-keep\nfrom: This is\n"
        "to: raw-keep\n```"
    )
    assert "This is ApacheBench &amp; Co\nraw-keep" in html


# Troubleshooting ------------------------------------------------------


TESTS = ("conftest", "conformance")  # of the tests, what talks to readers

# What a program fills in, in a text that it prints.
HOLE = "\0"


def templates() -> Iterator[str]:
    """Every text in our programs, the first line of each."""
    tops = [*sorted(ROOT.glob("0*")), ROOT / "tools"]
    files = [f for top in tops for f in sorted(top.rglob("*.py"))]
    files += [ROOT / "tests" / f"{name}.py" for name in TESTS]
    for file in files:
        for text in in_python(file.read_text(encoding="utf-8")):
            # Without Rich's colours.
            yield re.sub(r"\[/?[a-z ]*\]", "", text.partition("\n")[0])
    for name in ("test.sh", "tools/venv.sh"):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r'" \\\n\s*"', " ", text)
        for said in re.findall(r'echo "(.*?)"', text):
            yield re.sub(r"\$\w+", HOLE, said)


def in_python(text: str) -> Iterator[str]:
    """The texts in a file, docstrings left out."""
    tree = ast.parse(text)
    docstrings = {
        id(node.value) for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else HOLE
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def headings(sections: tuple[str, ...]) -> list[str]:
    """The messages that head the parts of these sections."""
    found = []
    for part in re.split(r"(?m)^## ", page("troubleshooting"))[1:]:
        title, _, rest = part.partition("\n")
        if title in sections:
            for line in re.findall(r"(?m)^### (.*)$", rest):
                found += re.findall(r"`([^`]+)`", line)
    return found


def printable(message: str, known: set[str]) -> bool:
    """True if our programs can print this; ``...`` stands for the rest.

    A message is made of parts with a colon between, and each must be one
    of ours, or one that the system or a library adds.
    """
    parts = message.removesuffix("...").strip(": ").split(": ")
    return all(p in OF_OTHERS or is_ours(p, known) for p in parts)


def is_ours(part: str, known: set[str]) -> bool:
    """True if it is a text of our programs, or a part of one."""
    for template in known:
        pieces = template.split(HOLE)
        if all(piece in part for piece in pieces):  # a quick look first
            text = ".+?".join(map(re.escape, pieces))
            if re.fullmatch(rf"{text}(?: \(--help explains\)|\.)?", part):
                return True
    return False


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The parts of all texts with enough letters to know them again."""
    parts = {part for text in templates() for part in text.split(": ")}
    return {part for part in parts if len(re.sub(r"\W", "", part)) > 6}


def test_our_own_messages_are_in_the_source(known: set[str]) -> None:
    setting_up = [
        m for m in headings(("Setting up",))
        if m.startswith(("No Python", "Python's"))
    ]
    assert len(setting_up) == 2
    messages = headings(OURS) + setting_up
    assert len(messages) > 40
    stale = [
        m for m in messages
        if m not in NOT_OURS and not printable(m, known)
    ]
    assert not stale


def test_a_stale_message_is_noticed(known: set[str]) -> None:
    assert printable("strace is not installed", known)
    assert not printable("strace is not here at all", known)
    assert printable("cannot listen on host:1: Permission denied", known)
    assert not printable("cannot hear on host:1: Permission denied", known)
    assert not printable("cannot listen on host:1: no idea", known)
    assert printable("strace could not attach: ...", known)


def test_messages_are_there_once() -> None:
    found = re.findall(r"(?m)^### (.*?)(?: \{.*)?$", page("troubleshooting"))
    twice = {m for m in found if found.count(m) > 1}
    assert len(found) > 80
    assert not twice


# Glossary -------------------------------------------------------------


def glossary() -> list[tuple[str, str, str]]:
    """Terms as they are written, their ids, what is said of them."""
    return re.findall(
        r"(?m)^(\S.*?) \{ #(\S+) \}\n:   ((?:.+\n)+)", page("glossary")
    )


def test_the_glossary_is_complete_and_in_order() -> None:
    found = glossary()
    assert len(found) == len(re.findall(r"(?m)^:   ", page("glossary")))
    ids = [ident for _, ident, _ in found]
    assert len(set(ids)) == len(ids)
    missing = set(KNOWN_TERMS.split()) - set(ids)
    assert not missing
    keys = [
        re.sub(r"[^a-z0-9]+", " ", term.lower().replace("'", ""))
        for term, _, _ in found
    ]
    assert keys == sorted(keys)


def test_each_term_can_be_linked_to_and_leads_to_a_page(site: Path) -> None:
    html = (site / "reference" / "glossary.html").read_text(encoding="utf-8")
    for term, ident, text in glossary():
        assert f'<dt id="{ident}">{term}</dt>' in html
        assert re.search(r"\]\([\w./#-]+\)", text), term
