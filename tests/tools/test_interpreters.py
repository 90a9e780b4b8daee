"""tools.bench.interpreters: what is found, and what cannot be used."""

import dataclasses
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.marks import Patch
from tools.bench import interpreters
from tools.bench.interpreters import Interpreter, InterpreterError, identify
from tools.common.launch import Launched, eventually

THIS = identify(sys.executable)


def make(file: Path, lines: str) -> None:
    """A program of a shell's lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)


def make_python(file: Path, version: str, free: str = "false") -> None:
    """Something that answers like an interpreter of that version."""
    label = version.rpartition(".")[0] + "t" * (free == "true")
    make(file, f"""jit=false
if [ "$PYTHON_JIT" = 1 ] && [ {label} != 3.97 ]; then jit=true; fi
echo '{{"version": "{version}", "label": "{label}", "free": {free}, \
"optimised": false, "jit": '$jit'}}'""")


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


def test_a_script_that_execs_is_an_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "mein Python ü"
    make(script, f'X=1 exec {shlex.quote(sys.executable)} -X utf8 "$@"')
    found = identify(str(script))
    assert found == dataclasses.replace(THIS, program=str(script))
    code = (  # its variables, its words, and what it costs
        "import os, sys, time; assert os.environ['X'] and sys.flags.utf8_mode"
        "\nwhile time.process_time() < 0.3: pass\nprint('.', flush=True)"
        "\ntime.sleep(600)"
    )
    with Launched([found.program, "-c", code]) as process:
        assert eventually(lambda: process.output, 60), process.complaints
        assert process.cpu() >= 0.29  # the kernel counts in hundredths
        assert [each.pid for each in process.processes()] == [process.pid]


def test_a_jit_that_is_off_is_a_variant(tmp_path: Path) -> None:
    wanted = {"3.13": False, "3.14": True, "3.97": False}  # has it none?
    for label, has_jit in wanted.items():
        make_python(tmp_path / label, f"{label}.1")
        python = identify(str(tmp_path / label))
        found = interpreters.with_jit(python, tmp_path)
        assert bool(found) is has_jit, label
        if found:
            assert found.build == "plain build, JIT"
            assert sorted([found, python], key=interpreters.order)[1] == found
            assert interpreters.with_jit(found, tmp_path) is None
            assert python.program != found.program


def test_names_and_builds() -> None:
    pypy = Interpreter("", "pypy3.11", "3.11.13", False)
    assert (pypy.name, pypy.build) == ("pypy3.11", "PyPy")
    free = Interpreter("", "3.14t JIT", "3.14.1", True, jit=True)
    assert free.name == "python3.14t JIT"
    assert free.build == "free-threaded, plain build, JIT"
