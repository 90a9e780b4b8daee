"""The pages of the steps: short, and no name unexplained."""

import ast
import re
from pathlib import Path

import pytest

from tools.servers import ROOT
from tools.site import source

STEPS = sorted((ROOT / "docs" / "steps").glob("*.md"))
WORDS = 1800  # as wc counts them
EXCERPT = re.compile(r"(?m)^ *file: (\S+)\n *name: (.+)$")
NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
each = pytest.mark.parametrize("page", STEPS, ids=lambda page: page.stem)


def prose(page: Path) -> str:
    """A page without its blocks of code and other fences."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text("utf-8"))


@each
def test_a_student_can_finish_it(page: Path) -> None:
    assert len(page.read_text("utf-8").split()) <= WORDS


def unexplained(file: str, names: str) -> set[str]:
    """Names that an excerpt of a file uses and that come from elsewhere.

    That is the rest of the file, or a module beside it.
    """
    text = source.read(file)
    pieces = [source.find(text, name.strip()) for name in names.split(",")]
    shown = ast.parse("\n".join(piece.text for piece in pieces))
    whole = ast.parse(text)
    beside = {path.stem for path in source.path(file).parent.glob("*.py")}
    taken = {
        name.name
        for node in whole.body
        if isinstance(node, ast.ImportFrom) and node.module in beside
        for name in node.names
    }
    return ((made(whole) | taken) - made(shown)) & {
        node.id for node in ast.walk(shown) if isinstance(node, ast.Name)
    }


def made(module: ast.Module) -> set[str]:
    """What the statements of a module give names to, imports left out."""
    return {node.name for node in module.body if isinstance(node, NAMED)} | {
        name.id
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


@each
def test_every_name_in_an_excerpt_is_explained(page: Path) -> None:
    """On the page of this step or of one before, in the prose."""
    before = [p for p in STEPS if p.stem[:2] <= page.stem[:2]]
    spans = re.findall(r"`([^`\n]+)`", "".join(map(prose, before)))
    told = set(re.findall(r"\w+", " ".join(spans)))
    for excerpt in EXCERPT.findall(page.read_text("utf-8")):
        assert not unexplained(*excerpt) - told, excerpt
