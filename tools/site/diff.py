"""What changed from one file to the next."""

import difflib
from dataclasses import dataclass

from tools.site.errors import SiteError
from tools.site.source import idea


@dataclass(frozen=True)
class Diff:
    """A unified diff and how many lines came and went."""

    text: str
    added: int
    removed: int


def changes(old: str, new: str, context: int = 2) -> Diff:
    """The diff of the parts in which two servers differ."""
    lines = list(
        difflib.unified_diff(_own(old), _own(new), n=context, lineterm="")
    )[2:]
    if not lines:
        raise SiteError("the two files do not differ")
    # Line numbers are of the cut parts, not of the files: of no use.
    body = ["\u22ee" if line.startswith("@@") else line for line in lines]
    return Diff(
        "\n".join(body[1:]),
        sum(line.startswith("+") for line in body),
        sum(line.startswith("-") for line in body),
    )


def _own(text: str) -> list[str]:
    """What is this file's own: the idea, and how it starts, at the end."""
    lines = text.splitlines()
    start = 'if __name__ == "__main__":'
    tail = lines[lines.index(start):] if start in lines else []
    return [*idea(text).text.splitlines(), "", *tail]
