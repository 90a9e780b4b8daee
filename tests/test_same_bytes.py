"""What the server files have in common, down to the byte."""

import ast
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.process import running
from tools.servers import ROOT, SERVERS, Server, by_name

BANNER = r"^# === {title}, .* =+$"
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


@pytest.mark.parametrize(("title", "until"), [
    ("HTTP", "^# === Command line"), ("Command line", re.escape(MAIN)),
])
@each_server
def test_same_section(each: Server, title: str, until: str) -> None:
    if each.step == 1 and title == "HTTP":
        pytest.skip("http.server is the point of 01")
    ours = section(SOURCES[each.path], title, until)
    assert ours == section(SOURCES[by_name("02").path], title, until)


@each_server
def test_order(each: Server) -> None:
    """The idea first, then HTTP, the command line, main at the end."""
    source = each.path.read_text()
    tree = ast.parse(source)
    doc = ast.get_docstring(tree) or ""
    assert re.match(f"Step {each.step:02}[:,] ", doc), doc[:40]
    for heading in ("Run it:", "Try this:", "Goes wrong:"):
        assert heading in doc, heading
    banners = re.findall("^# === ([A-Z]\\w+)", source, re.MULTILINE)
    expected = ["HTTP", "Command"] if each.step > 1 else ["Command"]
    assert banners == expected
    assert re.fullmatch(
        r"    main\(.*\)\n", source.rpartition(MAIN)[2]
    ), "main is called at the end"
    assert source.index("def serve(") < source.index("\n# ===")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: (
    f"{path.parent.name}/{path.name}"
))
def test_columns_and_imports(path: Path) -> None:
    source = SOURCES[path]
    for number, line in enumerate(source.splitlines(), 1):
        assert len(line) <= 72, f"{path}:{number} has {len(line)} columns"
    own = {p.stem for p in path.parent.glob("*.py")}
    allowed = set(sys.stdlib_module_names)
    if path.parent.name.startswith("07"):
        allowed |= own
    else:
        assert not own & imports(source), "imports a neighbour"
    assert imports(source) <= allowed, "the standard library only"


def imports(source: str) -> set[str]:
    """The top level modules a source imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            found.add((node.module or "").partition(".")[0])
    return found


@each_server
def test_copied_file_runs(each: Server, tmp_path: Path) -> None:
    """Alone in another folder; of 07, the folder."""
    copy = tmp_path / each.path.name
    if each.step == 7:
        for path in each.path.parent.glob("*.py"):
            shutil.copy(path, tmp_path)
    else:
        shutil.copy(each.path, copy)
    with running(replace(each, file=str(copy))) as process:
        process.assert_serves()
