"""Pieces of real source files, found by name, never by line number."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from tools.servers import ROOT, SERVERS
from tools.site.errors import SiteError

# The lines between which every server is the same: "# === HTTP, ... ===".
BANNER = re.compile(r"^# ={3,} (?P<title>.*?) =+$")
HTTP = "HTTP, the same in every step"
COMMAND_LINE = "Command line, the same in every step"


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
    for server in SERVERS:
        if server.name == file:
            file = server.file
    found = (ROOT / file).resolve()
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
    tree = ast.parse(text)
    if name == "docstring":
        return _docstring(text, tree)
    body: list[ast.stmt] = tree.body
    node: ast.stmt | None = None
    for part in name.split("."):
        node = next((n for n in body if part in _names(n)), None)
        if node is None:
            raise SiteError(f"there is no {name!r} in it")
        body = getattr(node, "body", [])
    assert node is not None and node.end_lineno is not None
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    lines = text.splitlines()
    indent = node.col_offset
    above = re.compile(rf"^ {{{indent}}}#(?! =)")
    while first > 1 and above.match(lines[first - 2]):
        first -= 1
    piece = cut(lines, first, node.end_lineno)
    if not indent:
        return piece
    cleared = [line[indent:] for line in piece.text.splitlines()]
    return Piece(piece.first, piece.last, "\n".join(cleared))


def section(text: str, title: str) -> Piece:
    """What stands under a banner ``# === title ===``, banner included."""
    lines = text.splitlines()
    banners = _banners(lines)
    for at, (number, name) in enumerate(banners):
        if name.startswith(title):
            end = (
                banners[at + 1][0] - 1
                if at + 1 < len(banners)
                else len(lines)
            )
            return cut(lines, number, end)
    titles = ", ".join(repr(name) for _, name in banners) or "none"
    raise SiteError(f"no banner begins with {title!r}; there are {titles}")


def idea(text: str) -> Piece:
    """The part in which the steps differ: all above the shared sections.

    The docstring at the top is left out.
    """
    lines = text.splitlines()
    shared = (HTTP, COMMAND_LINE)
    ends = [n for n, name in _banners(lines) if name in shared]
    last = min(ends) - 1 if ends else len(lines)
    tree = ast.parse(text)
    first = 1
    if ast.get_docstring(tree) is not None:
        first = (tree.body[0].end_lineno or 0) + 1
    return cut(lines, first, last)


def _banners(lines: list[str]) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(lines, 1):
        match = BANNER.match(line)
        if match:
            found.append((number, match["title"]))
    return found


def _names(node: ast.stmt) -> list[str]:
    match node:
        case (
            ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
        ):
            return [name]
        case ast.Assign(targets=targets):
            return [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _docstring(text: str, tree: ast.Module) -> Piece:
    if ast.get_docstring(tree) is None:
        raise SiteError("it has no docstring")
    node = tree.body[0]
    assert node.end_lineno is not None
    return cut(text.splitlines(), node.lineno, node.end_lineno)
