"""What the data come from, what is stale, making it again; raw outputs."""

import functools
import importlib.util
import json
import shlex
import subprocess
import sys
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
WRITE = """
import sys, pathlib
for name in sys.argv[2:]:
    pathlib.Path(name).write_text(sys.argv[1])
"""
# Writes half of what it should, and fails.
FAIL = "import pathlib; pathlib.Path('a.json').write_text('half'); 1 / 0"
INTERRUPTED = "import os, signal; os.kill(os.getppid(), signal.SIGINT)"
IN_ANOTHER = """
import sys
from pathlib import Path
from tests.tools.test_data import entries, python
from tools.data.__main__ import main
program, root = sys.argv[1:]
sys.exit(main(["--renew"], entries(python(program)), Path(root)))
"""

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


def python(program: str, *words: str) -> str:
    return shlex.join(["python", "-c", program, *words])


def entries(command: str = "") -> list[Made]:
    picture = python(WRITE, "new", "picture.svg")
    command = command or python(WRITE, "new", "a.json")
    return [
        Made("a", "a.json", command, ("server.py",)),
        Made("picture", "*.svg", picture, ("a.json",)),
    ]


def test_stale_is_what_measured_something_else(
    git: Git, tmp_path: Path, capsys: Said
) -> None:
    def shown() -> str:
        assert data.main([], entries(), tmp_path) == 0
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


def test_renews_what_is_stale_and_what_is_made_from_it(
    git: Git, tmp_path: Path, capsys: Said
) -> None:
    made = entries()
    files = [tmp_path / "a.json", tmp_path / "picture.svg"]
    assert data.main(["--renew"], made, tmp_path) == 0
    assert capsys.readouterr().out == ""  # nothing is stale
    (tmp_path / "server.py").write_text("pass")
    before = [file.read_text() for file in files]
    assert data.main(["--renew", "--dry-run"], made, tmp_path) == 0
    said = capsys.readouterr().out
    assert said.index("1 of 2 a") < said.index("2 of 2 picture")
    assert [file.read_text() for file in files] == before
    assert data.main(["--renew", "picture"], made, tmp_path) == 0
    assert [file.read_text() for file in files] == [before[0], "new"]
    files[1].write_text("old")
    assert data.main(["--renew"], made, tmp_path) == 0
    assert [file.read_text() for file in files] == ["new", "new"]
    for words, root, sentence in (
        (["--renew", "b"], tmp_path, "there is no 'b'"),
        ([], Path("/"), "this needs git"),
    ):
        with pytest.raises(SystemExit) as end:
            data.main(words, made, root)
        assert end.value.code == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [(FAIL, 1, "Failed, and as before: a"), (INTERRUPTED, 130, "as it was")],
)
def test_what_fails_leaves_the_file(
    git: Git, tmp_path: Path, capsys: Said,
    program: str, status: int, words: str,
) -> None:
    (tmp_path / "server.py").write_text("pass")
    before = (tmp_path / "a.json").read_text()
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER, program, tmp_path], cwd=ROOT,
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == status, done.stderr
    assert words in done.stdout
    assert (tmp_path / "a.json").read_text() == before
    # What comes after one that failed is made all the same.
    new = (tmp_path / "picture.svg").read_text() == "new"
    assert new == (status == 1)


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
