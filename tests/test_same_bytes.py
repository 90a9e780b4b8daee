"""What the server files have in common, down to the byte."""

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

BANNER = r"^# === {title}.*, .* =+$"
MAIN = '\nif __name__ == "__main__":\n'
FILES = sorted(
    {each.path for each in SERVERS} | {*ROOT.glob("07_parallel/*.py")}
)
SOURCES = {path: path.read_text() for path in FILES if path.exists()}
each_server = pytest.mark.parametrize(
    "each", SERVERS, ids=lambda each: f"file-{each.name}"
)


def section(source: str, title: str, until: str) -> str:
    """What stands between a banner and the next thing."""
    begin = re.search(BANNER.format(title=title), source, re.MULTILINE)
    assert begin, f"there is no section {title}"
    end = re.compile(until, re.MULTILINE).search(source, begin.end())
    assert end, f"{title} does not end"
    return source[begin.start():end.start()]


# What a family shares, and its files, the first to compare with.
FAMILIES = {
    "Listener": ("02", "03", "03-pool"),
    "Clients": ("04", "05", "05-heap"),
    "Around": ("06", "06-executor", "06-protocol"),
}
SHARED = {  # section: where it ends, and the step it begins with
    "Connection": ("^# === (HTTP|Clients:)", range(2, 8)),
    "HTTP": ("^# === Command line", range(2, 8)),
    "Command line": (re.escape(MAIN), range(1, 8)),
}
# Lines of the idea: up to the first banner, without docstring, imports.
IDEAS = {
    "02": 75, "03": 75, "03-pool": 75, "04": 110, "05": 125,
    "05-heap": 125, "06": 95, "06-executor": 95, "06-protocol": 104,
}
# Changed lines of the idea, from one server to the next.
STEPS = [
    ("02", "03", 30), ("03", "04", 180), ("04", "05", 65),
    ("04", "05-heap", 45), ("06", "06-executor", 45),
]


def sections(each: Server) -> list[str]:
    """The titles of the sections that a server must have, in order."""
    family = [name for name, of in FAMILIES.items() if each.name in of]
    shared = [name for name, (_, of) in SHARED.items() if each.step in of]
    return [*family, *shared]


@each_server
def test_same_sections(each: Server) -> None:
    source = SOURCES[each.path]
    for title in sections(each):
        model = by_name(FAMILIES.get(title, ("02",))[0])
        until = SHARED[title][0] if title in SHARED else "^# === Conn"
        assert section(source, title, until) == section(
            SOURCES[model.path], title, until
        ), title


def idea(name: str) -> list[str]:
    """The lines of a server's own idea."""
    source = SOURCES[by_name(name).path]
    imports_end = max(
        node.end_lineno or 0 for node in ast.parse(source).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    own = source.partition("\n# ===")[0].splitlines()[imports_end:]
    return "\n".join(own).strip().splitlines()


def difference(before: list[str], after: list[str]) -> list[str]:
    """The lines that are new or gone, but for empty ones."""
    return [
        line for line in difflib.ndiff(before, after)
        if line[0] in "+-" and line[2:].strip()
    ]


@pytest.mark.parametrize("name", IDEAS)
def test_an_idea_is_short(name: str) -> None:
    assert len(idea(name)) <= IDEAS[name]


@pytest.mark.parametrize(("before", "after", "most"), STEPS)
def test_a_step_is_short(before: str, after: str, most: int) -> None:
    changed = difference(idea(before), idea(after))
    assert len(changed) <= most, "\n".join(changed)


@each_server
def test_order(each: Server) -> None:
    """The idea first, then what is shared, main at the end."""
    source = each.path.read_text()
    tree = ast.parse(source)
    doc = ast.get_docstring(tree) or ""
    assert re.match(f"Step {each.step:02}[:,] ", doc), doc[:40]
    for heading in ("Run it:", "Try this:", "Goes wrong:"):
        assert heading in doc, heading
    banners = re.findall("^# === ([A-Z]\\w+)", source, re.MULTILINE)
    expected = [title.split()[0] for title in sections(each)]
    if each.step == 7:  # a client is a connection there
        expected.insert(1, "Clients")
    assert banners == expected
    assert re.fullmatch(
        r"    main\(.*\)\n", source.rpartition(MAIN)[2]
    ), "main is called at the end"
    own = source.partition("\n# ===")[0]
    assert "def serve(" in own or "async def start(" in own


def test_columns() -> None:
    """Of sketches, servers and labs: they are printed and projected."""
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted(ROOT.glob("0*/*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 72
    ]
    assert wide == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: (
    f"{path.parent.name}/{path.name}"
))
def test_imports(path: Path) -> None:
    found = {name.partition(".")[0] for name in imports(path)}
    own = {p.stem for p in path.parent.glob("*.py")}
    allowed = set(sys.stdlib_module_names)
    if path.parent.name.startswith("07"):
        allowed |= own
    else:
        assert not own & found, "imports a neighbour"
    assert found <= allowed, "the standard library only"


@each_server
def test_copied_file_runs(each: Server, tmp_path: Path) -> None:
    """Alone in another folder; of 07, the folder."""
    folder = each.path.parent.glob("*.py")
    for path in folder if each.step == 7 else [each.path]:
        shutil.copy(path, tmp_path)
    copy = tmp_path / each.path.name
    with running(replace(each, file=str(copy))) as process:
        process.assert_serves()
