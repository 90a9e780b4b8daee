"""tools.bench.interpreters: what is found, and what cannot be used."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.marks import Patch
from tools.bench import interpreters
from tools.bench.interpreters import Interpreter, InterpreterError, identify

THIS = identify(sys.executable)


def make(file: Path, lines: str) -> None:
    """A program of a shell's lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)


def make_python(file: Path, version: str, free: str = "false") -> None:
    """Something that answers like an interpreter of that version."""
    label = version.rpartition(".")[0] + "t" * (free == "true")
    make(file, f"""echo '{{"program": "{file}", "version": "{version}", \
"label": "{label}", "free": {free}, "optimised": false}}'""")


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A PATH with one folder of ours in front."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    names = ("python2.7", "python3.99t", "python3.99", "python3.98")
    monkeypatch.setattr(interpreters, "NAMES", names)
    return tmp_path


def labels(found: list[Interpreter]) -> list[str]:
    return [python.label for python in found]


def test_this_one_is_found_once() -> None:
    found = interpreters.find()
    assert len(labels(found)) == len(set(labels(found)))
    assert found == sorted(found, key=interpreters.order)
    (this,) = [p for p in found if p.label == THIS.label]
    assert this.program == THIS.program  # before others of its version


def test_path_and_order(alone: Path) -> None:
    make_python(alone / "python3.99", "3.99.1")
    make_python(alone / "python3.99t", "3.99.1", "true")
    make_python(alone / "python2.7", "2.7.18")
    make(alone / "python3.98", "exit 127")  # for what is not there
    found = labels(interpreters.choose(None))
    assert found == ["2.7", THIS.label, "3.99", "3.99t"]
    chosen = interpreters.choose(f"{sys.executable}, python2.7")
    assert labels(chosen) == ["2.7", THIS.label]
    old, new = (  # numbers decide, not words
        Interpreter("", label, f"{label}.1", False)
        for label in ("3.9", "3.10")
    )
    assert sorted([new, old], key=interpreters.order) == [old, new]


@pytest.mark.parametrize(("words", "says"), [
    ("python9.9", "there is no interpreter python9.9"),
    (f"{sys.executable},python9.9", "there is no interpreter python9"),
    (" , ", "--pythons names no interpreter"),
    (shutil.which("cat") or "/bin/cat", "does not work"),
    (shutil.which("echo") or "/bin/echo", "is not a Python interpr"),
    (f"{sys.executable},{sys.executable}", "two of the interpreters"),
])
@pytest.mark.usefixtures("alone")
def test_what_cannot_be_used_is_a_sentence(words: str, says: str) -> None:
    with pytest.raises(InterpreterError, match=says) as caught:
        interpreters.choose(words)
    assert "\n" not in str(caught.value)
