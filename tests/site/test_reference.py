"""The page Troubleshooting names our messages as they are."""

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
HOLE = "\0"  # what a program fills in, in a text that it prints
LETTERS = 7  # a text with fewer is no message to know again


def texts() -> Iterator[str]:
    """Every text in our programs, the first line of each."""
    tops = [*sorted(ROOT.glob("0*")), ROOT / "tools"]
    files = [file for top in tops for file in top.rglob("*.py")]
    files += [ROOT / "tests" / f"{n}.py" for n in ("conftest", "conformance")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr | ast.Constant):
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant)
                    else HOLE for part in getattr(node, "values", [node])
                )  # below without Rich's colours
                yield re.sub(r"\[/?[a-z ]*\]", "", text.partition("\n")[0])
    for name in ("test.sh", "tools/venv.sh"):
        text = (ROOT / name).read_text(encoding="utf-8")
        text = re.sub(r'" \\\n\s*"', " ", text)
        for said in re.findall(r'echo "(.*?)"', text):
            yield re.sub(r"\$\w+", HOLE, said)


def stale(messages: list[str]) -> list[str]:
    """Those that our programs cannot print; ``...`` stands for the rest.

    A message is made of parts with a colon between, and each must be one
    of ours, or one that the system or a library adds.
    """
    parts = {part for text in texts() for part in text.split(": ")}
    printed = re.compile("|".join(
        ".+?".join(map(re.escape, part.split(HOLE)))
        + r"(?: \(--help explains\)|\.)?"
        for part in sorted(parts) if len(re.sub(r"\W", "", part)) >= LETTERS
    ))
    return [
        message for message in messages if not all(
            part in OF_OTHERS or printed.fullmatch(part)
            for part in message.removesuffix("...").strip(": ").split(": ")
        )
    ]


def test_our_own_messages_are_in_the_source() -> None:
    """Those that head the parts of the page."""
    text = (PAGES / "troubleshooting.md").read_text(encoding="utf-8")
    messages = [
        said for part in re.split(r"(?m)^## ", text)
        for heading in re.findall(r"(?m)^### (.*)$", part)
        for said in re.findall(r"`([^`]+)`", heading)
        if part.startswith(OURS) or said.startswith(("No Python", "Python's"))
    ]
    assert len(messages) > 30
    wrong = ["strace is not here at all", "cannot listen on host:1: no idea"]
    assert stale([*({*messages} - NOT_OURS), *wrong]) == wrong
