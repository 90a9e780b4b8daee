"""tools.bench.x_labs: which labs run, and where their figures go."""

import argparse
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tools.bench import x_labs as x
from tools.data.results import Machine, Point, Results, Run, load
from tools.servers import ROOT

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """``./bench.sh`` with the interpreter that runs the tests."""
    return subprocess.run(
        [sys.executable, "-m", "tools.bench", *words], cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "COLUMNS": "100"}, stdin=subprocess.DEVNULL,
    )


def empty() -> Results:
    return Results(
        "./bench.sh labs one two --repeats 2", "labs",
        "2026-01-01T00:00:00+00:00", "", MACHINE, {},
    )


class Lab:
    """A lab that measures one point, or ends in another way."""

    ABOUT = "a lab"

    def __init__(self, name: str) -> None:
        self.name = name
        self.status = 0
        self.error: BaseException | None = None
        self.measures = True

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(f"--{self.name}-size", type=int, default=1)

    def run(
        self, options: argparse.Namespace, results: Results, folder: Path,
        console: Console,
    ) -> int:
        if self.measures:
            point = Point(self.name, f"labs-{self.name}", 1, 0.0)
            point.runs.append(Run("command", extra={"size": 1.0}))
            results.points.append(point)
            results.save(folder)
        if self.error:
            raise self.error
        return self.status


@pytest.fixture
def labs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Lab]:
    made = {name: Lab(name) for name in ("one", "three", "two")}
    monkeypatch.setattr(x, "names", lambda: list(made))
    monkeypatch.setattr(x, "module", made.__getitem__)
    monkeypatch.setattr(x, "DATA", tmp_path / "data")
    (tmp_path / "data").mkdir()
    return made


@pytest.fixture
def run(
    tmp_path: Path, labs: dict[str, Lab]
) -> Callable[..., tuple[int, str]]:
    """Run labs into the folder "out"; the status and what was printed."""

    def call(*names: str, **more: Any) -> tuple[int, str]:
        said = io.StringIO()
        options = SimpleNamespace(
            labs=list(names), output=None, reference=False
        )
        options.__dict__.update(more)
        status = x.run(
            options, empty(), tmp_path / "out",  # type: ignore[arg-type]
            Console(file=said, width=200),
        )
        return status, said.getvalue()

    return call


Call = Callable[..., tuple[int, str]]


def test_one_lab_has_the_folder(run: Call, tmp_path: Path) -> None:
    status, said = run("one")
    assert status == 0 and str(tmp_path / "out") in said
    found = load(tmp_path / "out")
    assert found.mode == "labs-one" and found.complete
    assert found.command == "./bench.sh labs one two --repeats 2"
    assert [point.server for point in found.points] == ["one"]


def test_several_have_a_folder_each(run: Call, tmp_path: Path) -> None:
    assert run("two", "one")[0] == 0
    for name in ("one", "two"):
        found = load(tmp_path / "out" / f"labs-{name}")
        assert found.mode == f"labs-{name}"
        assert found.command == f"./bench.sh labs {name} --repeats 2"
        assert [point.server for point in found.points] == [name]
    assert not (tmp_path / "out" / "labs-three").exists()


def test_all_by_default(run: Call, tmp_path: Path) -> None:
    assert run()[0] == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "labs-one", "labs-three", "labs-two",
    ]


def test_the_reference_is_replaced_whole(
    run: Call, tmp_path: Path
) -> None:
    old = tmp_path / "data" / "labs-one" / "raw"
    old.mkdir(parents=True)
    (old / "old.txt").write_text("of the last time")
    assert run("one", "two", reference=True)[0] == 0
    for name in ("one", "two"):
        assert load(tmp_path / "data" / f"labs-{name}").complete
    assert not old.exists()
    assert not (tmp_path / "out" / "labs-one").exists()


def test_a_lab_that_failed_is_no_reference(
    run: Call, labs: dict[str, Lab], tmp_path: Path
) -> None:
    labs["one"].status = 1
    assert run("one", "two", reference=True)[0] == 1
    assert not (tmp_path / "data" / "labs-one").exists()
    assert load(tmp_path / "data" / "labs-two").complete  # it goes on


def test_an_error_is_a_sentence_and_the_next_lab_runs(
    run: Call, labs: dict[str, Lab], tmp_path: Path
) -> None:
    labs["one"].error = OSError(28, "No space left on device")
    status, said = run("one", "two")
    assert status == 1 and "Stopped: No space left on device." in said
    assert load(tmp_path / "out" / "labs-two").complete
    assert not load(tmp_path / "out" / "labs-one").complete


def test_an_interrupt_ends_all_and_keeps_what_there_is(
    run: Call, labs: dict[str, Lab], tmp_path: Path
) -> None:
    labs["one"].error = KeyboardInterrupt()
    with pytest.raises(SystemExit) as ended:
        run("one", "two")
    assert ended.value.code == 130
    assert len(load(tmp_path / "out" / "labs-one").points) == 1
    assert not (tmp_path / "out" / "labs-two").exists()


def test_a_lab_that_measured_nothing_leaves_nothing(
    run: Call, labs: dict[str, Lab], tmp_path: Path
) -> None:
    labs["one"].measures, labs["one"].status = False, 2
    assert run("one", reference=True)[0] == 2
    assert not (tmp_path / "out").exists()


def test_the_real_labs_are_there_and_their_options_agree() -> None:
    assert {"chain", "gil"} <= set(x.names())
    parser = argparse.ArgumentParser()
    x.add_options(parser)  # two options of one name would end here
    options = parser.parse_args(["gil", "--gil-seconds", "0.1"])
    assert options.labs == ["gil"] and options.gil_seconds == 0.1
    for name in x.names():
        assert x.module(name).ABOUT.startswith(name)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nonsense",), "there is no lab 'nonsense'; there are "),
        (("gil", "--parts", "none"), "the lab has no part 'none'"),
        (("gil", "--parts", ","), "names no part"),
        (("gil", "--pythons", "python9"), "there is no interpreter python9"),
        (("gil", "--gil-seconds", "0"), "not a number from 0.05 to 60"),
        (("chain", "--servers", "apache"), "there is no server 'apache'"),
        (("chain", "--fetches", "0"), "not a number from 1"),
        (("chain", "--requests", "5"), "100 clients cannot share 5"),
    ],
)
def test_nonsense_is_one_sentence(words: tuple[str, ...], says: str) -> None:
    done = bench("labs", *words)
    assert done.returncode == 2
    assert says in done.stderr and done.stderr.startswith("bench.sh: ")
    assert done.stderr.count("\n") == 1


def test_help_names_the_labs() -> None:
    done = bench("labs", "--help")
    assert done.returncode == 0
    for name in x.names():
        assert f"  {name}: " in done.stdout
    assert "docs/data/labs-NAME" in done.stdout
