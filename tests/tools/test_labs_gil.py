"""tools.bench.labs_gil: rounds of the lab, and what is kept of them."""

import argparse
import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import interpreters, preflight
from tools.bench import labs_gil as x
from tools.bench.x_threads import Interpreter, identify
from tools.data.results import Machine, Results, Run, load

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
THIS = identify(sys.executable)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def empty() -> Results:
    return Results(
        "./bench.sh labs gil", "labs-gil", "2026-01-01T00:00:00+00:00", "",
        MACHINE, {},
    )


def test_two_rounds_on_this_interpreter(tmp_path: Path) -> None:
    results, said = empty(), io.StringIO()
    status = x.run(
        options("--pythons", sys.executable, "--parts", "compute",
                "--gil-seconds", "0.05", "--repeats", "2"),
        results, tmp_path, Console(file=said, width=150),
    )
    assert status == 0
    kept = load(tmp_path)  # saved as it went
    cores = preflight.core_count()
    assert [p.variant for p in kept.points] == ["1 CPU", "2 CPUs"][:cores]
    for point in kept.points:
        assert (point.server, point.suite) == (THIS.label, "labs-gil")
        assert len(point.runs) == 2
        assert 0 < (point.median("efficiency_times") or 0) < 10
        assert point.median("gil") in (0.0, 1.0)
        assert point.runs[0].command.startswith(f"python{THIS.label} 03_thr")
    raw = tmp_path / "raw" / f"python{THIS.label}.txt"
    assert raw.read_text().count('"efficiency"') == 2 * len(kept.points)
    assert THIS.version in kept.tools[f"python{THIS.label}"]
    assert "two threads" in said.getvalue()


def test_rounds_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def measure(python: Interpreter, cpus: int, *rest: object) -> Run:
        seen.append((python.label, cpus))
        return Run("", extra={"lock_per_second": 1.0, "gil": 1.0})

    both = [Interpreter("", name, f"{name}.1", False) for name in ("3.8",
                                                                   "3.9")]
    monkeypatch.setattr(x, "measure", measure)
    monkeypatch.setattr(interpreters, "choose", lambda words: both)
    monkeypatch.setattr(preflight, "core_count", lambda: 8)
    console = Console(file=io.StringIO())
    assert x.run(options("--repeats", "2"), empty(), tmp_path, console) == 0
    turn = [("3.8", 1), ("3.8", 2), ("3.9", 1), ("3.9", 2)]
    assert seen == turn + turn


def test_a_machine_with_one_core_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, said = empty(), io.StringIO()
    monkeypatch.setattr(preflight, "core_count", lambda: 1)
    monkeypatch.setattr(
        x, "measure", lambda *_: Run("", extra={"gil": 1.0})
    )
    status = x.run(
        options("--pythons", sys.executable, "--repeats", "1"), results,
        tmp_path, Console(file=said),
    )
    assert status == 0
    assert [p.variant for p in results.points] == ["1 CPU"]
    assert "one CPU" in said.getvalue()


def test_a_lab_that_fails_is_a_failed_run(tmp_path: Path) -> None:
    broken = Interpreter("/bin/false", "3.8", "3.8.1", False)
    one = x.measure(broken, 1, 0.05, x.PARTS, tmp_path)
    assert one.error == "the lab ended with status 1"
    gone = Interpreter("/nowhere/python", "3.8", "3.8.1", False)
    one = x.measure(gone, 1, 0.05, x.PARTS, tmp_path)
    assert one.error and "does not run: No such file" in one.error


@pytest.mark.skipif(sys.platform != "linux", reason="--cpus is for Linux")
def test_what_the_lab_says_is_the_reason(tmp_path: Path) -> None:
    one = x.measure(THIS, 999, 0.05, ("compute",), tmp_path)
    assert one.error and "--cpus 999 cannot be" in one.error


def test_a_round_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(x.LabError, match="took more than"):
        x._output(["sleep", "1000"], 0.1)


def test_every_figure_has_a_unit() -> None:
    figures = {name: [2.0] for name in x.UNITS}
    found = x.read(json.dumps({"gil": False, "figures": figures}))
    assert found == {**dict.fromkeys(x.UNITS.values(), 2.0), "gil": 0.0}
    for name in x.UNITS.values():
        assert name.endswith(("_times", "_per_second", "_ms"))
    assert set(x.COLUMNS) <= set(x.UNITS.values())


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "[]", "{}", '{"figures": {}, "gil": true}',
     '{"figures": {"lock": []}, "gil": true}',
     '{"figures": {"unheard_of": [1]}, "gil": true}'],
)
def test_other_output_is_no_figures(text: str) -> None:
    with pytest.raises(x.LabError):
        x.read(text)
