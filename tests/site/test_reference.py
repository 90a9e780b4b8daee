"""Troubleshooting names our messages as they are; the glossary is in order.
"""

import ast
import re
from collections.abc import Iterator

from tools.servers import ROOT

PAGES = ROOT / "docs" / "reference"
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
# A value that the page makes up, and what a program fills in.
EXAMPLE = re.compile(r"\S*[\d'/]\S*|\S+\.json")
HOLE = r"\S*(?:\{[^{}]*\}|\$\w+)\S*"


# Of the tests, what talks to readers.
TESTS = ("conftest", "conformance")
HOLE = "\0"  # what a program fills in, in a text that it prints


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def templates() -> Iterator[str]:
    """Every text in our programs, the first line of each."""
    tops = [*sorted(ROOT.glob("0*")), ROOT / "tools"]
    files = [f for top in tops for f in sorted(top.rglob("*.py"))]
    files += [ROOT / "tests" / f"{name}.py" for name in TESTS]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = ""
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant)
                    else HOLE for part in node.values
                )
            elif isinstance(node, ast.Constant):
                text = str(node.value)
            # Without Rich's colours.
            yield re.sub(r"\[/?[a-z ]*\]", "", text.partition("\n")[0])
    for name in ("test.sh", "tools/venv.sh"):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r'" \\\n\s*"', " ", text)
        for said in re.findall(r'echo "(.*?)"', text):
            yield re.sub(r"\$\w+", HOLE, said)


def headings() -> list[str]:
    """The messages of ours that head the parts of the page."""
    found = []
    for part in re.split(r"(?m)^## ", page("troubleshooting"))[1:]:
        title, _, rest = part.partition("\n")
        for line in re.findall(r"(?m)^### (.*)$", rest):
            found += [
                said for said in re.findall(r"`([^`]+)`", line)
                if title in OURS or (
                    title == "Setting up"
                    and said.startswith(("No Python", "Python's"))
                )
            ]
    return found


def printable(message: str, known: set[str]) -> bool:
    """True if our programs can print this; ``...`` stands for the rest.

    A message is made of parts with a colon between, and each must be one
    of ours, or one that the system or a library adds.
    """
    parts = message.removesuffix("...").strip(": ").split(": ")
    return all(
        part in OF_OTHERS or any(is_one(part, text) for text in known)
        for part in parts
    )


def is_one(part: str, template: str) -> bool:
    """True if a program prints this part from that text."""
    pieces = template.split(HOLE)
    if not all(piece in part for piece in pieces):  # a quick look first
        return False
    text = ".+?".join(map(re.escape, pieces))
    return bool(re.fullmatch(rf"{text}(?: \(--help explains\)|\.)?", part))


def test_our_own_messages_are_in_the_source() -> None:
    # With enough letters to know them again.
    parts = {part for text in templates() for part in text.split(": ")}
    known = {part for part in parts if len(re.sub(r"\W", "", part)) > 6}
    messages = headings()
    assert len(messages) > 40
    stale = [
        m for m in messages if m not in NOT_OURS and not printable(m, known)
    ]
    assert not stale
    assert not printable("strace is not here at all", known)
    assert not printable("cannot listen on host:1: no idea", known)


def test_the_glossary_is_in_order_and_leads_to_pages() -> None:
    found = re.findall(
        r"(?m)^(\S.*?) \{ #(\S+) \}\n:   ((?:.+\n)+)", page("glossary")
    )
    assert len(found) == len(re.findall(r"(?m)^:   ", page("glossary")))
    keys = [
        re.sub(r"[^a-z0-9]+", " ", term.lower().replace("'", ""))
        for term, _, _ in found
    ]
    assert keys == sorted(keys)
    for term, _, text in found:
        assert re.search(r"\]\([\w./#-]+\)", text), term
