"""The lab about the GIL: its program on each interpreter, its figures."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labs.gil import measure
from tests.marks import Patch
from tests.process import HAS_GIL, eventually
from tests.tools.experiment import run
from tools.bench import interpreters
from tools.bench.experiments import labs
from tools.bench.experiments.lab import LabError
from tools.bench.interpreters import Interpreter, identify
from tools.common.launch import Launched
from tools.servers import ROOT
from tools.site.figures import FIGURES

FILE = ROOT / measure.FILE
PATIENCE = 300  # seconds, for a very busy machine
QUICK = ("--rounds", "1", "--seconds", "0.05", "--json")
thorough = pytest.mark.thorough


def lab(
    *words: str, program: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, str(FILE), *words], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )


@thorough
def test_every_interpreter_runs_it() -> None:
    for python in interpreters.find():
        done = lab(*QUICK, "--only", "compute", "--only", "hand-over",
                   "--only", "answer", program=python.program)
        assert done.returncode == 0, (python.label, done.stderr)
        assert len(measure.read(done.stdout)) == 11


@thorough
def test_smoke(tmp_path: Path, monkeypatch: Patch) -> None:
    """A round on this interpreter, and on one that is not there."""
    here = identify(sys.executable)
    gone = Interpreter("/a/python", "3.8", "3.8.1", False)
    monkeypatch.setattr(interpreters, "choose", lambda words: [gone, here])
    monkeypatch.setattr(measure, "CPUS", (1,))
    words = "gil", "--gil-seconds", "0.05", "--repeats", "1"
    status, kept = run(labs, tmp_path, *words)
    assert status == 1
    failed, good = kept.points
    assert (failed.server, failed.variant, failed.status, failed.reason) == (
        "3.8", "1 CPU", "failed", "/a/python: No such file or directory"
    )
    figures = good.runs[0].extra
    assert figures.pop("gil") == HAS_GIL
    assert set(figures) <= set(FIGURES)  # each has words for its axis
    assert len(figures) == 14 if shutil.which("ab") else 10
    assert all(value >= 0 for value in figures.values())
    if HAS_GIL:  # the hog keeps the GIL for the whole interval
        assert figures["answer_hog_usual_ms"] >= 4
        assert figures["answer_hog_long_ms"] >= 40
    assert good.runs[0].command.startswith(f"python{here.label} labs/gil/")
    assert here.version in kept.tools[f"python{here.label}"]


def test_the_table_has_medians_and_spread() -> None:
    done = lab("--rounds", "2", "--seconds", "0.05", "--only", "compute")
    assert done.returncode == 0, done.stderr
    _, line = done.stdout.splitlines()
    assert line.startswith("two computing threads do") and " to " in line


@pytest.mark.parametrize(("words", "says", "status"), [
    (("--rounds", "x"), "'x' is not a number", 2),
    (("--seconds", "0"), "not a number from 0.05 to 60", 2),
    (("--only", "nonsense"), "nonsense", 2),
    (("--cpus", "99"), "--cpus 99 cannot be: this process has", 1),
])
def test_nonsense_is_one_sentence(
    words: tuple[str, ...], says: str, status: int
) -> None:
    if words[0] == "--cpus" and sys.platform != "linux":
        pytest.skip("CPUs can be chosen on Linux only")
    done = lab(*words)
    assert done.returncode == status
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_without_ab_the_rest_is_measured(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = lab(*QUICK, "--only", "compute", "--only", "pool")
    assert list(json.loads(done.stdout)["figures"]) == ["efficiency"]
    assert "apt install apache2-utils" in done.stderr


def test_an_interrupt_ends_it_and_its_threads() -> None:
    words = (str(FILE), "--only", "hand-over", "--seconds", "60")
    with Launched([sys.executable, *words]) as child:
        # Interrupts before the threads run would not be the case we mean.
        assert eventually(lambda: child.threads() >= 3, PATIENCE)
        child.signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"figures": {}, "gil": true}',
    '{"figures": {"lock": []}, "gil": true}',
])
def test_other_output_is_no_figures(text: str) -> None:
    with pytest.raises(LabError):
        measure.read(text)
