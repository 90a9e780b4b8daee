"""What the data come from, what is stale; results files, raw outputs."""

import functools
import importlib.util
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.marks import Said
from tools.common.files import DataError
from tools.data import __main__ as data
from tools.data import raw, results
from tools.data.made import Made, everything
from tools.servers import ROOT

SOURCE = '"""Words."""\n\n\ndef serve():\n    """Words."""\n    return 1\n'
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """A repository with a server that was measured, and a picture."""

    run = functools.partial(data.git, tmp_path)
    run("init", "-q")
    run("config", "user.name", "n")
    run("config", "user.email", "e")
    (tmp_path / "server.py").write_text(SOURCE)
    (tmp_path / "picture.svg").write_text("old")
    run("add", ".")
    run("commit", "-qm", "server")
    said = {"commit": run("rev-parse", "--short=12", "HEAD").strip()}
    (tmp_path / "a.json").write_text(
        json.dumps({**said, "started": "2026-01-02T03:04:05", "machine": {
            "cpu": "A CPU", "cores": 2, "python": "CPython"}})
    )
    return run


ENTRIES = [
    Made("a", "a.json", "./bench.sh a", ("server.py",)),
    Made("picture", "*.svg", "python -m picture"),
]


def test_stale_is_what_measured_something_else(
    git: Git, tmp_path: Path, capsys: Said
) -> None:
    def shown() -> str:
        assert data.main([], ENTRIES, tmp_path) == 0
        return " ".join(capsys.readouterr().out.split())

    server = tmp_path / "server.py"
    said = shown()
    assert "stale" not in said
    for words in ("2026-01-02", "A CPU, 2 cores", "a test compares it",
                  git("rev-parse", "--short=12", "HEAD").strip()):
        assert words in said
    server.write_text("# " + SOURCE.replace("Words", "Other") + "# end\n")
    assert "stale" not in shown()  # a comment and docstrings
    server.write_text(SOURCE.replace("return 1", "return 2"))
    assert "stale: changed: server.py" in shown()
    server.unlink()
    assert "stale: changed: server.py" in shown()
    server.write_text(SOURCE)
    (tmp_path / "a.json").write_text('{"commit": "abc+", "started": ""}')
    assert "its commit is not in this repository" in shown()
    (tmp_path / "a.json").unlink()
    assert "it is not there" in shown()


def test_outside_git_it_says_so(capsys: Said) -> None:
    with pytest.raises(SystemExit) as end:
        data.main([], ENTRIES, Path("/"))
    assert end.value.code == 2
    assert "this needs git" in capsys.readouterr().err


def test_every_file_of_the_data_is_made_by_one_command() -> None:
    made = list(everything())
    names = [each.name for each in made]
    assert len({*names}) == len(names)
    found = [file for each in made for file in each.there(ROOT)]
    assert len({*found}) == len(found)
    there = {f for f in (ROOT / "docs" / "data").rglob("*") if f.is_file()}
    assert there <= {*found}
    for each in made:
        assert each.there(ROOT), each.name
        words = shlex.split(each.command)
        if words[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(words[2])
        for path in each.measured:
            path = path.removeprefix(":(glob)").removeprefix(":!")
            assert list(ROOT.glob(path)), path


def test_raw_outputs_are_packed_when_a_run_is_complete(tmp_path: Path) -> None:
    raw.append(tmp_path, "07", "one\n")
    raw.append(tmp_path, "07", "two é\n")
    raw.append(tmp_path, "02", "three\n")

    def all_of_them() -> dict[str, str]:
        return {n: raw.read(tmp_path, n) for n in raw.names(tmp_path)}

    texts = all_of_them()
    assert texts == {"02": "three\n", "07": "one\ntwo é\n"}
    machine = results.Machine("", 1, 1, "", "", 1)
    run = results.Results("", "", "", "", machine, {})
    run.save(tmp_path)  # under way
    assert not (tmp_path / raw.PACKED).exists()
    run.complete = True
    run.save(tmp_path)
    packed = (tmp_path / raw.PACKED).read_bytes()
    assert not (tmp_path / raw.LOOSE).exists() and all_of_them() == texts
    for name, text in reversed(texts.items()):  # the same bytes again
        raw.append(tmp_path / "again", name, text)
    raw.pack(tmp_path / "again")
    assert (tmp_path / "again" / raw.PACKED).read_bytes() == packed
    with pytest.raises(DataError, match="has no raw output '03'"):
        raw.read(tmp_path, "03")
    (tmp_path / raw.PACKED).write_bytes(b"no zip")
    with pytest.raises(DataError, match="cannot be read"):
        raw.names(tmp_path)


@pytest.mark.parametrize(("place", "name"), [
    (lambda data: data, "who"), (lambda data: data["machine"], "host"),
    (lambda data: data["points"][0], "speed"),
    (lambda data: data["points"][0]["runs"][0], "p50"),
])
def test_an_unknown_field_is_an_error(
    place: Callable[[Any], dict[str, Any]], name: str, tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    data = json.loads((results.DATA / "scale" / file.name).read_text())
    file.write_text(json.dumps(data))
    assert results.load(file).points
    place(data)[name] = 1
    file.write_text(json.dumps(data))
    with pytest.raises(DataError, match=f"the unknown field '{name}'"):
        results.load(file)
