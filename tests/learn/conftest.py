"""A student's desk. Exercises are judged by what their processes do."""

import io
import sys
from pathlib import Path

import psutil
import pytest

from tests.marks import Patch, Said
from tools.common.launch import check_seen
from tools.learn import desk as learn_desk
from tools.learn import exercises
from tools.learn.__main__ import main
from tools.learn.examine import MARK, processes

FIRST = exercises.by_id("02.1")


@pytest.fixture(autouse=True)
def processes_are_seen() -> None:
    check_seen()


class Desk:
    """A student's desk in a folder of its own."""

    def __init__(self, my: Path, patch: Patch, capture: Said) -> None:
        self.my = my
        self.file = my / FIRST.id / FIRST.file
        self.patch, self.capture = patch, capture

    def run(self, *words: str, status: int = 0, typed: str = "") -> str:
        """./learn.sh with these words; what it said."""
        self.patch.setattr(sys, "stdin", io.StringIO(typed))
        done = main(words)
        said = "".join(self.capture.readouterr())
        assert done == status, said
        return said

    def check(self, text: str | bytes, status: int = 1) -> str:
        """What is said of this file; nothing that it started is left."""
        data = text.encode() if isinstance(text, str) else text
        self.file.write_bytes(data)
        said = self.run("check", "02.1", status=status)
        assert not processes(self.has_started)
        return said

    def has_started(self, process: psutil.Process) -> bool:
        """Is it of an examination at this desk?"""
        known = process.environ()
        return MARK in known and known.get("SEVEN_TEST") == str(self.my)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: Patch, capsys: Said) -> Desk:
    """Nothing is begun."""
    my = tmp_path / "my"
    monkeypatch.setattr(learn_desk, "MY", my)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("SEVEN_TEST", str(my))
    return Desk(my, monkeypatch, capsys)
