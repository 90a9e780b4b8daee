"""The pages of the steps leave no name in an excerpt unexplained."""

import ast
import re
from pathlib import Path

import pytest

from tools.servers import ROOT
from tools.site import source

STEPS = sorted((ROOT / "docs" / "steps").glob("*.md"))
EXCERPT = re.compile(r"(?m)^ *file: (\S+)\n *name: (.+)$")
NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def made(module: ast.Module, beside: set[str]) -> set[str]:
    """What a module gives names to, or takes from the modules beside it."""
    names = {node.name for node in module.body if isinstance(node, NAMED)}
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module in beside:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names |= {
                name.id for name in ast.walk(node)
                if isinstance(name, ast.Name)
                and isinstance(name.ctx, ast.Store)
            }
    return names


def unexplained(file: str, names: str) -> set[str]:
    """Names that an excerpt of a file uses and does not define."""
    text = source.read(file)
    pieces = [source.find(text, name.strip()) for name in names.split(",")]
    shown = ast.parse("\n".join(piece.text for piece in pieces))
    beside = {path.stem for path in source.path(file).parent.glob("*.py")}
    return (made(ast.parse(text), beside) - made(shown, set())) & {
        node.id for node in ast.walk(shown) if isinstance(node, ast.Name)
    }


@pytest.mark.parametrize("page", STEPS, ids=lambda page: page.stem)
def test_every_name_in_an_excerpt_is_explained(page: Path) -> None:
    """On the page of this step or of one before, in the prose."""
    before = "".join(
        re.sub(r"(?ms)^ *```.*?^ *```$", "", each.read_text("utf-8"))
        for each in STEPS if each.stem[:2] <= page.stem[:2]
    )
    told = set(re.findall(r"\w+", " ".join(re.findall("`([^`\n]+)`", before))))
    for excerpt in EXCERPT.findall(page.read_text("utf-8")):
        assert not unexplained(*excerpt) - told, excerpt
