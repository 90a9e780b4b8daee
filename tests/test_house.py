"""The plan of the house, docs/reference/house.md: who may use whom."""

import ast
import functools
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tools.servers import ROOT

# Room -> the rooms it may import, besides itself. A file of tools that is
# in no room (the list of servers, the rules) may be used by all.
MAY_USE: dict[str, set[str]] = {
    "common": set(),
    "data": {"common"},
    "bench": {"common", "data"},
    # It shows the exercises' tasks, and the sketches step by step.
    "site": {"common", "data", "learn", "steps", "model"},
    "learn": {"common", "data", "steps", "model"},
    "steps": set(),
    "model": {"data"},
    # The labs are beside tools; the bench starts them by name.
    "labs": {"bench", "common", "data"},
}
MODULES = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path
    for folder in ("tools", "labs")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


@functools.cache
def imports(path: Path) -> set[str]:
    """What a file imports, wherever it does so: names with dots."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and node.level == 0, "a relative import"
            found.add(node.module)
            found |= {f"{node.module}.{a.name}" for a in node.names}
    return found


def room(module: str) -> str:
    """The room of a module; "" for a file of tools beside the rooms."""
    parts = module.split(".")
    if parts[0] == "labs":
        return "labs"
    return parts[1] if len(parts) > 2 or parts[1] in MAY_USE else ""


def test_who_uses_whom() -> None:
    wrong = []
    for name, path in MODULES.items():
        used = imports(path)
        wrong += [(name, o) for o in used if o.split(".")[0] == "tests"]
        allowed = {"", room(name), *MAY_USE.get(room(name), MAY_USE)}
        wrong += [
            (name, other) for other in used
            if other in MODULES and room(other) not in allowed
        ]
    assert not wrong


def test_no_circle() -> None:
    graph = {
        name: {o for o in imports(path) if o in MODULES and o != name}
        for name, path in MODULES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_every_room_is_on_the_plan() -> None:
    plan = (ROOT / "docs" / "reference" / "house.md").read_text()
    rooms = {path.name for path in (ROOT / "tools").iterdir()
             if path.is_dir() and any(path.glob("*.py"))}
    assert rooms | {"labs"} == set(MAY_USE)
    for name in rooms:
        assert f"`tools/{name}`" in plan, name
    assert "`labs`" in plan
