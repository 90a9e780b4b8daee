"""A server's folder: what it shares to the byte, and how short the rest is."""

import ast
import difflib
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.process import running
from tests.test_house import imports
from tools.servers import ROOT, SERVERS, Server, by_name

MAIN = '\nif __name__ == "__main__":\n'
FILES = sorted(ROOT.glob("0*/*.py"))
# A module that several folders share, and its home.
SHARED = {
    "web.py": "02_sockets", "accepting.py": "02_sockets",
    "clients.py": "04_selectors",
}
# The most lines of a whole server, docstring and imports included.
LENGTHS = {
    "02": 84, "03": 98, "03-pool": 116, "04": 90, "05": 111,
    "05-threads": 121, "06": 94, "06-executor": 118, "06-protocol": 151,
    "06-coroutines": 265, "07": 270,
}
# The most changed lines from one server to the next, docstrings included.
STEPS = [
    ("02", "03", 49), ("03", "04", 120), ("04", "05", 67),
    ("03", "06", 133), ("05", "06", 150), ("06", "06-executor", 45),
]
each_server = pytest.mark.parametrize(
    "each", SERVERS, ids=lambda each: f"file-{each.name}"
)


@pytest.mark.parametrize("copy", [
    path.relative_to(ROOT).as_posix()
    for name in SHARED for path in sorted(ROOT.glob(f"0*/{name}"))
])
def test_same_bytes(copy: str) -> None:
    name = Path(copy).name
    original = f"{SHARED[name]}/{name}"
    same = (ROOT / copy).read_bytes() == (ROOT / original).read_bytes()
    assert same, f"cp {original} {copy}"


def difference(before: list[str], after: list[str]) -> list[str]:
    """The lines that are new or gone, but for empty ones."""
    return [
        line for line in difflib.ndiff(before, after)
        if line[0] in "+-" and line[2:].strip()
    ]


def lines(name: str) -> list[str]:
    return by_name(name).path.read_text().splitlines()


@pytest.mark.parametrize("name", LENGTHS)
def test_a_server_is_short(name: str) -> None:
    assert len(lines(name)) <= LENGTHS[name]


@pytest.mark.parametrize(("before", "after", "most"), STEPS)
def test_a_step_is_short(before: str, after: str, most: int) -> None:
    changed = difference(lines(before), lines(after))
    assert len(changed) <= most, "\n".join(changed)


@each_server
def test_order(each: Server) -> None:
    """The idea first, main at the end."""
    source = each.path.read_text()
    doc = ast.get_docstring(ast.parse(source)) or ""
    assert re.match(f"Step {each.step:02}[:,] ", doc), doc[:40]
    for heading in ("Run it:", "Try this:", "What breaks:"):
        assert heading in doc, heading
    assert re.fullmatch(
        r"    main\(.*\)\n", source.rpartition(MAIN)[2]
    ), "main is called at the end"
    assert "def serve(" in source


def test_columns() -> None:
    """Of sketches and servers: they are printed and projected."""
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 72
    ]
    assert wide == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: (
    f"{path.parent.name}/{path.name}"
))
def test_imports(path: Path) -> None:
    found = {name.partition(".")[0] for name in imports(path)}
    own = {p.stem for p in path.parent.glob("*.py")}
    assert found <= own | set(sys.stdlib_module_names)


@each_server
def test_copied_folder_runs(each: Server, tmp_path: Path) -> None:
    for path in each.path.parent.glob("*.py"):
        shutil.copy(path, tmp_path)
    copy = tmp_path / each.path.name
    with running(replace(each, file=str(copy))) as process:
        process.assert_serves()
