import py_compile
from pathlib import Path

import pytest

from tools.bench import x_gains
from tools.servers import ROOT, by_name


def test_every_change_still_fits() -> None:
    original = {
        path.name: path.read_text(encoding="utf-8")
        for path in by_name("07").path.parent.glob("*.py")
    }
    with x_gains.copies() as servers:
        assert list(servers) == [idea.name for idea in x_gains.IDEAS]
        for idea in x_gains.IDEAS:
            server = servers[idea.name]
            for name, text in original.items():
                copy = server.path.parent / name
                touched = {change[0] for change in idea.changes}
                same = copy.read_text(encoding="utf-8") == text
                assert same == (name not in touched), (idea.name, name)
                py_compile.compile(str(copy), doraise=True)
    assert not (ROOT / x_gains.COPIES).exists()


def test_a_change_that_does_not_fit(tmp_path: Path) -> None:
    idea = x_gains.Idea("none", (("server.py", "not there", ""),))
    with pytest.raises(ValueError, match="'not there' is 0 times"):
        x_gains.patched(idea, tmp_path)
