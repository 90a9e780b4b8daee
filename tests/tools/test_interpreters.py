"""tools.bench.interpreters: what is found, and what cannot be used."""

import shutil
import sys
from pathlib import Path

import pytest

from tools.bench import interpreters
from tools.bench.interpreters import (
    Interpreter,
    InterpreterError,
    identify,
)
from tools.servers import ROOT

THIS = identify(sys.executable)
ANSWER = """\
#!/bin/sh
echo '{{"program": "{0}", "version": "{1}", "minor": "{2}", \
"free": {3}, "optimised": false}}'
"""


def make(file: Path, version: str, free: bool = False) -> None:
    """Something that answers like an interpreter of that version."""
    minor = ".".join(version.split(".")[:2])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        ANSWER.format(file, version, minor, "true" if free else "false")
    )
    file.chmod(0o755)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with one folder of ours, and no pyenv."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(interpreters, "NAMES", ("python2.7", "python3.99t",
                                                "python3.99"))
    return tmp_path


def labels(found: list[Interpreter]) -> list[str]:
    return [python.label for python in found]


def test_names_reach_from_2_7_to_the_newest() -> None:
    assert {"python2.7", "python3.8", "python3.15", "python3.13t",
            "python3.15t"} <= set(interpreters.NAMES)
    assert "python3.12t" not in interpreters.NAMES  # there is none


def test_this_one_is_found_once() -> None:
    found = interpreters.find()
    assert labels(found).count(THIS.label) == 1
    assert len(labels(found)) == len(set(labels(found)))
    assert found == sorted(found, key=interpreters.order)
    this = next(p for p in found if p.label == THIS.label)
    assert this.program == THIS.program  # before others of its version


def test_path_and_order(alone: Path) -> None:
    make(alone / "python3.99", "3.99.1")
    make(alone / "python3.99t", "3.99.1", free=True)
    make(alone / "python2.7", "2.7.18")
    found = labels(interpreters.find())
    assert found == ["2.7", THIS.label, "3.99", "3.99t"]


def test_numbers_not_words_decide_the_order() -> None:
    old, new = (
        Interpreter("", label, f"{label}.1", False)
        for label in ("3.9", "3.10")
    )
    assert sorted([new, old], key=interpreters.order) == [old, new]


def test_pyenv_is_asked_where_it_is(alone: Path) -> None:
    root = alone / "somewhere"
    for version in ("2.7.18", "3.99.0", "3.99.5", "3.6.1"):
        make(root / "versions" / version / "bin" / "python", version)
    pyenv = alone / "pyenv"
    pyenv.write_text(f"#!/bin/sh\n[ $1 = root ] && echo {root}\n")
    pyenv.chmod(0o755)
    found = interpreters.find()
    # One of each minor version, and none that the labs do not read.
    assert labels(found) == ["2.7", THIS.label, "3.99"]
    # A name finds it, though the PATH has no such command.
    assert labels(interpreters.choose("python2.7")) == ["2.7"]


def test_a_command_for_what_is_not_there_is_passed_over(
    alone: Path
) -> None:
    shim = alone / "python3.99"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    pyenv = alone / "pyenv"
    pyenv.write_text("#!/bin/sh\nexit 1\n")
    pyenv.chmod(0o755)
    assert labels(interpreters.find()) == [THIS.label]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("python9.9", "there is no interpreter python9.9"),
        (f"{sys.executable},python9.9", "there is no interpreter python9"),
        (" , ", "--pythons names no interpreter"),
        (shutil.which("cat") or "/bin/cat", "does not work"),
        (shutil.which("echo") or "/bin/echo", "is not a Python interpr"),
        (f"{sys.executable},{sys.executable}", "two of the interpreters"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(words: str, says: str) -> None:
    with pytest.raises(InterpreterError, match=says) as caught:
        interpreters.choose(words)
    assert "\n" not in str(caught.value)


def test_chosen_ones_alone(alone: Path) -> None:
    make(alone / "python2.7", "2.7.18")
    found = interpreters.choose(f"{sys.executable}, python2.7")
    assert labels(found) == ["2.7", THIS.label]
    assert labels(interpreters.choose(None)) == ["2.7", THIS.label]


def test_no_folder_of_a_version_manager_is_written_down() -> None:
    text = (ROOT / "tools" / "bench" / "interpreters.py").read_text()
    assert "/." not in text and "~" not in text
