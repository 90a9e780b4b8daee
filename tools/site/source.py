"""Pieces of source files, found by name, and what changed between two.

Fence ``source``: ``file`` and either ``name`` (of functions and classes,
comma between) or ``whole: yes``. Fence ``stepdiff``: ``from``, ``to`` and
perhaps ``context``, how many equal lines stand around. A file is named by
its path (``02_sockets/web.py``), a server's also by the server's name.
"""

import ast
import difflib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from tools.servers import ROOT, SERVERS
from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import code, fence


@dataclass(frozen=True)
class Piece:
    """Some lines of a file; first and last are numbers from 1."""

    first: int
    last: int
    text: str


def read(file: str) -> str:
    """The text of a file of the repository, or of a server by its name."""
    return path(file).read_text(encoding="utf-8")


def path(file: str) -> Path:
    """The path of a file, by its path from the root or a server's name."""
    files = {server.name: server.file for server in SERVERS}
    found = (ROOT / files.get(file, file)).resolve()
    if not found.is_relative_to(ROOT):
        raise SiteError(f"{file} is not in this repository")
    if not found.is_file():
        raise SiteError(f"there is no file {file}")
    return found


def label(file: str) -> str:
    """The path as the pages write it: from the root, with slashes."""
    return path(file).relative_to(ROOT).as_posix()


def cut(lines: list[str], first: int, last: int) -> Piece:
    """Lines first to last without empty ones at either end."""
    while first < last and not lines[first - 1].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return Piece(first, last, "\n".join(lines[first - 1:last]))


def find(text: str, name: str) -> Piece:
    """A function, class, ``Class.method`` or constant with its comment.

    The comment is what stands directly above, without an empty line
    between. ``docstring`` is the text at the top of the file.
    """
    lines = text.splitlines()
    body = ast.parse(text).body
    if name == "docstring":
        return cut(lines, body[0].lineno, body[0].end_lineno or 0)
    for part in name.split("."):
        found = [node for node in body if part in _names(node)]
        if not found:
            raise SiteError(f"there is no {name!r} in it")
        node = found[0]
        body = getattr(node, "body", [])
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    above = re.compile(rf"^ {{{node.col_offset}}}#")
    while first > 1 and above.match(lines[first - 2]):
        first -= 1
    piece = cut(lines, first, node.end_lineno or 0)
    return Piece(piece.first, piece.last, dedent(piece.text))


def _names(node: ast.stmt) -> list[str]:
    """What a statement gives a name to."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=[ast.Tuple(elts=targets)] | targets):
            return [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _source(chosen: dict[str, str], md: Any) -> str:
    """Pieces of one file as one block of code."""
    content = read(chosen["file"])
    match [(key, value) for key, value in chosen.items() if key != "file"]:
        case [("name", names)]:
            found = [find(content, n.strip()) for n in names.split(",")]
        case [("whole", "yes")]:
            found = [cut(content.splitlines(), 1, content.count("\n"))]
        case _:
            raise SiteError("give one of name and whole")
    shown, numbers = _join(found)
    runs = [list(n) for there, n in itertools.groupby(numbers, bool) if there]
    words = ", ".join(
        f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}"
        for run in runs
    )
    file = label(chosen["file"])
    title = f"{file}, {'line' if words.isdigit() else 'lines'} {words}"
    return code(md, shown, "python", title, file, numbers)


def _join(found: list[Piece]) -> tuple[str, list[int | None]]:
    """Pieces as one text, and of each line its number in the file.

    Neighbours stand as in the file, others two lines apart.
    """
    lines = found[0].text.split("\n")
    numbers: list[int | None] = [*range(found[0].first, found[0].last + 1)]
    for last, piece in itertools.pairwise(found):
        gap = piece.first - last.last - 1
        space = gap if gap in (0, 1) else 2
        lines += [*[""] * space, *piece.text.split("\n")]
        numbers += [*[None] * space, *range(piece.first, piece.last + 1)]
    return "\n".join(lines), numbers


def _stepdiff(chosen: dict[str, str], md: Any) -> str:
    """What changed between two files, all of it, without line numbers."""
    old, new = chosen["from"], chosen["to"]
    context = options.whole(chosen, "context")
    lines = list(difflib.unified_diff(
        read(old).splitlines(), read(new).splitlines(), lineterm="",
        n=2 if context is None else context,
    ))[3:]
    if not lines:
        raise SiteError("the two files do not differ")
    body = ["\u22ee" if line.startswith("@@") else line for line in lines]
    added, removed = (
        sum(line.startswith(sign) for line in body) for sign in "+-"
    )
    title = f"{label(old)} → {label(new)}: {added} lines in, {removed} out"
    return code(md, "\n".join(body), "diff", title)


source = fence(_source, "file", "name whole")
stepdiff = fence(_stepdiff, "from to", "context")
